// RFC 6750, RFC 9728.
import { expect } from 'chai';
import { createConnector, revokeConnector, type Connector } from '../support/management-api.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, obtainCode, redeem } from '../support/connection.ts';
import { call, isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { rawRequest, type RawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };

describe('A request without a valid token', () => {
  const system = useSystem();

  /** The exact response body of the challenge. */
  function challenge({ id, level }: Connector): string {
    const metadata = `${system().resource}/.well-known/oauth-protected-resource/connect/${id}/mcp`;
    return `Bearer resource_metadata="${metadata}", scope="${level}"`;
  }

  function ask({ link }: Connector, options: RawRequest) {
    const { host, pathname } = new URL(link);
    return rawRequest(link, { path: pathname, ...options, headers: { host, ...options.headers } });
  }

  it('RSV-04 every method is challenged before the message is read', async () => {
    const connector = await createConnector(system());
    const messages: RawRequest[] = [
      {},
      { headers: { accept: 'text/html' } },
      { headers: { 'content-type': 'text/plain' }, chunks: ['nonsense'] },
      { headers: { 'content-type': 'application/json' }, chunks: ['{'] },
      { headers: { 'mcp-protocol-version': '1900-01-01', 'mcp-session-id': 'x' } },
      { headers: { authorization: 'Basic YTpi' } },
    ];
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']) {
      for (const message of messages) {
        const { status, headers } = await ask(connector, { method, ...message });
        expect(status, method).to.equal(401);
        expect(headers['www-authenticate']).to.equal(challenge(connector));
        expect(headers['access-control-expose-headers']).to.match(/www-authenticate/i);
      }
    }
  });

  it('RSV-04 a malformed token is invalid_token', async () => {
    const connector = await createConnector(system());
    for (const token of ['x', 'a.b.c', 'x'.repeat(9000), 'Bearer', '"', 'ey.ey.ey']) {
      const headers = { authorization: `Bearer ${token}` };
      const { status, headers: got } = await ask(connector, { method: 'POST', headers });
      expect(status, token).to.equal(401);
      expect(got['www-authenticate']).to.include(challenge(connector).slice('Bearer '.length));
      expect(got['www-authenticate']).to.match(/^Bearer .*error="invalid_token"/);
    }
  });

  it('RSV-03 a token outside the Authorization header is ignored', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    const { pathname } = new URL(connector.link);
    const misplaced: RawRequest[] = [
      { path: `${pathname}?access_token=${accessToken}` },
      { headers: { cookie: `access_token=${accessToken}` } },
      {
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        chunks: [`access_token=${accessToken}`],
      },
    ];
    for (const request of misplaced)
      expect((await ask(connector, { method: 'POST', ...request })).status).to.equal(401);
  });

  it('a client that accepts any type gets a result of the sample', async () => {
    const { link, accessToken } = await connect(system(), await createConnector(system()));
    for (const accept of ['*/*', 'application/*', 'text/*, application/*']) {
      const { status, rpc } = await call(link, accessToken, PING, { headers: { accept } });
      expect([status, rpc?.result], accept).to.deep.equal([200, {}]);
    }
  });

  it('RSV-01 an expired token is invalid_token', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    advanceClock(3540);
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
    advanceClock(120);
    const { status, headers } = await call(connector.link, accessToken, PING);
    expect(status).to.equal(401);
    expect(headers.get('www-authenticate')).to.include('error="invalid_token"');
  });

  it('RSV-08 a request from a foreign origin is refused before authentication', async () => {
    const connector = await createConnector(system());
    const { accessToken } = await connect(system(), connector);
    for (const origin of ['https://evil.example', 'null', 'http://localhost.evil.example']) {
      const { status, headers } = await call(connector.link, accessToken, PING, {
        headers: { origin },
      });
      expect(status, origin).to.equal(403);
      expect(headers.has('www-authenticate')).to.equal(false);
      const unknown = connector.link.replace(connector.id, 'x'.repeat(22));
      expect((await call(unknown, undefined, PING, { headers: { origin } })).status).to.equal(403);
    }
    for (const origin of [system().auth, system().resource, 'http://localhost:6274']) {
      const { status } = await call(connector.link, accessToken, PING, { headers: { origin } });
      expect(status, origin).to.equal(200);
    }
  });
});

describe('The connect link at the resource server', () => {
  const system = useSystem();

  it('CNX-09 an unknown connect link is 404, and the response does not depend on which links exist', async () => {
    for (const id of ['x', 'x'.repeat(22), 'x'.repeat(23), 'a b']) {
      const link = `${system().resource}/connect/${encodeURIComponent(id)}/mcp`;
      const { status, headers } = await call(link, undefined, PING);
      expect(status, id).to.equal(404);
      expect(headers.has('www-authenticate')).to.equal(false);
    }
  });

  async function expectGone(connector: Connector, token: string): Promise<void> {
    for (const held of [undefined, token, 'x']) {
      const { status, headers, text } = await call(connector.link, held, PING);
      expect(status).to.equal(410);
      expect(headers.has('www-authenticate')).to.equal(false);
      const body = JSON.parse(text);
      expect(body).to.include({ jsonrpc: '2.0' });
      expect(body.error.code).to.be.a('number');
      expect(body.error.message).to.match(/ask for a fresh one/);
    }
  }

  it('CNX-07 a revoked connect link and its tokens are rejected at once', async () => {
    const connector = await createConnector(system());
    const { server, client, accessToken, refreshToken } = await connect(system(), connector);
    const code = await obtainCode(system(), connector, { person: 'grace' });
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
    await revokeConnector(system(), connector.id);
    await expectGone(connector, accessToken);
    const refreshed = await refresh(server, client, refreshToken);
    expect([refreshed.status, refreshed.body.error]).to.deep.equal([400, 'invalid_grant']);
    const redeemed = await redeem(code);
    expect([redeemed.status, redeemed.body.error]).to.deep.equal([400, 'invalid_grant']);
  });

  it('CNX-07 an expired connect link is rejected', async () => {
    const expiresAt = new Date(Date.now() + 600_000).toISOString();
    const connector = await createConnector(system(), { expiresAt });
    const { server, client, accessToken, refreshToken } = await connect(system(), connector);
    expect(await isAccepted(connector.link, accessToken)).to.equal(true);
    advanceClock(601);
    await expectGone(connector, accessToken);
    expect((await refresh(server, client, refreshToken)).body.error).to.equal('invalid_grant');
  });

  it('revoking one connect link does not affect others', async () => {
    const [one, other] = [await createConnector(system()), await createConnector(system())];
    const { accessToken } = await connect(system(), other);
    await revokeConnector(system(), one.id);
    expect(await isAccepted(other.link, accessToken)).to.equal(true);
  });
});

describe('The MCP address without a connect link', () => {
  const system = useSystem();

  it('the response says what to use instead, and starts no sign-in', async () => {
    for (const token of [undefined, 'x']) {
      const { status, headers, text } = await call(`${system().resource}/mcp`, token, PING);
      expect(status).to.equal(401);
      expect(headers.get('www-authenticate')).to.not.include('resource_metadata');
      if (token === undefined) expect(headers.get('www-authenticate')).to.equal('Bearer');
      expect(text)
        .to.match(/connect link/i)
        .and.match(/minted token/i);
    }
  });
});
