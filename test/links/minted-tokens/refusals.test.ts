// RFC 6750, RFC 8707.
import { expect } from 'chai';
import { decodeJwt, type JWTPayload } from 'jose';
import { until } from '../../support/until.ts';
import { createConnector } from '../../support/management-api.ts';
import { advanceClock, freezeClock } from '../../support/clock.ts';
import { connect } from '../../support/connection.ts';
import { call, callTool, isAccepted } from '../../support/mcp.ts';
import { openSystemStore } from '../../support/system-store.ts';
import { resignToken } from '../../support/resign-token.ts';
import { onEachStore, type System, useSystem } from '../../support/system.ts';
import { addressOf, findListed, mint, revoke } from './minting.ts';

/** Longest time that the record of a token is cached. */
const FRESH = 10;

/** Refused with an explanation, and without a challenge that would start a sign-in. */
async function expectRefused(system: System, token: string | undefined): Promise<void> {
  const { status, headers, text, rpc } = await callTool(addressOf(system), token, 'club_overview');
  expect(status, text).to.equal(401);
  expect(headers.get('www-authenticate')).to.equal('Bearer');
  expect(headers.get('cache-control')).to.equal('no-store');
  expect(rpc?.error?.message).to.include('connect link').and.include('minted token');
  if (token) expect(text).to.not.include(token);
}

/** Changes claims of a token and keeps its signature. */
function tamper(token: string, claims: JWTPayload): string {
  const [header, , signature] = token.split('.');
  const changed = JSON.stringify({ ...decodeJwt(token), ...claims });
  return [header, Buffer.from(changed).toString('base64url'), signature].join('.');
}

onEachStore('A rejected minted token', (system) => {
  it('STK-03 a revoked token is rejected at once', async () => {
    const { id, token } = await mint(system());
    const other = await mint(system());
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    expect(await revoke(system(), id)).to.include({ id, name: 'Nightly report' });
    await until('the token to be refused', async () => {
      return !(await isAccepted(addressOf(system()), token));
    });
    await expectRefused(system(), token);
    expect(await isAccepted(addressOf(system()), other.token)).to.equal(true);
    expect(await findListed(system(), id)).to.equal(undefined);
  });

  it('STK-03 a token whose record is lost is rejected within ten seconds, without a published change', async () => {
    const { id, token } = await mint(system());
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    const { store } = await openSystemStore(system());
    await store.delete(`minted-token:${id}`);
    await store.close();
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    advanceClock(FRESH);
    await expectRefused(system(), token);
    expect(await findListed(system(), id)).to.equal(undefined);
  });

  it('a token is accepted until it expires, and rejected from then on', async () => {
    freezeClock();
    const { id, token } = await mint(system(), { expiresIn: '1h' });
    advanceClock(3600 - 5);
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
    advanceClock(6);
    await expectRefused(system(), token);
    expect(await findListed(system(), id)).to.equal(undefined);
  });

  it('a use that is concurrent with the revocation does not restore the token', async () => {
    const { id, token } = await mint(system());
    const use = () => callTool(addressOf(system()), token, 'club_overview');
    await Promise.all([use(), use(), revoke(system(), id), use(), use()]);
    advanceClock(FRESH);
    await expectRefused(system(), token);
    expect(await findListed(system(), id)).to.equal(undefined);
  });

  it('STK-02 STK-04 a token of one address is rejected at every other address', async () => {
    const connection = await connect(system(), await createConnector(system()));
    const { token } = await mint(system());
    expect(await isAccepted(connection.link, connection.accessToken)).to.equal(true);
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);

    await expectRefused(system(), connection.accessToken);
    const { status, headers } = await callTool(connection.link, token, 'club_overview');
    expect(status).to.equal(401);
    expect(headers.get('www-authenticate')).to.match(/error="invalid_token".*resource_metadata=/);
  });
});

describe('The address /mcp', () => {
  const system = useSystem();

  it('a request without a token is told what to do and offered no sign-in, for every method', async () => {
    await expectRefused(system(), undefined);
    for (const method of ['GET', 'DELETE', 'PUT', 'PATCH']) {
      const response = await fetch(addressOf(system()), { method });
      expect(response.status, method).to.equal(401);
      expect(response.headers.get('www-authenticate'), method).to.equal('Bearer');
      expect(await response.text()).to.include('minted token');
    }
  });

  it('the token is checked before the message', async () => {
    const { status, headers } = await call(addressOf(system()), undefined, [7]);
    expect(status).to.equal(401);
    expect(headers.get('www-authenticate')).to.equal('Bearer');
  });

  it('the address has no protected resource metadata', async () => {
    const { resource } = system();
    for (const path of ['/.well-known/oauth-protected-resource/mcp', '/mcp/.well-known/x']) {
      const response = await fetch(resource + path);
      await response.text();
      expect(response.status, path).to.equal(404);
    }
  });

  it('a token with changed claims is rejected', async () => {
    const { token } = await mint(system(), { level: 'analytics' });
    const { token: other } = await mint(system(), { level: 'full' });
    const [header, claims, signature = ''] = token.split('.');
    for (const changed of [
      tamper(token, { scope: 'full' }),
      tamper(token, { exp: 4_102_444_800 }),
      tamper(token, { jti: String(decodeJwt(other).jti) }),
      [header, claims, other.split('.')[2]].join('.'),
      [header, claims, ''].join('.'),
      [header, claims, signature.slice(0, -4)].join('.'),
      [Buffer.from('{"alg":"none"}').toString('base64url'), claims, ''].join('.'),
      `${token}x`,
      'nonsense',
    ])
      await expectRefused(system(), changed);
    expect(await isAccepted(addressOf(system()), token)).to.equal(true);
  });

  it('STK-03 a token that was not minted is rejected, even if the right key signed it', async () => {
    const { id, token } = await mint(system());
    expect(await isAccepted(addressOf(system()), await resignToken(system(), token, {}))).to.equal(
      true,
    );
    for (const claims of [
      { jti: '0'.repeat(32) },
      { jti: `${id}0` },
      { jti: '../connector' },
      { jti: undefined },
      { aud: system().resource },
      { aud: `${addressOf(system())}/` },
      { aud: [addressOf(system()), system().resource] },
      { iss: system().resource },
      { scope: 'root' },
      { scope: undefined },
      { exp: undefined },
      { sub: undefined },
    ])
      await expectRefused(system(), await resignToken(system(), token, claims));
  });

  it("a token's level is limited by its record, even if the right key signed a higher one", async () => {
    const { token } = await mint(system(), { level: 'analytics' });
    const raised = await resignToken(system(), token, { scope: 'full' });
    const { rpc } = await callTool(addressOf(system()), raised, 'find_members');
    expect(rpc?.result?.isError).to.equal(true);
  });

  it('RSV-03 a token outside the Authorization header is ignored', async () => {
    const { token } = await mint(system());
    const headers = { 'content-type': 'application/json', cookie: `access_token=${token}` };
    const response = await fetch(`${addressOf(system())}?access_token=${token}`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ access_token: token, jsonrpc: '2.0', id: 1, method: 'tools/list' }),
    });
    expect(response.status).to.equal(401);
    expect(await response.text()).to.not.include(token);
  });
});
