// Fetch standard, section 3.2.
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { call } from '../support/mcp.ts';
import { AUTH_URL, RESOURCE_URL, startProduction, type Production } from '../support/production.ts';
import { useSystem } from '../support/system.ts';

const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };
const ALLOWED = 'https://app.example.com';
/** Of browser extensions and apps that show pages. */
const WEBVIEWS = ['chrome-extension://abcdefghijklmnopabcdefghijklmnop', 'tauri://localhost'];
const OTHERS = [
  'https://other.example.com',
  'http://app.example.com',
  'https://app.example.com:8443',
  'https://app.example.com.evil.example',
  'https://evil-app.example.com',
  'https://APP.example.com',
  'https://app.example.com/',
  'chrome-extension://ponmlkjihgfedcbaponmlkjihgfedcba',
  'tauri://localhost.evil.example',
  'null',
];
const LOOPBACK = [
  'http://localhost',
  'http://localhost:6274',
  'https://localhost:6274',
  'http://127.0.0.1:6274',
  'http://[::1]:6274',
];

function preflight(origin: string): Record<string, string> {
  return {
    origin,
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization, content-type, mcp-protocol-version',
  };
}

describe('The setting resourceServer.allowedOrigins', () => {
  const system = useSystem({
    file: { resourceServer: { allowedOrigins: [ALLOWED, ...WEBVIEWS] } },
  });
  let connector: Connector;
  let token: string;
  before(async () => {
    connector = await createConnector(system());
    ({ accessToken: token } = await connect(system(), connector));
  });

  const ask = (origin: string) => call(connector.link, token, PING, { headers: { origin } });
  const askFirst = (origin: string) =>
    fetch(connector.link, { method: 'OPTIONS', headers: preflight(origin) });

  for (const origin of [ALLOWED, ...WEBVIEWS])
    it(`the allowed origin ${origin} can call and read the response`, async () => {
      const { status, headers, rpc } = await ask(origin);
      expect(status).to.equal(200);
      expect(rpc?.result).to.deep.equal({});
      expect(headers.get('access-control-allow-origin')).to.equal(origin);
      expect(headers.get('vary')).to.match(/\borigin\b/i);
      expect(headers.has('access-control-allow-credentials')).to.equal(false);
    });

  it('an allowed origin can read the challenge', async () => {
    const { status, headers } = await call(connector.link, undefined, PING, {
      headers: { origin: ALLOWED },
    });
    expect(status).to.equal(401);
    expect(headers.get('access-control-allow-origin')).to.equal(ALLOWED);
    expect(headers.get('access-control-expose-headers')).to.match(/www-authenticate/i);
  });

  it('the preflight of an allowed origin lists the request headers it may send', async () => {
    const { status, headers } = await askFirst(ALLOWED);
    expect(status).to.equal(204);
    expect(headers.get('access-control-allow-origin')).to.equal(ALLOWED);
    expect(headers.get('access-control-allow-methods')).to.match(/\bPOST\b/);
    for (const name of ['authorization', 'mcp-protocol-version', 'user-agent', 'traceparent'])
      expect(headers.get('access-control-allow-headers')?.toLowerCase()).to.include(name);
    expect(headers.get('vary')).to.match(/\borigin\b/i);
  });

  it('the preflight allows tool parameter headers, and no unknown ones', async () => {
    const { headers } = await fetch(connector.link, {
      method: 'OPTIONS',
      headers: {
        ...preflight(ALLOWED),
        'access-control-request-headers': 'authorization, mcp-param-region,Mcp-Param-X_y, x-other',
      },
    });
    const allowed = headers.get('access-control-allow-headers')?.split(', ');
    expect(allowed).to.include.members(['mcp-param-region', 'Mcp-Param-X_y']);
    expect(allowed).to.not.include('x-other');
  });

  it('RSV-08 any other origin is refused, however similar', async () => {
    for (const origin of OTHERS) {
      for (const { status, headers } of [await ask(origin), await askFirst(origin)]) {
        expect(status, origin).to.equal(403);
        expect(headers.has('access-control-allow-origin'), origin).to.equal(false);
      }
    }
  });

  it('our own origins and loopback origins are allowed too', async () => {
    for (const origin of [system().auth, system().resource, ...LOOPBACK]) {
      expect((await ask(origin)).status, origin).to.equal(200);
      expect((await askFirst(origin)).status, origin).to.equal(204);
    }
  });
});

describe('Allowed origins in production', () => {
  let production: Production;
  let path: string;
  before(async () => {
    production = await startProduction({ resourceServer: { allowedOrigins: [ALLOWED] } });
    path = await production.createLink();
  });
  after(() => production?.stop());

  async function statuses(origin: string): Promise<number[]> {
    const asked = [
      await production.request('resource', { method: 'POST', path, headers: { origin } }),
      await production.request('resource', { method: 'OPTIONS', path, headers: preflight(origin) }),
    ];
    return asked.map(({ status }) => status);
  }

  it('RSV-08 loopback origins are refused in production', async () => {
    for (const origin of [...LOOPBACK, ...OTHERS])
      expect(await statuses(origin), origin).to.deep.equal([403, 403]);
  });

  it('our own origins and the configured ones are allowed in production', async () => {
    for (const origin of [ALLOWED, AUTH_URL, RESOURCE_URL])
      expect(await statuses(origin), origin).to.deep.equal([401, 204]);
  });
});
