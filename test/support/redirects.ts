// Clients of every kind with their redirect addresses, and requests with other redirect addresses.
import { expect } from 'chai';
import { createConnector, type Connector } from './management-api.ts';
import { REDIRECT_URI, registerClient } from './connection.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  type Parameters,
  register,
  type Server,
} from './oauth.ts';
import { useSystem } from './system.ts';

export const SCHEME = 'cursor://anysphere.cursor-mcp/oauth/callback';
export const CLI = 'https://tools.example/cli.json';
export const MIXED = 'https://mixed.example/app.json';

const documents = [
  [CLI, ['http://localhost/callback', 'http://127.0.0.1/callback', 'http://[::1]/callback']],
  [MIXED, ['https://mixed.example/cb', 'http://remote.example/cb', 'https://evil.example/cb']],
] as const;

/** One system for all tests of the surrounding `describe`; call the returned functions while a test runs. */
export function useRedirects() {
  const system = useSystem({
    file: {
      clients: {
        allowedRedirects: [SCHEME],
        preRegistered: [{ id: 'reports', name: 'Reports', redirectUris: ['https://c.example/cb'] }],
        metadataDocuments: documents.map(([url, uris]) => ({
          url,
          document: { client_id: url, client_name: 'Published', redirect_uris: uris },
        })),
      },
    },
  });
  let connector: Connector | undefined;
  let server: Server | undefined;
  before(async () => {
    connector = await createConnector(system());
    ({ server } = await discover(connector.link));
  });

  const target = () => {
    if (!connector || !server) throw new Error('the system runs only during tests');
    return { connector, server };
  };
  const newClient = (...more: [method?: Client['method'], redirectUri?: string]) =>
    registerClient(target().server, ...more);
  const authorizationUrl = (client: Client, more: Parameters = {}) =>
    authorizeUrl(target().server, client, { resource: target().connector.link, ...more }).url;

  /** Requests the URL without following a redirect. */
  async function fetchWithoutRedirects(url: URL, cookie = '') {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { accept: 'text/html', cookie },
    });
    return { response, html: await response.text(), what: `${response.status} ${url.search}` };
  }

  async function expectErrorPage(url: URL, cookie = ''): Promise<void> {
    const { response, html, what } = await fetchWithoutRedirects(url, cookie);
    expect(response.status, what).to.equal(400);
    expect(response.headers.has('location'), what).to.equal(false);
    expect(response.headers.get('content-type'), what).to.match(/^text\/html/);
    // The page tells the person whether to retry or to fix the app, so it must not blame the server.
    expect(html, what).to.not.match(/http-equiv|<script|on our side/i);
  }

  const registerRedirects = (uris: unknown[], more: object = {}) =>
    register(target().server, { redirect_uris: uris, token_endpoint_auth_method: 'none', ...more });

  async function expectUnregistrable(uris: unknown[], more: object = {}): Promise<void> {
    const { status, body } = await registerRedirects(uris, more);
    const answer = { status, error: body.error };
    expect(answer, String(uris)).to.deep.equal({ status: 400, error: 'invalid_redirect_uri' });
  }

  return {
    system,
    target,
    newClient,
    authorizationUrl,
    fetchWithoutRedirects,
    expectErrorPage,
    registerRedirects,
    expectUnregistrable,
  };
}

/** The client whose metadata document is at `id`. */
export const publishedClient = (id: string): Client => ({
  id,
  method: 'none',
  redirectUri: REDIRECT_URI,
});
