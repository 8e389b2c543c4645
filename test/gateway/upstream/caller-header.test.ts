import { Agent, request } from 'node:http';
import { expect } from 'chai';
import { decodeJwt, decodeProtectedHeader, importJWK, type JWK, SignJWT } from 'jose';
import { loadSigningKeys } from '../../../src/keys/signing-keys.ts';
import { advanceClock } from '../../support/clock.ts';
import { call, callTool } from '../../support/mcp.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { postToken } from '../../support/token-endpoints.ts';
import { PING, startScriptedUpstream } from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

describe('The caller header', () => {
  const behind = useUpstream(startScriptedUpstream);

  async function headerOf(level: 'analytics' | 'operations', ceiling = level): Promise<string> {
    const { link, token } = await behind().connected(level, ceiling);
    await call(link, token, PING);
    return String(behind().upstream.received.at(-1)?.headers['gatehouse-caller']);
  }

  it('UPS-21 the caller header states person, client, connector and level, and expires after a minute', async () => {
    const { connector, connection, token } = await behind().connected('operations');
    const header = await headerOf('operations');
    expect(decodeProtectedHeader(header)).to.include({ alg: 'ES256', typ: 'gatehouse-caller+jwt' });
    const { iat = 0, exp = 0, ...claims } = decodeJwt(header);
    expect(claims).to.deep.equal({
      iss: behind().system.auth,
      aud: behind().upstream.url,
      sub: decodeJwt(token).sub,
      client_id: connection.client.id,
      connector: connector.id,
      level: 'operations',
    });
    expect(exp - iat).to.equal(60);
  });

  it('the caller header is signed at most once in half a minute per caller, and never shared between callers', async () => {
    const first = await headerOf('operations');
    expect(await headerOf('operations')).to.equal(first);
    expect(await headerOf('analytics')).to.not.equal(first);
    advanceClock(31);
    const later = await headerOf('operations');
    expect(later).to.not.equal(first);
    expect((decodeJwt(later).exp ?? 0) - Date.now() / 1000).to.be.above(29);
  });

  it('requests with different tokens on one connection are those of different callers', async () => {
    const { link, token } = await behind().connected('operations', 'operations');
    const other = await behind().connected('analytics', 'operations');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const status = (authorization: string, to = link) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { authorization, 'content-type': 'application/json', accept: '*/*' };
        const sent = request(to, { method: 'POST', agent, headers }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode));
        });
        sent.once('error', reject).end(JSON.stringify(PING));
      });
    const callerOf = () =>
      decodeJwt(String(behind().upstream.received.at(-1)?.headers['gatehouse-caller']));
    try {
      for (const turn of [1, 2]) {
        expect(await status(`Bearer ${token}`), `turn ${turn}`).to.equal(200);
        expect(callerOf()).to.include({ level: 'operations' });
        expect(await status(`Bearer ${other.token}`, other.link)).to.equal(200);
        expect(callerOf()).to.include({ level: 'analytics' });
        expect(await status(`Bearer ${token.slice(0, -4)}AAAA`)).to.equal(401);
        expect(await status(`DPoP ${token}`)).to.equal(401);
      }
    } finally {
      agent.destroy();
    }
  });

  it('the caller header is not accepted as an access token', async () => {
    const { link, connection } = await behind().connected('operations');
    const header = await headerOf('operations');
    for (const at of [link, `${behind().system.resource}/mcp`])
      expect((await call(at, header, PING)).status).to.equal(401);
    const { client, server } = connection;
    await postToken(server.revocation_endpoint, client, header);
    expect((await call(link, connection.accessToken, PING)).status).to.equal(200);
  });

  it("the caller header's type differs from that of an access token", async () => {
    const { link, token } = await behind().connected('operations');
    const { store } = await openSystemStore(behind().system);
    const [key] = await loadSigningKeys(store, Date.now() / 1000);
    await store.close();
    const sign = async (typ: string) =>
      new SignJWT(decodeJwt(token))
        .setProtectedHeader({ alg: 'ES256', typ, kid: key?.jwk.kid ?? '' })
        .sign(await importJWK(key?.jwk as JWK, 'ES256'));
    expect((await call(link, await sign('at+jwt'), PING)).status).to.equal(200);
    expect((await call(link, await sign('gatehouse-caller+jwt'), PING)).status).to.equal(401);
  });

  it('UPS-21 the upstream rejects an access token, a missing header and a header sent by a client', async () => {
    const { link, token } = await behind().connected('operations');
    const { upstream } = behind();
    const header = await headerOf('operations');
    const before = upstream.received.length;
    const direct = (caller?: string) =>
      fetch(upstream.url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(caller ? { 'gatehouse-caller': caller } : {}),
        },
        body: JSON.stringify(PING),
      });
    for (const caller of [undefined, token, `${header}x`])
      expect((await direct(caller)).status).to.equal(401);
    expect(upstream.received).to.have.length(before);
    expect((await direct(header)).status).to.equal(200);
    const headers = { 'gatehouse-caller': 'made.up.it' };
    expect((await callTool(link, token, 'whoami', {})).status).to.equal(200);
    expect((await call(link, token, PING, { headers })).status).to.equal(200);
    expect(upstream.wire()).to.not.include('made.up.it');
  });
});
