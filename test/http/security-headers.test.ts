import type { IncomingHttpHeaders } from 'node:http';
import { expect } from 'chai';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect, registerClient, REDIRECT_URI } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { startProduction, type HostName, type Production } from '../support/production.ts';
import { rawRequest, type RawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

type ExpectedRequest = RawRequest & { status: number };

const TOO_LONG = 'x'.repeat(70_000);
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const JSON_BODY = { 'content-type': 'application/json' };
const OTHER_HOST = { host: 'evil.example' };
const METADATA = '/.well-known/oauth-protected-resource';

function expectProtection(headers: IncomingHttpHeaders, what: string): void {
  const policy = String(headers['content-security-policy']);
  for (const rule of ["default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"])
    expect(policy, what).to.include(rule);
  expect(policy, what).to.not.match(/unsafe|form-action|\*/);
  expect(headers, what).to.include({
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'same-origin',
    'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  });
  expect(headers, what).to.not.have.any.keys(
    'x-powered-by',
    'server',
    'cross-origin-opener-policy',
  );
}

/** Requests that need neither a connector nor a client, and the status of their responses. */
const REQUESTS: Record<HostName, ExpectedRequest[]> = {
  auth: [
    { status: 200, path: '/', headers: { accept: 'text/html' } },
    { status: 200, path: '/assets/style.css' },
    { status: 200, path: '/.well-known/oauth-authorization-server' },
    { status: 200, path: '/oauth/jwks' },
    { status: 200, path: '/livez' },
    { status: 204, method: 'OPTIONS', path: '/oauth/token' },
    { status: 400, path: '/oauth/authorize' },
    { status: 400, path: '/oauth/authorize?client_id=nobody' },
    { status: 400, path: `/interaction/${'x'.repeat(22)}` },
    { status: 400, method: 'POST', path: '/oauth/token', headers: FORM, chunks: ['x=y'] },
    { status: 400, method: 'POST', path: '/oauth/register', headers: JSON_BODY, chunks: ['{'] },
    { status: 404, path: '/nothing' },
    { status: 404, path: '/nothing', headers: { accept: 'text/html' } },
    { status: 404, path: '//' },
    { status: 405, method: 'HEAD', path: '/oauth/authorize' },
    { status: 405, method: 'DELETE', path: '/oauth/token' },
    { status: 413, method: 'POST', path: '/oauth/token', headers: FORM, chunks: [TOO_LONG] },
    {
      status: 413,
      method: 'POST',
      path: '/oauth/register',
      headers: JSON_BODY,
      chunks: [TOO_LONG],
    },
    { status: 421, path: '/', headers: OTHER_HOST },
    { status: 421, path: '/oauth/authorize', headers: { ...OTHER_HOST, accept: 'text/html' } },
  ],
  resource: [
    { status: 200, path: METADATA },
    { status: 204, method: 'OPTIONS', path: METADATA },
    { status: 401, path: '/mcp' },
    { status: 403, path: '/mcp', headers: { origin: 'https://evil.example' } },
    { status: 404, path: '/' },
    { status: 200, path: '/', headers: { accept: 'text/html' } },
    { status: 200, path: '/assets/style.css' },
    { status: 404, path: `/connect/${'x'.repeat(22)}/mcp` },
    { status: 404, path: `/connect/${'x'.repeat(22)}/mcp`, headers: { accept: 'text/html' } },
    { status: 421, path: '/mcp', headers: OTHER_HOST },
  ],
  management: [
    { status: 401, path: '/api/v1/connectors' },
    { status: 303, path: '/', headers: { accept: 'text/html' } },
    { status: 404, path: '/nothing' },
    { status: 404, path: '/nothing', headers: { accept: 'text/html' } },
    { status: 421, path: '/api/v1/connectors', headers: OTHER_HOST },
  ],
};

const nameOf = (host: string, { status, method = 'GET', path }: ExpectedRequest) =>
  `${host} ${method} ${path} ${status}`;

describe('security headers', () => {
  const system = useSystem();

  async function send(base: string, request: RawRequest) {
    const headers = { host: new URL(base).host, ...request.headers };
    return rawRequest(base, { ...request, headers });
  }

  async function expectProtected(base: string, request: ExpectedRequest): Promise<void> {
    const { status, headers } = await send(base, request);
    const what = nameOf(base, request);
    expect(status, what).to.equal(request.status);
    expectProtection(headers, what);
    expect(headers, what).to.not.have.property('strict-transport-security');
  }

  for (const host of ['auth', 'resource', 'management'] as const) {
    it(`HDR-03 every response of the ${host} host has the security headers, and no HSTS over http`, async () => {
      for (const request of REQUESTS[host]) await expectProtected(system()[host], request);
    });
  }

  it('every response of the development identity provider has the security headers', async () => {
    const idp = String(system().origins[2]);
    for (const request of [
      { status: 200, path: '/.well-known/openid-configuration' },
      { status: 400, path: '/interaction/x', headers: { accept: 'text/html' } },
      { status: 404, path: '/nothing', headers: { accept: 'text/html' } },
      { status: 421, path: '/', headers: OTHER_HOST },
    ])
      await expectProtected(idp, request);
  });

  it('COD-06 CON-08 redirects, pages, tool results and responses about revoked links have the security headers', async () => {
    const { auth, resource } = system();
    const connector = await createConnector(system());
    const { link, accessToken } = await connect(system(), connector);
    const { server } = await discover(link);
    const client = await registerClient(server);
    const path = new URL(link).pathname;
    const query = (more = {}) => {
      const { url } = authorizeUrl(server, client, { resource: link, ...more });
      return url.pathname + url.search;
    };
    await expectProtected(auth, { status: 303, path: query() });
    await expectProtected(auth, { status: 400, path: query({ prompt: 'none' }) });
    await expectProtected(auth, {
      status: 400,
      path: query({ redirect_uri: `${REDIRECT_URI}/x` }),
    });
    await expectProtected(resource, { status: 200, path: METADATA + path });
    await expectProtected(resource, { status: 401, path });
    await expectProtected(resource, { status: 401, path, headers: { accept: 'text/html' } });
    const headers = {
      ...JSON_BODY,
      authorization: `Bearer ${accessToken}`,
      accept: 'application/json, text/event-stream',
    };
    const call = { method: 'POST', path, headers };
    const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    await expectProtected(resource, { ...call, status: 200, chunks: [ping] });
    await expectProtected(resource, { ...call, method: 'GET', status: 405 });
    const large = 'x'.repeat(1024 * 1024 + 1);
    await expectProtected(resource, { ...call, status: 413, chunks: [large] });
    await revokeConnector(system(), connector.id);
    await expectProtected(resource, { ...call, status: 410, chunks: [ping] });
  });
});

describe('security headers in production', () => {
  let production: Production;
  before(async () => {
    production = await startProduction();
  });
  after(() => production?.stop());

  for (const host of ['auth', 'resource'] as const) {
    it(`HDR-03 every response of the ${host} host has HSTS (RFC 6797)`, async () => {
      for (const request of REQUESTS[host]) {
        const { status, headers } = await production.request(host, request);
        expect(status, nameOf(host, request)).to.equal(request.status);
        expectProtection(headers, nameOf(host, request));
        expect(headers['strict-transport-security'], nameOf(host, request)).to.match(
          /^max-age=31536000\b/,
        );
      }
    });
  }

  it('responses of the management host on http have no HSTS', async () => {
    for (const request of REQUESTS.management) {
      const { headers } = await production.request('management', request);
      expectProtection(headers, nameOf('management', request));
      expect(headers).to.not.have.property('strict-transport-security');
    }
  });
});
