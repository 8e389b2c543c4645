import { createConnection } from 'node:net';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { rawRequest } from '../support/raw-request.ts';
import { countStoredKeys } from '../support/stored-keys.ts';
import { useSystem } from '../support/system.ts';

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const JSON_BODY = { 'content-type': 'application/json' };

describe('A response', () => {
  const system = useSystem();
  let connector: Connector;
  before(async () => {
    connector = await createConnector(system());
  });

  /** `isOpen`: pages of any origin may read the response. */
  const routes = (): [base: string, path: string, isOpen: boolean][] => {
    const { auth, resource, management } = system();
    const link = new URL(connector.link).pathname;
    return [
      [auth, '/.well-known/oauth-authorization-server', true],
      [auth, '/oauth/jwks', true],
      [auth, '/oauth/token', true],
      [auth, '/oauth/register', true],
      [auth, '/oauth/revoke', true],
      [resource, '/.well-known/oauth-protected-resource', true],
      [resource, `/.well-known/oauth-protected-resource${link}`, true],
      [auth, '/oauth/authorize', false],
      [auth, `/interaction/${'x'.repeat(22)}`, false],
      [auth, '/', false],
      [auth, '/nothing', false],
      [management, '/api/v1/connectors', false],
    ];
  };

  it('HDR-04 CORS allows any origin where clients need it, and never allows credentials', async () => {
    for (const [base, path, isOpen] of routes())
      for (const origin of ['https://evil.example', 'null', 'http://localhost:1', system().auth])
        for (const method of ['GET', 'POST', 'OPTIONS']) {
          const { headers, status } = await rawRequest(base, {
            method,
            path,
            headers: {
              host: new URL(base).host,
              origin,
              cookie: 'gatehouse-session=x',
              ...(method === 'OPTIONS' ? { 'access-control-request-method': 'POST' } : {}),
            },
          });
          const what = `${method} ${path} from ${origin}: ${status}`;
          expect(headers, what).to.not.have.property('access-control-allow-credentials');
          const allowed = headers['access-control-allow-origin'];
          expect(allowed, what).to.be.oneOf(isOpen ? ['*', undefined] : [undefined]);
          if (isOpen && status < 300) expect(allowed, what).to.equal('*');
        }
  });

  it('HDR-06 responses of OAuth endpoints are JSON, whatever the Accept header and the error', async () => {
    const { auth } = system();
    const long = 'x'.repeat(70_000);
    const asked: [string, string, Record<string, string>, string, number][] = [
      ['POST', '/oauth/token', FORM, 'grant_type=x', 400],
      ['POST', '/oauth/token', FORM, `x=${long}`, 413],
      ['POST', '/oauth/token', JSON_BODY, '{}', 400],
      ['GET', '/oauth/token', {}, '', 405],
      ['POST', '/oauth/register', JSON_BODY, '{', 400],
      ['POST', '/oauth/register', JSON_BODY, `{"x":"${long}"}`, 413],
      ['DELETE', '/oauth/register', {}, '', 405],
      ['POST', '/oauth/revoke', FORM, 'token=x', 401],
      ['POST', '/oauth/jwks', {}, '', 405],
      ['GET', '/oauth/nothing', {}, '', 404],
      ['GET', '/.well-known/openid-configuration', {}, '', 404],
      ['GET', '/.well-known/oauth-authorization-server', {}, '', 200],
    ];
    for (const [method, path, headers, body, status] of asked) {
      const answer = await rawRequest(auth, {
        method,
        path,
        headers: { host: new URL(auth).host, accept: 'text/html', ...headers },
        ...(body ? { chunks: [body] } : {}),
      });
      const what = `${method} ${path}: ${answer.status} ${answer.body.slice(0, 100)}`;
      expect(answer.headers['content-type'], what).to.match(/^application\/json/);
      expect(JSON.parse(answer.body), what).to.be.an('object');
      expect(Math.floor(answer.status / 100), what).to.equal(Math.floor(status / 100));
    }
  });

  it('HDR-08 every form of a well-known URL that is not served gets 404 as JSON', async () => {
    const { auth, resource, management, origins } = system();
    const link = new URL(connector.link).pathname;
    const unknown = `/connect/${'x'.repeat(22)}/mcp`;
    const preflighted = `/.well-known/oauth-protected-resource${unknown}`;
    const served: Record<string, string[]> = {
      [auth]: ['/.well-known/oauth-authorization-server'],
      [resource]: [
        '/.well-known/oauth-protected-resource',
        `/.well-known/oauth-protected-resource${link}`,
      ],
      [management]: [],
    };
    const ofEngine = [
      '/.well-known/openid-configuration',
      '/.well-known/oauth-authorization-server',
    ];
    for (const origin of origins) served[origin] ??= ofEngine;
    expect(Object.keys(served)).to.have.length(4);
    const names = [
      'oauth-authorization-server',
      'oauth-protected-resource',
      'openid-configuration',
    ];
    const parents = ['', link, unknown, '/mcp', '/oauth', '/oauth/token', '/oauth/authorize'];
    parents.push('/interaction', '/account', '/assets', '/console', '/api/v1', '/sign-in');
    const forms = [
      ...parents.flatMap((parent) => names.map((name) => `${parent}/.well-known/${name}`)),
      ...[link, unknown, '/mcp', '/account', '/console'].flatMap((path) =>
        names.map((name) => `/.well-known/${name}${path}`),
      ),
      '/.well-known',
      '/.well-known/',
      '/.well-known/jwks.json',
      '/.well-known/security.txt',
      '/.well-known/change-password',
      '/.well-known/oauth-authorization-server/',
      '/.well-known/oauth-authorization-server//',
      '//.well-known/oauth-authorization-server',
      '/./.well-known/oauth-authorization-server',
      '/account/../.well-known/oauth-authorization-server',
      '/.WELL-KNOWN/OAUTH-AUTHORIZATION-SERVER',
      '/.Well-Known/openid-configuration',
      '/account/.WELL-KNOWN/x',
      '/%2ewell-known/openid-configuration',
      '/%2Ewell%2Dknown/openid-configuration',
      '/account%2f.well-known/openid-configuration',
      '/account/%2ewell-known%2fopenid-configuration',
      '/.well-known%2fopenid-configuration',
      '/%zz/.well-known/openid-configuration',
      '/%ff/%2ewell-known/openid-configuration',
      '/account\\.well-known/openid-configuration',
      '/.well-known/openid-configuration#x',
      '/connect/.well-known/mcp',
    ];
    const methods = ['HEAD', 'POST', 'DELETE', 'OPTIONS', 'PROPFIND'];
    for (const [at, [base, known]] of Object.entries(served).entries())
      for (const [n, path] of forms.filter((form) => !known.includes(form)).entries())
        // Each host and form with GET and another method.
        for (const method of ['GET', methods[(at + n) % methods.length] ?? '']) {
          // A preflight response does not depend on whether the link exists.
          if (method === 'OPTIONS' && path === preflighted) continue;
          const { host } = new URL(base);
          const answer = await rawRequest(base, {
            method,
            path,
            headers: { host, accept: 'text/html,*/*;q=0.8' },
          });
          const what = `${method} ${base}${path}: ${answer.status} ${answer.body.slice(0, 60)}`;
          expect(answer.status, what).to.equal(404);
          expect(answer.headers['content-type'], what).to.match(/^application\/json/);
          if (method !== 'HEAD') expect(JSON.parse(answer.body), what).to.have.property('error');
        }
  });

  /** Sends exactly these bytes. Returns what arrives until the connection ends. */
  async function send(bytes: (string | Buffer)[], base = system().auth): Promise<string> {
    const { hostname, port } = new URL(base);
    const socket = createConnection(Number(port), hostname);
    // Together, because the server may respond to the first part and end the connection.
    socket.write(Buffer.concat(bytes.map((part) => Buffer.from(part))));
    return text(socket);
  }

  const request = (line: string, ...headers: string[]) =>
    `${[line, `Host: ${new URL(system().auth).host}`, 'Connection: close', ...headers].join('\r\n')}\r\n\r\n`;

  it('HDR-07 malformed HTTP requests are refused and store nothing', async () => {
    const before = await countStoredKeys(system());
    const packed = gzipSync('{"redirect_uris":["http://localhost/cb"]}');
    const json = 'Content-Type: application/json';
    const malformed: [string, (string | Buffer)[]][] = [
      [
        'a compressed body',
        [
          request(
            'POST /oauth/register HTTP/1.1',
            json,
            'Content-Encoding: gzip',
            `Content-Length: ${packed.length}`,
          ),
          packed,
        ],
      ],
      [
        'two lengths',
        [request('POST /oauth/token HTTP/1.1', 'Content-Length: 3', 'Content-Length: 4'), 'x=y'],
      ],
      [
        'a length and chunks',
        [
          request('POST /oauth/token HTTP/1.1', 'Content-Length: 3', 'Transfer-Encoding: chunked'),
          '0\r\n\r\n',
        ],
      ],
      ['a NUL in the path', ['GET /oauth/\u0000token HTTP/1.1\r\nHost: x\r\n\r\n']],
      ['invalid UTF-8', [request('GET /oauth/authorize?client_id=%ff%fe HTTP/1.1')]],
      ['an unknown method', [request('BREW /oauth/token HTTP/1.1')]],
      ['an absolute URL of another host', [request('GET http://evil.example/ HTTP/1.1')]],
      ['no host', ['GET / HTTP/1.1\r\nConnection: close\r\n\r\n']],
      ['two hosts', [request('GET / HTTP/1.1', 'Host: other.example')]],
      ['the same host twice', [request('GET / HTTP/1.1', `Host: ${new URL(system().auth).host}`)]],
    ];
    for (const [what, bytes] of malformed) {
      const answer = await send(bytes);
      expect(answer, what).to.match(/^HTTP\/1\.1 4\d\d /);
      expect(answer, what).to.not.match(/evil|\bat \S+\.(ts|js):\d/);
    }
    expect(await countStoredKeys(system())).to.deep.equal(before);
  });

  it('HDR-07 HDR-03 a request target that is not a path gets JSON with the usual headers', async () => {
    const { auth, resource, management } = system();
    for (const base of [auth, resource, management])
      for (const target of ['http://[::1/', 'http://[/livez', 'https://', '*', `${base}/livez`]) {
        const line = `GET ${target} HTTP/1.1`;
        const answer = await send(
          [`${line}\r\nHost: ${new URL(base).host}\r\nConnection: close\r\n\r\n`],
          base,
        );
        expect(answer, line).to.match(/^HTTP\/1\.1 421 /);
        expect(answer, line)
          .to.match(/^X-Request-Id: /m)
          .and.match(/^X-Content-Type-Options: /m);
        expect(answer, line).to.include('"misdirected_request"');
      }
  });
});

describe('The management API', () => {
  const system = useSystem();
  const at = (base: string, path: string, token: string) =>
    rawRequest(base, {
      path,
      headers: { host: new URL(base).host, authorization: `Bearer ${token}` },
    });

  it('ADM-01 the management API is served on its own listener only', async () => {
    const { auth, resource, management, managementKey } = system();
    const paths = ['/api/v1/connectors', '/api/v1/audit', '/API/v1/connectors', '//api/v1/tokens'];
    for (const base of [auth, resource])
      for (const path of [...paths, '/%61pi/v1/connectors', '/api', '/metrics'])
        expect((await at(base, path, managementKey)).status, base + path).to.equal(404);
    expect((await at(management, '/api/v1/connectors', managementKey)).status).to.equal(200);
  });

  it('ADM-05 the management API refuses tokens and ids of the authorization server', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const { accessToken, refreshToken = '', client } = await connect(system(), connector);
    for (const token of [accessToken, refreshToken, client.id, connector.id]) {
      const { status, body } = await at(system().management, '/api/v1/connectors', token);
      expect(status, body).to.equal(401);
    }
  });
});
