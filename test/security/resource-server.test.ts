// RFC 9068, RFC 8707.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector, type Connector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { call, callTool, isAccepted } from '../support/mcp.ts';
import { resignToken } from '../support/resign-token.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
const JSON_HEADERS = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
type Claims = Record<string, unknown>;

describe('A token with a valid signature', () => {
  const system = useSystem();
  let own: Connector;
  let other: Connector;
  let connection: Connection;
  let foreign: Connection;
  before(async () => {
    own = await createConnector(system());
    other = await createConnector(system());
    connection = await connect(system(), own);
    foreign = await connect(system(), other);
  });

  const statusOf = async (claims: Claims, header: Claims = {}) => {
    const token = await resignToken(system(), connection.accessToken, claims, header);
    return (await call(own.link, token, LIST)).status;
  };

  it('a token that is signed again with its original claims is accepted', async () => {
    expect(await statusOf({})).to.equal(200);
  });

  it('RSV-01 a token with one wrong claim or header is refused', async () => {
    const now = Math.floor(Date.now() / 1000);
    const { link } = own;
    const grant = decodeJwt(foreign.accessToken).grant_id;
    const wrong: Claims[] = [
      { aud: other.link },
      { aud: `${link}/` },
      { aud: `${link}?` },
      { aud: link.toUpperCase() },
      { aud: link.slice(0, -1) },
      { aud: system().resource },
      { aud: `${system().resource}/mcp` },
      { aud: [link] },
      { aud: [link, other.link] },
      { aud: '' },
      { aud: undefined },
      { iss: system().resource },
      { iss: `${system().auth}/` },
      { iss: [system().auth] },
      { iss: undefined },
      { exp: now },
      { exp: now - 1 },
      { exp: String(now + 60) },
      { exp: undefined },
      { nbf: now + 60 },
      { nbf: 'now' },
      { iat: undefined },
      { iat: 'now' },
      { jti: undefined },
      { jti: '' },
      { sub: undefined },
      { sub: '' },
      { sub: decodeJwt(foreign.accessToken).jti },
      { client_id: undefined },
      { client_id: 7 },
      { grant_id: undefined },
      { grant_id: grant },
      { grant_id: 'x'.repeat(43) },
      { grant_id: `../connector:${own.id}` },
    ];
    for (const claims of wrong)
      expect(await statusOf(claims), JSON.stringify(claims)).to.equal(401);
    for (const typ of ['JWT', 'id_token+jwt', 'refresh+jwt', '', undefined])
      expect(await statusOf({}, { typ }), `typ ${typ}`).to.equal(401);
  });

  it('RSV-07 a token without exactly one level is refused', async () => {
    for (const scope of [
      undefined,
      '',
      ' ',
      'offline_access',
      'root',
      'OPERATIONS',
      'operations admin',
      'operations ',
      ['operations'],
      null,
    ])
      expect(await statusOf({ scope }), JSON.stringify(scope)).to.equal(401);
  });

  it('RSV-07 a token with a higher level than its grant is refused', async () => {
    const low = await connect(system(), own, { level: 'analytics' });
    const raised = await resignToken(system(), low.accessToken, { scope: 'operations' });
    expect((await callTool(own.link, raised, 'find_members')).status).to.equal(401);
  });

  it('DOS-06 a valid token of more than 8 kB is refused, and a smaller one is accepted', async () => {
    const long = (length: number) =>
      resignToken(system(), connection.accessToken, { padding: 'x'.repeat(length) });
    expect(await isAccepted(own.link, await long(3000))).to.equal(true);
    const { status } = await call(own.link, await long(6200), LIST);
    expect(status).to.equal(401);
  });
});

