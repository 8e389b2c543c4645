// Where answers may go (RFC 6749 section 3.1.2, RFC 8252 section 7.3, RFC 9700 section 4.1): exact strings, and nowhere before a person acted.
import { expect } from 'chai';
import { createConnector, type Connector } from '../support/administrator.ts';
import {
  asksWho,
  describePage,
  openBrowser,
  requireDeparture,
  requirePage,
} from '../support/browser.ts';
import { REDIRECT_URI, registerClient } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { fillIn } from '../support/html-forms.ts';
import {
  authorizeUrl,
  type Client,
  discover,
  type Parameters,
  register,
  type Server,
} from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const HOSTED = 'https://claude.ai/api/mcp/auth_callback';
const SCHEME = 'cursor://anysphere.cursor-mcp/oauth/callback';
const CLI = 'https://tools.example/cli.json';
const MIXED = 'https://mixed.example/app.json';

const documents = [
  [CLI, ['http://localhost/callback', 'http://127.0.0.1/callback', 'http://[::1]/callback']],
  [MIXED, ['https://mixed.example/cb', 'http://remote.example/cb', 'https://evil.example/cb']],
] as const;

describe('A redirect address', () => {
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
  let connector: Connector;
  let server: Server;
  before(async () => {
    connector = await createConnector(system());
    ({ server } = await discover(connector.link));
  });

  const published = (id: string): Client => ({ id, method: 'none', redirectUri: REDIRECT_URI });
  const address = (client: Client, more: Parameters = {}) =>
    authorizeUrl(server, client, { resource: connector.link, ...more }).url;

  /** One answer, not followed: what a stranger's link makes the server do. */
  async function answerTo(url: URL, cookie = '') {
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { accept: 'text/html', cookie },
    });
    return { response, html: await response.text(), what: `${response.status} ${url.search}` };
  }

  async function expectPage(url: URL, cookie = ''): Promise<void> {
    const { response, html, what } = await answerTo(url, cookie);
    expect(response.status, what).to.equal(400);
    expect(response.headers.has('location'), what).to.equal(false);
    expect(response.headers.get('content-type'), what).to.match(/^text\/html/);
    expect(html, what).to.not.match(/http-equiv|<script/i);
  }

  const registered = (uris: unknown[], more: object = {}) =>
    register(server, { redirect_uris: uris, token_endpoint_auth_method: 'none', ...more });

  async function expectUnregistrable(uris: unknown[], more: object = {}): Promise<void> {
    const { status, body } = await registered(uris, more);
    const answer = { status, error: body.error };
    expect(answer, String(uris)).to.deep.equal({ status: 400, error: 'invalid_redirect_uri' });
  }

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

  it('RED-01 is compared as it is written, for every kind of client', async () => {
    const self = await registerClient(server, 'none', HOSTED);
    const kinds: [Client, string][] = [
      [self, HOSTED],
      [{ id: 'reports', method: 'none', redirectUri: '' }, 'https://c.example/cb'],
      [published(MIXED), 'https://mixed.example/cb'],
    ];
    for (const [client, uri] of kinds) {
      const { response } = await answerTo(address(client, { redirect_uri: uri }));
      expect(response.status, uri).to.equal(303);
      for (const spelling of spellings(uri))
        await expectPage(address(client, { redirect_uri: spelling }));
    }
  });

  it('RED-02 of this computer matches any port, and nothing else about it', async () => {
    const client = published(CLI);
    for (const uri of [
      'http://localhost:51763/callback',
      'http://127.0.0.1:1/callback',
      'http://[::1]:65535/callback',
    ]) {
      const page = requirePage(
        await openBrowser(system().origins).visit(address(client, { redirect_uri: uri })),
      );
      expect(asksWho(page), describePage(page)).to.equal(true);
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
      await expectPage(address(client, { redirect_uri: uri }));
  });

  it('RED-03 is never plain http elsewhere, registered or published', async () => {
    await expectUnregistrable(['http://attacker.example/cb']);
    await expectPage(address(published(MIXED), { redirect_uri: 'http://remote.example/cb' }));
  });

  it('RED-04 with a scheme of its own is one that the operator allowed', async () => {
    for (const uri of [
      'ms-msdt:/x',
      'search-ms:q',
      'smb://h/x',
      'view-source:https://x',
      'intent:x',
      'mailto:a@b',
      'x:/cb',
      'JavaScript:1',
      '\tjavascript:1',
      'data:text/html,x',
      'cursor://anysphere.cursor-mcp/oauth/callback2',
      'CURSOR://anysphere.cursor-mcp/oauth/callback',
    ])
      await expectUnregistrable([uri], { application_type: 'native' });
    const { status, body } = await registered([SCHEME]);
    expect([status, body.redirect_uris]).to.deep.equal([201, [SCHEME]]);
  });

  it('RED-05 that is made to be misread is refused', async () => {
    for (const uri of [
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

  it('RED-06 is never at an address of our own', async () => {
    const { auth, resource, management, origins } = system();
    for (const own of [...origins, auth, resource, management]) {
      await expectUnregistrable([`${own}/interaction/callback`]);
      await expectUnregistrable([`${own.toUpperCase().replace('HTTP:', 'http:')}/cb`]);
      const { port } = new URL(own);
      await expectUnregistrable([`http://[::1]:${port}/cb`, `http://127.0.0.1:${port}/cb`]);
    }
  });

  const MISTAKES: [string, Parameters][] = [
    ['that may not ask anything', { prompt: 'none' }],
    ['for another kind of answer', { response_type: 'bogus' }],
    ['for a token', { response_type: 'token' }],
    ['with quotes in the scope', { scope: '"' }],
    ['for a resource that is nothing', { resource: 'https://evil.example/x' }],
    ['without a resource', { resource: undefined }],
    ['without a challenge', { code_challenge: undefined, code_challenge_method: undefined }],
    ['with a request object', { request: 'e30.e30.' }],
    ['with a request object elsewhere', { request_uri: 'https://evil.example/request' }],
    ['with two states', { state: ['a', 'b'] }],
    ['with an answer in the fragment', { response_mode: 'fragment' }],
  ];

  it('RED-07 of nobody is sent nothing, whatever else is wrong', async () => {
    const client = await registerClient(server);
    for (const [, mistake] of [['', {}] as const, ...MISTAKES]) {
      const evil = { redirect_uri: 'https://evil.example/cb', ...mistake };
      await expectPage(address(client, evil));
      await expectPage(address({ ...client, id: 'nobody' }, evil));
      await expectPage(address(published('https://nobody.invalid/'), evil));
    }
  });

  it('RED-08 of a stranger is sent no mistake before the person acted, signed in or not', async () => {
    const client = await registerClient(server);
    const browser = openBrowser(system().origins);
    await browser.authorize(address(client));
    const cookie = cookieHeader(browser.jar, address(client));
    expect(cookie).to.include('session');
    for (const [, mistake] of MISTAKES.filter(([, { scope }]) => scope === undefined)) {
      await expectPage(address(client, mistake));
      await expectPage(address(client, mistake), cookie);
    }
  });

  it('RED-08 of a stranger is told of a refusal once the person pressed Deny', async () => {
    const { url, state } = authorizeUrl(server, await registerClient(server), {
      resource: connector.link,
    });
    const denied = await openBrowser(system().origins).authorize(url, { decision: 'deny' });
    expect(Object.fromEntries(denied.searchParams)).to.include({
      error: 'access_denied',
      state,
      iss: system().auth,
    });
  });

  it('RED-09 is never reached by passing on a form: every form is answered with 303', async () => {
    const client = await registerClient(server);
    for (const decision of ['approve', 'deny', 'switch'] as const) {
      const browser = openBrowser(system().origins);
      const page = await browser.openConsent(address(client));
      const form = page.forms.find(({ controls }) =>
        controls.some(({ name, value }) => name === 'decision' && value === decision),
      );
      if (!form) throw new Error(describePage(page));
      const { status } = await fetch(form.action, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie: cookieHeader(browser.jar, form.action) },
        body: fillIn(form, { decision }),
      });
      expect(status, decision).to.equal(303);
    }
  });

  it('RED-11 is not changed by a parameter sent twice', async () => {
    const client = await registerClient(server);
    const once: Record<string, string> = {
      redirect_uri: client.redirectUri,
      client_id: client.id,
      state: 'a',
      scope: 'operations',
      response_type: 'code',
      code_challenge_method: 'S256',
    };
    for (const [name, value] of Object.entries(once)) {
      await expectPage(address(client, { [name]: [value, value] }));
      await expectPage(address(client, { [name]: [value, 'https://evil.example/cb'] }));
    }
  });

  it('RED-11 keeps its own query, and gets ours once', async () => {
    const uri = 'http://127.0.0.1:7070/cb?tenant=1&decode=x';
    const client = await registerClient(server, 'none', uri);
    const browser = openBrowser(system().origins);
    const page = await browser.openConsent(address(client, { state: 'ours' }));
    const { searchParams } = requireDeparture(await browser.submit(page, { decision: 'approve' }));
    const names = ['tenant', 'decode', 'code', 'state', 'iss'];
    expect([...searchParams.keys()]).to.have.members(names);
    expect([...searchParams.entries()]).to.deep.include.members([
      ['tenant', '1'],
      ['state', 'ours'],
      ['iss', system().auth],
    ]);
  });

  it('RED-11 that could be taken for an answer is not registered', async () => {
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
    const { body } = await registered([REDIRECT_URI, `${REDIRECT_URI}?error=evil`]);
    expect(body.redirect_uris).to.deep.equal([REDIRECT_URI]);
  });

  it('RED-12 is answered with a code in its query, and in no other way', async () => {
    const client = await registerClient(server);
    for (const more of [
      ...['id_token', 'token', 'none', 'code id_token', 'code token'].map((response_type) => ({
        response_type,
      })),
      ...['fragment', 'form_post', 'web_message', 'jwt', 'query.jwt'].map((response_mode) => ({
        response_mode,
      })),
    ])
      await expectPage(address(client, more));
    const { status, body } = await registered([REDIRECT_URI], {
      response_types: ['id_token', 'token'],
      grant_types: ['implicit'],
    });
    expect([status, body.response_types]).to.deep.equal([201, ['code']]);
    expect(server.response_types_supported).to.deep.equal(['code']);
    expect(server.response_modes_supported).to.deep.equal(['query']);
  });
});
