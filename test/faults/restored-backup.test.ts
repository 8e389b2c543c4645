// Follows the procedure of config/operating.md.
import { copyFile } from 'node:fs/promises';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { mint, revoke as revokeMinted } from '../links/minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import {
  changeAccount,
  createConnector,
  readAudit,
  revokeConnector,
} from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';

describe('A SQLite store restored from a backup', () => {
  let deployment: Deployment;
  let system: System | undefined;
  beforeEach(async () => {
    deployment = await createDeployment();
  });
  afterEach(async () => {
    await shutDown();
    await deployment.release();
  });

  async function shutDown(): Promise<void> {
    const running = system;
    system = undefined;
    await running?.stop();
  }

  async function start(settings: Record<string, string> = {}): Promise<System> {
    system = await startDeployment(deployment, settings);
    await until('new connections to work', async () => {
      const answer = await fetch(`${deployment.facts.management}/livez`).catch(() => undefined);
      return answer?.ok;
    });
    return system;
  }

  it('CNX-10 after a restore, revocations are repeated from the audit log before the public hosts are reachable', async () => {
    const file = deployment.facts.storeAddress.replace('sqlite:', '');
    let running = await start();
    const connector = await createConnector(running);
    const kept = await createConnector(running);
    const ada = await connect(running, connector);
    const grace = await connect(running, kept, { person: 'grace' });
    const minted = await mint(running);
    await shutDown();
    await copyFile(file, `${file}.backup`);

    running = await start();
    await revokeConnector(running, connector.id);
    await revokeMinted(running, minted.id);
    await changeAccount(running, String(decodeJwt(grace.accessToken).sub), 'disable');
    const items = await readAudit(running);
    await shutDown();
    await copyFile(`${file}.backup`, file);

    const [auth, resource] = await freePorts(2);
    running = await start({
      GATEHOUSE_AUTH_LISTEN: `127.0.0.1:${auth}`,
      GATEHOUSE_RESOURCE_LISTEN: `127.0.0.1:${resource}`,
    });
    expect((await fetch(ada.link).catch(() => undefined))?.status).to.equal(undefined);
    for (const { event, connector: id, clientId, account } of items) {
      if (event === 'connector_revoked') await revokeConnector(running, String(id));
      if (event === 'token_revoked')
        await revokeMinted(running, String(clientId).replace('minted:', ''));
      if (event === 'account_disabled') await changeAccount(running, String(account), 'disable');
    }

    await shutDown();
    running = await start();
    expect((await callTool(ada.link, ada.accessToken, 'club_overview')).status).to.equal(410);
    for (const { server, client, refreshToken } of [ada, grace])
      expect((await refresh(server, client, refreshToken)).body.error).to.equal('invalid_grant');
    expect((await callTool(kept.link, grace.accessToken, 'club_overview')).status).to.equal(401);
    expect(await isAccepted(`${running.resource}/mcp`, minted.token)).to.equal(false);
    const { accessToken } = await connect(running, kept);
    expect(await isAccepted(kept.link, accessToken)).to.equal(true);
  });
});
