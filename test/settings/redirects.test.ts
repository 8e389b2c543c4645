// RFC 8252 section 7, RFC 9700 section 2.1.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { appCatalog } from '../../src/settings/apps.ts';
import { DEVELOPMENT, load, issuesIn, wrongSettings } from './settings-file.ts';

const withClients = (clients: object) => ({ ...DEVELOPMENT, clients });

describe('an allowed redirect address', () => {
  const ACCEPTED = [
    'https://chatgpt.com/connector_platform_oauth_redirect',
    'https://vscode.dev/redirect',
    'https://example.com:8443/cb?tenant=1',
    'http://localhost:8787/callback',
    'http://127.0.0.1/callback',
    'http://[::1]:1/callback',
    'cursor://anysphere.cursor-mcp/oauth/callback',
    'com.example.app:/callback',
    'https://example.com/*',
    'https://example.com/connector/oauth/*',
  ];
  it('an allowed redirect address is https, loopback or has a private-use scheme', () => {
    const { allowedRedirects } = load(withClients({ allowedRedirects: ACCEPTED })).clients;
    expect(allowedRedirects).to.deep.equal(ACCEPTED);
  });

  const REFUSED = [
    'http://example.com/callback',
    'http://localhost.example.com/callback',
    'https://example.com/callback#top',
    'https://example.com/callback#',
    'https://claude.ai@example.com/callback',
    'https://@example.com/callback',
    'cursor://ada:x@anysphere/callback',
    'https://*.example.com/callback',
    'https://example.com/a*',
    'https://example.com/*/cb',
    'https://example.com/**',
    'https://example.com/?a=/*',
    'https://*/*',
    'http://localhost/*',
    'cursor://anysphere/*',
    'https://example.com/*?x=1',
    'https://example.com\\@evil.example/callback',
    'https:example.com/callback',
    'https://example.com/callback?code=x',
    'cursor://anysphere/callback?tenant=1&error=x',
    'https://example.com/call back',
    'https://exämple.com/callback',
    '\tjavascript:alert(1)',
    'JavaScript:alert(1)',
    'data:text/html,x',
    'file:///etc/passwd',
    'vbscript:x',
    'blob:https://example.com/x',
    'about:blank',
    'view-source:https://example.com',
    'ms-msdt:/x',
    'search-ms:query',
    '/callback',
    'example.com',
    '',
  ];
  for (const uri of REFUSED) {
    it(`RED-03 RED-04 the redirect address ${JSON.stringify(uri)} is refused`, () => {
      expect(wrongSettings(withClients({ allowedRedirects: [uri] }))).to.deep.equal([
        'clients.allowedRedirects[0]',
      ]);
    });
  }
});

describe('a redirect address', () => {
  const client = (uri: string) => ({ id: 'reporting', name: 'Reporting', redirectUris: [uri] });

  it('the redirect address of a pre-registered client follows the same rule', () => {
    const clients = { preRegistered: [client('http://example.com/callback')] };
    expect(wrongSettings(withClients(clients))).to.deep.equal([
      'clients.preRegistered[0].redirectUris[0]',
    ]);
  });

  it('hostedCallbacks is another name for allowed redirect addresses', () => {
    const hostedCallbacks = ['https://claude.ai/cb/*', 'https://claude.ai/cb#x', 'cursor://x/cb'];
    expect(wrongSettings(withClients({ hostedCallbacks }))).to.deep.equal([
      'clients.hostedCallbacks[1]',
    ]);
  });

  it('an unknown app is refused with the names of the known ones', () => {
    const [issue] = issuesIn(withClients({ apps: ['claude', 'clod'] }));
    expect(issue).to.include({ setting: 'clients.apps[1]', given: '"clod"' });
    expect(issue?.expected).to.match(/^one of claude, .*chatgpt.*vscode$/);
  });

  it('every callback of the catalogue is an address or a pattern that may be allowed', () => {
    const callbacks = appCatalog().flatMap((app) => app.callbacks);
    const { allowedRedirects } = load(withClients({ allowedRedirects: callbacks })).clients;
    expect(allowedRedirects).to.deep.equal(callbacks);
    const ids = appCatalog().map(({ id }) => id);
    expect(new Set(ids).size).to.equal(ids.length);
    expect(load(withClients({ apps: ids })).clients.apps).to.deep.equal(ids);
    expect(load(withClients({})).clients.apps).to.deep.equal(['claude']);
    for (const { id, source, date } of appCatalog()) {
      expect(source.length, id).to.be.above(10);
      expect(date, id).to.match(/^20\d\d-\d\d-\d\d$/);
    }
  });

  it('config/clients.md lists every app of the catalogue', async () => {
    const text = await readFile(join(import.meta.dirname, '../../config/clients.md'), 'utf8');
    const rows = [...text.matchAll(/^\| `([a-z0-9-]+)` +\| (.*?) +\| (.*?) +\|$/gm)];
    const listed = rows.map(([, id, name, callbacks = '']) => ({
      id,
      name,
      callbacks: [...callbacks.matchAll(/`([^`]+)`/g)].map(([, uri]) => uri),
    }));
    expect(listed).to.deep.equal(
      appCatalog().map(({ id, name, callbacks }) => ({ id, name, callbacks })),
    );
  });

  it('RED-06 a redirect address is never on our own hosts', () => {
    const clients = {
      hostedCallbacks: ['https://claude.ai/api/mcp/auth_callback'],
      allowedRedirects: ['http://localhost:4001/callback', 'http://LOCALHOST:4000/callback'],
      preRegistered: [client('http://127.0.0.1:4002/callback')],
    };
    const issues = issuesIn(withClients(clients));
    expect(issues.map(({ setting }) => setting)).to.deep.equal([
      'clients.allowedRedirects[0]',
      'clients.allowedRedirects[1]',
      'clients.preRegistered[0].redirectUris[0]',
    ]);
    expect(issues[0]).to.include({
      given: '"http://localhost:4001/callback"',
      expected: 'an address of a client, not an address of Gatehouse itself',
    });
  });
});
