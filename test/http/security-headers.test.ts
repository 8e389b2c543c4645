// What every answer of every host says to browsers: no frames, no guessing, no scripts; and https only where the address is https (RFC 6797).
import type { IncomingHttpHeaders } from 'node:http';
import { expect } from 'chai';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { connect, registerClient, REDIRECT_URI } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { startProduction, type HostName, type Production } from '../support/production.ts';
import { rawRequest, type RawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

type Kind = RawRequest & { status: number };

const TOO_LONG = 'x'.repeat(70_000);
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const JSON_BODY = { 'content-type': 'application/json' };
const STRANGER = { host: 'evil.example' };
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

/** Answers that are alike wherever the host is; those that need a connector or a client are made by the claims. */
const KINDS: Record<HostName, Kind[]> = {
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
    { status: 421, path: '/', headers: STRANGER },
    { status: 421, path: '/oauth/authorize', headers: { ...STRANGER, accept: 'text/html' } },
  ],
  resource: [
    { status: 200, path: METADATA },
    { status: 204, method: 'OPTIONS', path: METADATA },
    { status: 401, path: '/mcp' },
    { status: 403, path: '/mcp', headers: { origin: 'https://evil.example' } },
    { status: 404, path: '/' },
    { status: 404, path: `/connect/${'x'.repeat(22)}/mcp` },
    { status: 421, path: '/mcp', headers: STRANGER },
  ],
  management: [
    { status: 401, path: '/api/v1/connectors' },
    { status: 303, path: '/' },
    { status: 404, path: '/nothing' },
    { status: 421, path: '/api/v1/connectors', headers: STRANGER },
  ],
};

const nameOf = (host: string, { status, method = 'GET', path }: Kind) =>
  `${host} ${method} ${path} ${status}`;

describe('Every answer', () => {
  const system = useSystem();

  async function ask(base: string, request: RawRequest) {
    const headers = { host: new URL(base).host, ...request.headers };
    return rawRequest(base, { ...request, headers });
  }

  async function expectProtected(base: string, kind: Kind): Promise<void> {
    const { status, headers } = await ask(base, kind);
    const what = nameOf(base, kind);
    expect(status, what).to.equal(kind.status);
    expectProtection(headers, what);
    expect(headers, what).to.not.have.property('strict-transport-security');
  }

  for (const host of ['auth', 'resource', 'management'] as const) {
    it(`HDR-03 of the ${host} host says how it may be used, and nothing of https`, async () => {
      for (const kind of KINDS[host]) await expectProtected(system()[host], kind);
    });
  }

  it('of the development identity provider does too', async () => {
    const idp = String(system().origins[2]);
    for (const kind of [
      { status: 200, path: '/.well-known/openid-configuration' },
      { status: 400, path: '/interaction/x', headers: { accept: 'text/html' } },
      { status: 404, path: '/nothing', headers: { accept: 'text/html' } },
      { status: 421, path: '/', headers: STRANGER },
    ])
      await expectProtected(idp, kind);
  });

  it('CON-08 to a client and its person does too: redirects, pages, tool results, and links that are over', async () => {
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

describe('In production, every answer', () => {
  let production: Production;
  before(async () => {
    production = await startProduction();
  });
  after(() => production?.stop());

  for (const host of ['auth', 'resource'] as const) {
    it(`HDR-03 of the ${host} host says to come back over https only`, async () => {
      for (const kind of KINDS[host]) {
        const { status, headers } = await production.request(host, kind);
        expect(status, nameOf(host, kind)).to.equal(kind.status);
        expectProtection(headers, nameOf(host, kind));
        expect(headers['strict-transport-security'], nameOf(host, kind)).to.match(
          /^max-age=31536000\b/,
        );
      }
    });
  }

  it('of the management host, whose address is plain, does not', async () => {
    for (const kind of KINDS.management) {
      const { headers } = await production.request('management', kind);
      expectProtection(headers, nameOf('management', kind));
      expect(headers).to.not.have.property('strict-transport-security');
    }
  });
});
