import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { rawRequest } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

const SERVER_METADATA = '/.well-known/oauth-authorization-server';
const RESOURCE_METADATA = '/.well-known/oauth-protected-resource';
const ESCAPES = ['/%', '/%zz', '/%78', '/interaction/%', '/assets/%2e%2e/x', '/#', '/#x'];

/** Percent-encodes the character at `index`. */
function escaped(path: string, index: number): string {
  const code = path.charCodeAt(index).toString(16).padStart(2, '0');
  return `${path.slice(0, index)}%${code}${path.slice(index + 1)}`;
}

describe('The canonical host and path', () => {
  const system = useSystem();
  const hostOf = (url: string) => new URL(url).host;

  it('HDR-01 proxy headers do not change any response', async () => {
    const { link } = await createConnector(system());
    const { auth, resource } = system();
    for (const [base, path] of [
      [auth, SERVER_METADATA],
      [resource, `/.well-known/oauth-protected-resource${new URL(link).pathname}`],
    ] as const) {
      const plain = await rawRequest(base, { path, headers: { host: hostOf(base) } });
      expect(plain.status).to.equal(200);
      const claims: Record<string, string>[] = [
        { 'x-forwarded-host': 'evil.example' },
        { 'x-forwarded-proto': 'https', 'x-forwarded-port': '443' },
        { forwarded: 'host=evil.example;proto=https' },
        { 'x-original-host': 'evil.example', 'x-rewrite-url': '/evil' },
        { origin: 'https://evil.example', referer: 'https://evil.example/' },
      ];
      for (const headers of claims) {
        const answer = await rawRequest(base, {
          path,
          headers: { ...headers, host: hostOf(base) },
        });
        expect(answer.body).to.equal(plain.body);
      }
    }
  });

  it('RSV-04 the challenge does not depend on the request', async () => {
    const { link } = await createConnector(system());
    const { resource } = system();
    const answer = await rawRequest(resource, {
      path: new URL(link).pathname,
      headers: { host: hostOf(resource), 'x-forwarded-host': 'evil.example' },
    });
    expect(answer.headers['www-authenticate']).to.include(`${resource}/.well-known`);
  });

  it('HDR-01 RSV-08 a request for another host name is 421, except health checks', async () => {
    for (const base of [system().auth, system().resource, system().management]) {
      for (const host of ['evil.example', `evil.example:${new URL(base).port}`, 'localhost']) {
        const answer = await rawRequest(base, { path: SERVER_METADATA, headers: { host } });
        expect(answer.status, `${base} as ${host}`).to.equal(421);
        expect(answer.body).to.not.include('evil.example');
        for (const path of ['/livez', '/readyz']) {
          expect((await rawRequest(base, { path, headers: { host } })).status).to.equal(200);
        }
      }
    }
  });

  it('HDR-05 a path that is not in its canonical spelling is 404', async () => {
    const { link, id } = await createConnector(system());
    const { pathname } = new URL(link);
    const { auth, resource, management } = system();
    const spellings: [string, string[]][] = [
      [
        auth,
        [
          '/OAUTH/Token',
          '/oauth/token/',
          '//oauth/token',
          '/oauth//token',
          '/oauth/./token',
          '/x/../oauth/token',
          '/%6fauth/token',
          '/oauth%2ftoken',
          '/oauth/authorize/',
          '/oauth/Authorize',
          `${SERVER_METADATA}/`,
          SERVER_METADATA.toUpperCase(),
          '/.well-known//oauth-authorization-server',
          '/oauth\\token',
          ...ESCAPES,
        ],
      ],
      [
        resource,
        [
          `${pathname}/`,
          `/${pathname}`,
          pathname.replace('connect', 'Connect'),
          pathname.replace('/mcp', '/MCP'),
          pathname.replace('/mcp', '//mcp'),
          `/connect/./${id}/mcp`,
          `/x/..${pathname}`,
          pathname.replace('/mcp', '%2fmcp'),
          '/MCP',
          '/mcp/',
          ...[pathname, RESOURCE_METADATA + pathname].flatMap((path) =>
            [0, 1, id.length - 1].map((index) => escaped(path, path.indexOf(id) + index)),
          ),
          escaped(pathname, pathname.length - 1),
          ...ESCAPES,
        ],
      ],
      [management, ESCAPES],
    ];
    for (const [base, path] of [
      [resource, RESOURCE_METADATA + pathname],
      [auth, `${SERVER_METADATA}?x=%78%2f`],
    ] as const)
      expect((await rawRequest(base, { path, headers: { host: hostOf(base) } })).status).to.equal(
        200,
      );
    for (const [base, paths] of spellings) {
      for (const path of paths) {
        for (const method of ['GET', 'POST']) {
          const { status } = await rawRequest(base, {
            method,
            path,
            headers: { host: hostOf(base) },
          });
          expect(status, `${method} ${path}`).to.equal(404);
        }
      }
    }
  });
});
