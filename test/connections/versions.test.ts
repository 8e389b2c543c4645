// Several versions of Gatehouse share a store during a rolling upgrade.
import { expect } from 'chai';
import { createOpaqueToken, parseOpaqueToken } from '../../src/connections/opaque-token.ts';
import { createConnector } from '../support/management-api.ts';
import { connect, REDIRECT_URI } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { discover, refresh } from '../support/oauth.ts';
import { openSystemStore } from '../support/system-store.ts';
import { readStoredBytes } from '../support/stored-bytes.ts';
import { type System, useSystem } from '../support/system.ts';
import { postToken } from '../support/token-endpoints.ts';
import { recordsOfVersion1 } from './records-of-version-1.ts';

describe('Records of other versions of Gatehouse', () => {
  const system = useSystem();

  it('a client connected by records of version 1 can refresh and call', async () => {
    const { resource, origins } = system();
    const old = recordsOfVersion1(Date.now() / 1000, { resource, issuer: origins[2] ?? '' });
    const { store } = await openSystemStore(system());
    for (const [key, value] of Object.entries(old.values)) await store.set(key, value, 86_400);
    const keys = store.keyRing('codes and refresh tokens');
    await store.close();
    let token = createOpaqueToken(keys, old.grant, old.generation, old.seed);
    const { server } = await discover(old.link);
    const client = { id: old.client, method: 'none', redirectUri: REDIRECT_URI } as const;
    for (let n = 0; n < 2; n += 1) {
      const { status, body } = await refresh(server, client, token);
      expect({ status, error: body.error_description }).to.deep.equal({
        status: 200,
        error: undefined,
      });
      expect(await isAccepted(old.link, body.access_token)).to.equal(true);
      token = body.refresh_token ?? '';
    }
    expect(parseOpaqueToken(token)?.part).to.equal(old.generation + 2);
  });

  it('a grant of a newer version gets 503 and is not changed, and works where its version is known', async () => {
    const connection = await connect(system(), await createConnector(system()));
    const { server, client, link, accessToken, refreshToken } = connection;
    const grantId = parseOpaqueToken(refreshToken ?? '')?.grantId ?? '';
    await setVersion(system(), grantId, 2);
    const before = await readStoredBytes(system().storeAddress, 'grant:');

    const refreshed = await refresh(server, client, refreshToken);
    expect(refreshed.status).to.equal(503);
    expect(refreshed.body.error).to.equal('temporarily_unavailable');
    expect(Number(refreshed.headers.get('retry-after'))).to.be.above(0);
    const called = await callTool(link, accessToken, 'club_overview');
    expect([called.status, called.headers.has('www-authenticate')]).to.deep.equal([503, false]);
    const revoked = await postToken(server.revocation_endpoint, client, refreshToken);
    expect(revoked.status).to.equal(503);
    expect(await readStoredBytes(system().storeAddress, 'grant:')).to.deep.equal(before);

    await setVersion(system(), grantId, 1);
    const { status, body } = await refresh(server, client, refreshToken);
    expect(status).to.equal(200);
    expect(await isAccepted(link, body.access_token)).to.equal(true);
  });
});

async function setVersion(system: System, grantId: string, version: number): Promise<void> {
  const { store } = await openSystemStore(system);
  await store.update<{ version: number }>(`grant:${grantId}`, (record) => ({
    value: { ...record, version },
    ttl: 86_400,
  }));
  await store.close();
}
