// RFC 6749 section 3.1.2, RFC 8252 section 7.3, RFC 9700 section 4.1.
import { expect } from 'chai';
import { isSignInPage, describePage, openBrowser, requirePage } from '../support/browser.ts';
import { REDIRECT_URI } from '../support/connection.ts';
import type { Client } from '../support/oauth.ts';
import { CLI, MIXED, publishedClient, SCHEME, useRedirects } from '../support/redirects.ts';

const HOSTED = 'https://claude.ai/api/mcp/auth_callback';

describe('A redirect URI', () => {
  const {
    system,
    newClient,
    authorizationUrl,
    fetchWithoutRedirects,
    expectErrorPage,
    registerRedirects,
    expectUnregistrable,
  } = useRedirects();

  const spellings = (uri: string) => {
    const { origin, host, pathname } = new URL(uri);
    const [last = ''] = pathname.split('/').slice(-1);
    return [
      `${uri}/`,
      `${uri}?x`,
      `${uri}#x`,
      uri.slice(0, -last.length) + last.toUpperCase(),
      uri.replace(host, `${host}:443`),
      uri.replace(host, `${host}.`),
      uri.replace(host, `user@${host}`),
      uri.replace(host, `${host}@evil.example`),
      uri.replace(host, host.toUpperCase()),
      uri.replace('https:', 'HTTPS:'),
      uri.replace('https:', 'http:'),
      `${origin}/%${last.charCodeAt(0).toString(16)}${last.slice(1)}`,
      `${origin}/a/..${pathname}`,
      `${uri}%0d%0aLocation:https://evil.example`,
      ` ${uri}`,
      `${uri} `,
    ];
  };

  it('RED-01 redirect URIs of every kind of client are compared as exact strings', async () => {
    const self = await newClient('none', HOSTED);
    const kinds: [Client, string][] = [
      [self, HOSTED],
      [{ id: 'reports', method: 'none', redirectUri: '' }, 'https://c.example/cb'],
      [publishedClient(MIXED), 'https://mixed.example/cb'],
    ];
    for (const [client, uri] of kinds) {
      const { response } = await fetchWithoutRedirects(
        authorizationUrl(client, { redirect_uri: uri }),
      );
      expect(response.status, uri).to.equal(303);
      for (const spelling of spellings(uri))
        await expectErrorPage(authorizationUrl(client, { redirect_uri: spelling }));
    }
  });

  it('RED-02 a loopback redirect URI matches any port and no other difference', async () => {
    const client = publishedClient(CLI);
    for (const uri of [
      'http://localhost:51763/callback',
      'http://127.0.0.1:1/callback',
      'http://[::1]:65535/callback',
    ]) {
      const page = requirePage(
        await openBrowser(system().origins).visit(authorizationUrl(client, { redirect_uri: uri })),
      );
      expect(isSignInPage(page), describePage(page)).to.equal(true);
    }
    for (const uri of [
      'http://localhost:51763/other',
      'http://localhost:51763/callback/',
      'http://localhost:51763/callback?x',
      'http://localhost.evil.example:1/callback',
      'http://127.0.0.1@evil.example/callback',
      'http://user@localhost:1/callback',
      'https://localhost:1/callback',
      'http://127.0.0.2:1/callback',
      'http://localhost:/callback',
      'http://localhost:x/callback',
      'http://localhost:99999/callback',
    ])
      await expectErrorPage(authorizationUrl(client, { redirect_uri: uri }));
  });

  it('RED-03 registration and metadata documents cannot have http redirect URIs except loopback', async () => {
    await expectUnregistrable(['http://attacker.example/cb']);
    await expectErrorPage(
      authorizationUrl(publishedClient(MIXED), { redirect_uri: 'http://remote.example/cb' }),
    );
  });

  it('RED-04 a redirect URI with a custom scheme is accepted only if the settings allow it', async () => {
    for (const uri of [
      'ms-msdt:/x',
      'search-ms:q',
      'smb://h/x',
      'view-source:https://x',
      'intent:x',
      'mailto:a@b',
      'file:///etc/passwd',
      'x:/cb',
      'JavaScript:1',
      '\tjavascript:1',
      'data:text/html,x',
      'cursor://anysphere.cursor-mcp/oauth/callback2',
      'CURSOR://anysphere.cursor-mcp/oauth/callback',
    ])
      await expectUnregistrable([uri], { application_type: 'native' });
    const { status, body } = await registerRedirects([SCHEME]);
    expect([status, body.redirect_uris]).to.deep.equal([201, [SCHEME]]);
  });

  it('RED-05 a redirect URI that people or parsers can misread is refused', async () => {
    for (const uri of [
      'https://evil.example/cb',
      'https://claude.ai/cb',
      'https://claude.ai.evil.example/api/mcp/auth_callback',
      'https://claude.ai:8443/api/mcp/auth_callback',
      'https://claude.ai/api/mcp/auth_callback/',
      'https://claude.ai/api/mcp/auth_callback?next=https://evil.example',
      'http://claude.ai/api/mcp/auth_callback',
      'http://127.0.0.1.evil.example/cb',
      'http://user@localhost/cb',
      'http://192.168.1.1/cb',
      'http://0.0.0.0/cb',
      'https://localhost/cb',
      'http://localhost:1/cb#fragment',
      'http://127.0.0.1:*/cb',
      'http:localhost/cb',
      '/callback',
      '',
      'https://claude.ai@evil.example/cb',
      'https://user:pw@claude.ai/api/mcp/auth_callback',
      'https://10.0.0.1/cb',
      'https://169.254.169.254/cb',
      'https://claude.ai\\@evil.example/cb',
      'https://claude.ai./api/mcp/auth_callback',
      'http://localhost\\@evil.example/cb',
      'http://localhost/cb\n',
      'http://localhost/\u0000',
      'http://localhost/cb\u202e',
      'http://loc\u0430lhost/cb',
      'http://localhost/a b',
      `http://localhost/${'x'.repeat(2000)}`,
      'http://127.1/cb',
      'http://0x7f.0.0.1/cb',
      'http://[::ffff:127.0.0.1]/cb',
    ])
      await expectUnregistrable([uri]);
    await expectUnregistrable(Array.from({ length: 21 }, (_, n) => `http://localhost/${n}`));
  });

  it('RED-06 a redirect URI on an origin of Gatehouse is refused', async () => {
    const { auth, resource, management, origins } = system();
    for (const own of [...origins, auth, resource, management]) {
      await expectUnregistrable([`${own}/interaction/callback`]);
      await expectUnregistrable([`${own.toUpperCase().replace('HTTP:', 'http:')}/cb`]);
      const { port } = new URL(own);
      await expectUnregistrable([`http://[::1]:${port}/cb`, `http://127.0.0.1:${port}/cb`]);
    }
  });

  it('RED-06 a loopback redirect URI, which matches any port, does not match an origin of Gatehouse', async () => {
    const { management, origins } = system();
    const client = await newClient('none', 'http://localhost/oauth/token');
    for (const own of [...origins, management].map((origin) => new URL('/oauth/token', origin))) {
      own.hostname = 'localhost';
      await expectErrorPage(authorizationUrl(client, { redirect_uri: own.href }));
    }
  });

  it('RED-11 a redirect URI with a response parameter in its query is not registered', async () => {
    for (const name of [
      'code',
      'state',
      'iss',
      'error',
      'error_description',
      'error_uri',
      '%63ode',
    ])
      await expectUnregistrable([`http://127.0.0.1:7070/cb?keep=1&${name}=evil`]);
    const { body } = await registerRedirects([REDIRECT_URI, `${REDIRECT_URI}?error=evil`]);
    expect(body.redirect_uris).to.deep.equal([REDIRECT_URI]);
  });
});