describe('The resource that a token is verified for', () => {
  const system = useSystem();
  let own: Connector;
  let other: Connector;
  let token: string;
  before(async () => {
    own = await createConnector(system());
    other = await createConnector(system());
    ({ accessToken: token } = await connect(system(), own));
  });

  const post = async (path: string, headers: Record<string, string> = {}) => {
    const { host } = new URL(system().resource);
    const sent = { host, authorization: `Bearer ${token}`, ...JSON_HEADERS, ...headers };
    const chunks = [JSON.stringify(LIST)];
    return (await rawRequest(system().resource, { method: 'POST', path, headers: sent, chunks }))
      .status;
  };
  const pathOf = ({ id }: Connector) => `/connect/${id}/mcp`;

  it('RSV-02 the resource is that of the canonical path, and other spellings get 404', async () => {
    expect(await post(pathOf(own))).to.equal(200);
    expect(await post(pathOf(other))).to.equal(401);
    expect(await post('/mcp')).to.equal(401);
    for (const path of [
      `/connect/${own.id.toUpperCase()}x/mcp`,
      `/connect/${own.id}/../${other.id}/mcp`,
      `/connect/${own.id}%2f..%2f${other.id}/mcp`,
      `/connect/${own.id};${other.id}/mcp`,
      `/connect/${own.id},${other.id}/mcp`,
      `/connect/${own.id}%00/mcp`,
      `/connect/%${own.id.charCodeAt(0).toString(16)}${own.id.slice(1)}/mcp`,
      `/connect/${own.id}/mcp/${other.id}`,
      `/${pathOf(own)}`,
      `${pathOf(own)}/`,
      `${pathOf(own)}\\..\\..\\${other.id}\\mcp`,
    ])
      expect(await post(path), path).to.equal(404);
    expect(await post(`http://evil.example${pathOf(own)}`), 'absolute form').to.be.oneOf([
      404, 421,
    ]);
  });

  it('RSV-02 no query parameter or header changes the resource', async () => {
    const otherValues = [pathOf(other), other.link, new URL(other.link).host, other.id];
    const names = [
      'x-original-url',
      'x-rewrite-url',
      'x-forwarded-host',
      'x-forwarded-path',
      'x-forwarded-prefix',
      'x-forwarded-uri',
      'forwarded',
      'referer',
      'resource',
      'mcp-session-id',
      'x-http-method-override',
    ];
    for (const name of names)
      for (const value of otherValues) {
        expect(await post(pathOf(own), { [name]: value }), `${name}: ${value}`).to.equal(200);
        const toOwn = value.replaceAll(other.id, own.id);
        expect(await post(pathOf(other), { [name]: toOwn }), `${name}: ${toOwn}`).to.equal(401);
      }
    for (const name of ['resource', 'connector', 'aud'])
      expect(await post(`${pathOf(other)}?${name}=${own.id}`)).to.equal(401);
  });

  it('RSV-02 RSV-08 requests for another host get 421', async () => {
    const { port } = new URL(system().resource);
    for (const host of ['evil.example', `evil.example:${port}`, 'localhost', `127.0.0.1:${port}`])
      expect(await post(pathOf(own), { host }), host).to.equal(421);
  });

  it('RSV-08 a request whose content type is not JSON gets 415', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'text/plain; application/json',
    ])
      expect(await post(pathOf(own), { 'content-type': type }), type).to.equal(415);
  });
});

describe("A caller's session and grant", () => {
  const system = useSystem();

  it('RSV-11 the sample opens no session, and a session id in a request has no effect', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const high = await connect(system(), connector, { person: 'ada' });
    const low = await connect(system(), connector, { person: 'grace', level: 'analytics' });
    const clientInfo = { name: 'test', version: '1' };
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo };
    const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params };
    const opened = await call(connector.link, high.accessToken, initialize);
    expect(opened.status).to.equal(200);
    expect(opened.headers.has('mcp-session-id')).to.equal(false);
    for (const id of ['x', '1', crypto.randomUUID(), high.client.id]) {
      const headers = { 'mcp-session-id': id, 'last-event-id': '1' };
      const name = { name: 'find_members', arguments: {} };
      const wanted = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: name };
      const answer = await call(connector.link, low.accessToken, wanted, { headers });
      expect(answer.status).to.equal(403);
      for (const method of ['GET', 'DELETE']) {
        const authorization = `Bearer ${low.accessToken}`;
        const sent = { ...JSON_HEADERS, ...headers, authorization };
        expect((await fetch(connector.link, { method, headers: sent })).status).to.equal(405);
      }
    }
    expect(await isAccepted(connector.link, high.accessToken)).to.equal(true);
  });

  it("RSV-11 a token that names another person's grant or client is refused", async () => {
    const connector = await createConnector(system());
    const one = await connect(system(), connector, { person: 'ada' });
    const two = await connect(system(), connector, { person: 'grace' });
    const claims = decodeJwt(two.accessToken);
    const mixed = await resignToken(system(), one.accessToken, { grant_id: claims.grant_id });
    expect(await isAccepted(connector.link, mixed)).to.equal(false);
    const client = await resignToken(system(), one.accessToken, { client_id: claims.client_id });
    expect(await isAccepted(connector.link, client)).to.equal(false);
  });
});
