// The setting `authorization.requireDpop` (RFC 9449).
import { readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { parse } from 'yaml';
import { z } from 'zod';
import {
  connect,
  type Connection,
  obtainCode,
  openConsent,
  redeem,
} from '../support/connection.ts';
import {
  callBound,
  connectBound,
  generateProofKey,
  redeemBound,
  refreshBound,
  statusAndError,
} from '../support/dpop.ts';
import {
  type Connector,
  createConnector,
  readAudit,
  requestManagement,
  showGrant,
} from '../support/management-api.ts';
import { call, callTool, isAccepted } from '../support/mcp.ts';
import { refresh, type TokenResponse } from '../support/oauth.ts';
import {
  createDeployment,
  type Deployment,
  onEachStore,
  startDeployment,
  type System,
} from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import { until } from '../support/until.ts';

const RESOURCE_SERVER = {
  id: 'figures-api',
  secret: 'secret-of-the-figures-api-0123456789',
  method: 'client_secret_basic',
} as const;

const introspectionClients = [{ id: RESOURCE_SERVER.id, secret: RESOURCE_SERVER.secret }];

/** Starts the deployment with another value of the setting. */
async function startRequiring(deployment: Deployment, requireDpop: string): Promise<System> {
  const { GATEHOUSE_CONFIG: config = '', GATEHOUSE_DATA_DIR: directory = '' } =
    deployment.environment;
  const changed = join(directory, `${requireDpop}.yaml`);
  const settings = parse(readFileSync(config, 'utf8'));
  const authorization = { requireDpop, introspectionClients };
  await writeFile(changed, JSON.stringify({ ...settings, authorization }));
  return startDeployment(deployment, { GATEHOUSE_CONFIG: changed });
}

const scopeOf = ({ status, body }: TokenResponse) => [
  status,
  body.token_type,
  body.scope,
  decodeJwt(body.access_token ?? '').scope,
];
const levelOf = async (system: System, token: string | undefined) =>
  (await showGrant(system, String(decodeJwt(token ?? '').grant_id))).level;
const STAYS = 'offline_access';

describe('A level that requires DPoP', () => {
  let deployment: Deployment;
  let system: System;
  let connector: Connector;
  /** From before the setting. */
  let earlier: Connection;
  let minted: string;
  before(async () => {
    deployment = await createDeployment();
    system = await startDeployment(deployment);
    connector = await createConnector(system, { level: 'full' });
    earlier = await connect(system, connector, { level: 'full' });
    const body = { name: 'Nightly', level: 'full' };
    const answer = z.object({ token: z.string() });
    minted = answer.parse(await requestManagement(system, 'POST', '/tokens', body)).token;
    await system.stop();
    system = await startRequiring(deployment, 'full');
  });
  after(async () => {
    await system.stop();
    await deployment.release();
  });

  async function isActive(token: string | undefined): Promise<unknown> {
    const { text } = await postToken(`${system.auth}/oauth/introspect`, RESOURCE_SERVER, token);
    return JSON.parse(text).active;
  }

  it('AUD-14 an exchange without DPoP gets the next lower level, which the response, the grant and later refreshes state', async () => {
    const code = await obtainCode(system, connector, { level: 'full' });
    const first = await redeem(code);
    expect(scopeOf(first)).to.deep.equal([200, 'Bearer', `admin ${STAYS}`, 'admin']);
    expect(await isAccepted(connector.link, first.body.access_token)).to.equal(true);
    const grantId = String(decodeJwt(first.body.access_token ?? '').grant_id);
    const grant = await showGrant(system, grantId);
    expect([grant.level, grant.state]).to.deep.equal(['admin', 'active']);
    expect(grant.refusals.map(({ reason }) => reason)).to.deep.equal(['dpop_required']);
    const isOfGrant = (item: { grantId?: string | undefined }) => item.grantId === grantId;
    const events = await until('the lower level in the audit log', async () => {
      const items = (await readAudit(system)).filter(isOfGrant);
      return items.length > 1 ? items : undefined;
    });
    expect(events.map(({ event, reason }) => [event, reason])).to.have.deep.members([
      ['consent_approved', undefined],
      ['level_lowered', 'dpop_required'],
    ]);
    const { server, client } = code;
    const second = await refresh(server, client, first.body.refresh_token);
    expect(scopeOf(second)).to.deep.equal([200, 'Bearer', `admin ${STAYS}`, 'admin']);
    const key = await generateProofKey();
    const bound = { key, link: connector.link, server, client, accessToken: '' };
    const third = await refreshBound({ ...bound, refreshToken: second.body.refresh_token });
    expect(scopeOf(third)).to.deep.equal([200, 'DPoP', `admin ${STAYS}`, 'admin']);
  });

  it('AUD-14 an exchange with DPoP gets the level, without a refresh token too, and lower levels need no proof', async () => {
    for (const stay of [true, false]) {
      const connection = await connectBound(system, connector, { level: 'full', stay });
      expect(decodeJwt(connection.accessToken).scope).to.equal('full');
      expect(await levelOf(system, connection.accessToken)).to.equal('full');
      expect((await callBound(connection)).status).to.equal(200);
      expect(await isActive(connection.accessToken)).to.equal(true);
      if (stay) {
        const refreshed = await refreshBound(connection);
        expect(scopeOf(refreshed)).to.deep.equal([200, 'DPoP', `full ${STAYS}`, 'full']);
      }
    }
    const { accessToken } = await connect(system, connector, { level: 'admin' });
    expect(await levelOf(system, accessToken)).to.equal('admin');
    expect(await isActive(accessToken)).to.equal(true);
  });

  it('AUD-14 a client with a secret that leaves out the proof at a refresh gets the lower level for that token only', async () => {
    const connection = await connectBound(system, connector, {
      level: 'full',
      method: 'client_secret_basic',
    });
    const { server, client, refreshToken } = connection;
    const unbound = await refresh(server, client, refreshToken);
    expect(scopeOf(unbound)).to.deep.equal([200, 'Bearer', `admin ${STAYS}`, 'admin']);
    const token = unbound.body.refresh_token;
    expect(scopeOf(await refreshBound(connection, { token }))).to.deep.equal([
      200,
      'DPoP',
      `full ${STAYS}`,
      'full',
    ]);
  });

  it('AUD-14 a token from before the setting is refused with a challenge of both schemes, and a refresh gives the lower level', async () => {
    const { link, server, client, accessToken, refreshToken } = earlier;
    const refused = await callTool(link, accessToken, 'club_overview');
    expect(refused.status).to.equal(401);
    expect(refused.headers.get('www-authenticate')).to.match(
      /^Bearer error="invalid_token", resource_metadata="[^"]+", scope="full", DPoP algs="ES256 /,
    );
    expect(refused.text).to.contain('must be bound to a key');
    expect(await isActive(accessToken)).to.equal(false);
    const refreshed = await refresh(server, client, refreshToken);
    expect(scopeOf(refreshed)).to.deep.equal([200, 'Bearer', `admin ${STAYS}`, 'admin']);
    expect(await isAccepted(link, refreshed.body.access_token)).to.equal(true);
    // Anybody who copied the refresh token could make a key.
    const key = await generateProofKey();
    const bound = { key, link, server, client, accessToken: '' };
    const proven = await refreshBound({ ...bound, refreshToken: refreshed.body.refresh_token });
    expect(scopeOf(proven)).to.deep.equal([200, 'DPoP', `admin ${STAYS}`, 'admin']);
  });

  it('AUD-14 a call that needs the level says that it needs DPoP, and asks only clients with DPoP to sign in again', async () => {
    const memberId = 'M0001';
    const unbound = await connect(system, connector, { level: 'full' });
    const refused = await callTool(connector.link, unbound.accessToken, 'payment_details', {
      memberId,
    });
    expect([refused.status, refused.rpc?.result?.isError]).to.deep.equal([200, true]);
    expect(refused.text).to.match(/Only an app that supports DPoP .* full here/);
    const bound = await connectBound(system, connector, { level: 'admin' });
    const params = { name: 'payment_details', arguments: { memberId } };
    const call = { jsonrpc: '2.0', id: 1, method: 'tools/call', params };
    const asked = await callBound(bound, {}, call);
    expect(asked.status).to.equal(403);
    expect(asked.headers.get('www-authenticate')).to.match(
      /^DPoP error="insufficient_scope".* scope="full"/,
    );
  });

  it('AUD-14 minted tokens are exempt, and the metadata does not require DPoP of every token', async () => {
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    expect((await call(`${system.resource}/mcp`, minted, ping)).status).to.equal(200);
    const metadata = await fetch(
      connector.link.replace('/connect', '/.well-known/oauth-protected-resource/connect'),
    );
    expect(await metadata.json()).to.not.have.property('dpop_bound_access_tokens_required');
  });

  it('CON-22 the page says what an app without DPoP gets, unless the request names its key', async () => {
    const note =
      /hasn’t announced it, and gets only <strong>Names and contact details<\/strong> without it\./;
    const { page } = await openConsent(system, connector);
    expect(page.html.match(new RegExp(note, 'g'))).to.have.length(1);
    const { thumbprint } = await generateProofKey();
    const parameters = { dpop_jkt: thumbprint };
    expect((await openConsent(system, connector, { parameters })).page.html).to.not.match(/DPoP/);
  });
});

