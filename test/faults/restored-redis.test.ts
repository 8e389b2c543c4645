// Follows the procedure of config/operating.md.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import { mint, revoke as revokeMinted } from '../links/minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import { createConnector, readAudit, revokeConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from '../support/system.ts';

describe('A Redis store restored from a backup', () => {
  let dir: string;
  let port: number;
  let redis: RedisServer | undefined;
  let deployment: Deployment;
  let system: System | undefined;

  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'gatehouse-restore-'));
    [port = 0] = await freePorts(1);
    redis = await startRedis({ port, dataDir: dir });
    deployment = await createDeployment({ storeAddress: redis.url });
  });
  afterEach(async () => {
    await stopAll();
    await redis?.stop();
    await deployment.release();
    await rm(dir, { recursive: true, force: true });
  });

  async function stopAll(): Promise<void> {
    await system?.stop();
    system = undefined;
  }

  async function start(settings: Record<string, string> = {}): Promise<System> {
    system = await startDeployment(deployment, settings);
    return system;
  }

  async function backUp(): Promise<void> {
    const client = new Redis(port);
    await client.config('SET', 'auto-aof-rewrite-percentage', 0);
    await until('the rewrite to end', async () =>
      (await client.info('persistence')).includes('aof_rewrite_in_progress:0'),
    );
    await cp(join(dir, 'appendonlydir'), join(dir, 'backup'), { recursive: true });
    client.disconnect();
  }

  async function restore(): Promise<void> {
    await redis?.stop('SIGTERM');
    await rm(join(dir, 'appendonlydir'), { recursive: true });
    await cp(join(dir, 'backup'), join(dir, 'appendonlydir'), { recursive: true });
    redis = await startRedis({ port, dataDir: dir });
  }

  it('CNX-10 after a restore, revocations are repeated while only the management role runs', async () => {
    let running = await start();
    const connector = await createConnector(running);
    const kept = await createConnector(running);
    const ada = await connect(running, connector);
    const grace = await connect(running, kept, { person: 'grace' });
    const minted = await mint(running);
    await backUp();
    await revokeConnector(running, connector.id);
    await revokeMinted(running, minted.id);
    const items = await readAudit(running);
    await stopAll();
    await restore();

    running = await start({ GATEHOUSE_ROLES: 'management' });
    expect(await fetch(ada.link).catch(() => 'unreachable')).to.equal('unreachable');
    for (const { event, connector: id, clientId } of items) {
      if (event === 'connector_revoked') await revokeConnector(running, String(id));
      if (event === 'token_revoked')
        await revokeMinted(running, String(clientId).replace('minted:', ''));
    }
    await stopAll();

    running = await start();
    expect((await callTool(ada.link, ada.accessToken, 'club_overview')).status).to.equal(410);
    const refused = await refresh(ada.server, ada.client, ada.refreshToken);
    expect(refused.body.error).to.equal('invalid_grant');
    expect(await isAccepted(`${running.resource}/mcp`, minted.token)).to.equal(false);
    expect(await isAccepted(kept.link, grace.accessToken)).to.equal(true);
    expect((await refresh(grace.server, grace.client, grace.refreshToken)).status).to.equal(200);
  });

  it('a restore without the procedure makes revoked links active again', async () => {
    let running = await start();
    const connector = await createConnector(running);
    const ada = await connect(running, connector);
    await backUp();
    await revokeConnector(running, connector.id);
    await stopAll();
    await restore();
    running = await start();
    expect(await isAccepted(ada.link, ada.accessToken)).to.equal(true);
  });

  it('Redis with append-only files does not load a snapshot alone, so a snapshot is no backup', async () => {
    const client = new Redis(port);
    await client.set('kept', 'yes');
    await client.save();
    client.disconnect();
    await redis?.stop();
    await rm(join(dir, 'appendonlydir'), { recursive: true });
    redis = await startRedis({ port, dataDir: dir });
    const again = new Redis(port);
    expect(await again.get('kept')).to.equal(null);
    again.disconnect();
  });
});