describe('DPoP required at every level', () => {
  let deployment: Deployment;
  let system: System;
  let connector: Connector;
  let earlier: Connection;
  before(async () => {
    deployment = await createDeployment();
    system = await startDeployment(deployment);
    connector = await createConnector(system, { level: 'operations' });
    earlier = await connect(system, connector);
    await system.stop();
    system = await startRequiring(deployment, 'analytics');
  });
  after(async () => {
    await system.stop();
    await deployment.release();
  });

  it('AUD-14 an exchange without DPoP is invalid_dpop_proof and says what to do, and the code stays valid', async () => {
    const code = await obtainCode(system, connector);
    const refused = await redeem(code);
    expect(statusAndError(refused)).to.deep.equal([400, 'invalid_dpop_proof']);
    expect(refused.body.error_description).to.match(/send a DPoP proof \(RFC 9449\)/);
    const key = await generateProofKey();
    expect(statusAndError(await redeemBound(key, code))).to.deep.equal([200, undefined]);
  });

  it('AUD-14 a refresh token that is not bound gets invalid_grant, which the grant explains, and a client with a secret is asked for a proof', async () => {
    const { server, client, refreshToken, accessToken } = earlier;
    const key = await generateProofKey();
    const bound = { ...earlier, key };
    for (const refused of [await refresh(server, client, refreshToken), await refreshBound(bound)])
      expect(statusAndError(refused)).to.deep.equal([400, 'invalid_grant']);
    const grant = await showGrant(system, String(decodeJwt(accessToken).grant_id));
    expect(grant.refusals.map(({ reason }) => reason)).to.deep.equal(['dpop_required']);
    const confidential = await connectBound(system, connector, { method: 'client_secret_post' });
    const asked = await refresh(
      confidential.server,
      confidential.client,
      confidential.refreshToken,
    );
    expect(statusAndError(asked)).to.deep.equal([400, 'invalid_dpop_proof']);
    expect((await refreshBound(confidential)).status).to.equal(200);
  });

  it('AUD-14 the metadata of the link requires bound tokens, and the page says that other apps cannot connect', async () => {
    const metadata = await fetch(
      connector.link.replace('/connect', '/.well-known/oauth-protected-resource/connect'),
    );
    expect(await metadata.json()).to.include({ dpop_bound_access_tokens_required: true });
    const { page } = await openConsent(system, connector);
    expect(page.html).to.match(
      /Only for apps with extra protection against stolen access \(DPoP\)\. Other apps can’t connect\./,
    );
  });
});

onEachStore(
  'Concurrent exchanges at a level that requires DPoP',
  (system) => {
    it('AUD-14 of concurrent exchanges with and without DPoP one succeeds, and the grant has its level', async () => {
      const { link } = await createConnector(system(), { level: 'full' });
      for (const stay of [true, false]) {
        const code = await obtainCode(system(), { link }, { level: 'full', stay });
        const key = await generateProofKey();
        const racing = await Promise.all([
          redeem(code),
          redeemBound(key, code),
          redeem(code),
          redeemBound(key, code),
        ]);
        const [first, ...others] = racing.filter(({ status }) => status === 200);
        expect(others).to.deep.equal([]);
        const token = first?.body.access_token ?? '';
        const { scope, cnf } = decodeJwt(token);
        expect(scope).to.equal(cnf === undefined ? 'admin' : 'full');
        expect(await levelOf(system(), token)).to.equal(scope);
      }
    });
  },
  { file: { authorization: { requireDpop: 'full' } } },
);
