// What people see who open a connect link, or another address of a host, in a browser.
import { execFileSync } from 'node:child_process';
import { expect } from 'chai';
import { advanceClock } from '../support/clock.ts';
import {
  createConnector,
  deleteConnector,
  revokeConnector,
  type Connector,
} from '../support/management-api.ts';
import { startProduction, type Production } from '../support/production.ts';
import { rawRequest, type RawRequest, type RawResponse } from '../support/raw-request.ts';
import { useSystem } from '../support/system.ts';

/** Chromium, Firefox, Safari. */
const BROWSERS = [
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8',
  'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
];
const [CHROMIUM = ''] = BROWSERS;
/** What MCP clients, HTTP libraries and probes send. */
const PROGRAMS = [
  undefined,
  '*/*',
  'application/json',
  'text/event-stream',
  'application/json, text/event-stream',
  'text/event-stream, application/json;q=0.9, */*;q=0.1',
  'application/json, text/plain, */*',
  'application/json, text/html;q=0.9',
  'application/json;q=1, text/html;q=1',
  'text/html;q=0, */*',
];
const DAY = 86_400;
/** Differ between any two responses, or describe the body. */
const OF_THE_BODY = [
  'content-language',
  'content-length',
  'content-type',
  'date',
  'vary',
  'x-request-id',
];

function visit(url: string, options: RawRequest = {}): Promise<RawResponse> {
  const { host, pathname } = new URL(url);
  const headers = { host, accept: CHROMIUM, ...options.headers };
  return rawRequest(url, { path: pathname, ...options, headers });
}

function ask(url: string, accept: string | undefined, options: RawRequest = {}) {
  const { host, pathname } = new URL(url);
  const headers = { host, ...(accept === undefined ? {} : { accept }), ...options.headers };
  return rawRequest(url, { path: pathname, ...options, headers });
}

const isPage = ({ headers }: RawResponse) => headers['content-type'] === 'text/html; charset=utf-8';
const isJson = ({ headers }: RawResponse) =>
  headers['content-type'] === 'application/json; charset=utf-8';

function expectVary({ headers }: RawResponse, name: string): void {
  expect(String(headers.vary).toLowerCase().split(', ')).to.include(name.toLowerCase());
}

function otherHeaders({ headers }: RawResponse): object {
  return Object.fromEntries(
    Object.entries(headers).filter(([name]) => !OF_THE_BODY.includes(name)),
  );
}

function unescape(html: string): string {
  return html
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}

/** The texts to copy, in the order of the page. */
function samplesIn({ body }: RawResponse): string[] {
  return [...body.matchAll(/<pre [^>]*><bdi[^>]*>([^<]*)<\/bdi>/g)].map(([, text = '']) =>
    unescape(text),
  );
}

/** The install addresses by scheme. */
function installsIn({ body }: RawResponse): Record<string, URL> {
  const addresses = [...body.matchAll(/<a class="button"[^>]* href="([^"]*)"/g)];
  const urls = addresses.map(([, href = '']) => new URL(unescape(href)));
  return Object.fromEntries(urls.map((url) => [url.protocol, url]));
}

/** The arguments that a shell gives to the program of a command. */
function wordsOf(command: string): string[] {
  const program = command.split(' ', 1)[0] ?? '';
  const print = `${program}() { printf '%s\\n' "$@"; }\n${command}`;
  return execFileSync('sh', ['-c', print], { encoding: 'utf8' }).trimEnd().split('\n');
}

describe('Addresses that people open in a browser', () => {
  const system = useSystem();
  let production: Production;
  before(async () => {
    production = await startProduction();
  });
  after(() => production?.stop());

  describe('a connect link', () => {
    let connector: Connector;
    before(async () => {
      connector = await createConnector(system(), { name: 'Ops team' });
    });

    describe('in a browser', () => {
      for (const accept of BROWSERS)
        it(`the response is a page with the status and the headers of the challenge (${accept.length})`, async () => {
          const { link } = connector;
          const page = await visit(link, { headers: { accept } });
          const challenge = await ask(link, 'application/json');
          expect(page.status).to.equal(401);
          expect(isPage(page)).to.equal(true);
          expect(page.headers['www-authenticate']).to.match(/^Bearer resource_metadata="http/);
          expect(page.headers['cache-control']).to.equal('no-store');
          // The page alone loads the script that copies.
          const policy = `${challenge.headers['content-security-policy']};script-src 'self'`;
          expect(otherHeaders(page)).to.deep.equal({
            ...otherHeaders(challenge),
            'content-security-policy': policy,
          });
        });

      it('HEAD has the status and headers of the page', async () => {
        const page = await visit(connector.link);
        const head = await visit(connector.link, { method: 'HEAD' });
        expect([head.status, head.body, isPage(head)]).to.deep.equal([401, '', true]);
        expect(otherHeaders(head)).to.deep.equal(otherHeaders(page));
      });

      it('the page shows the link and the name of the connector, as its metadata does', async () => {
        const { link } = connector;
        const { body } = await visit(link);
        const { pathname, origin } = new URL(link);
        const metadata = await fetch(`${origin}/.well-known/oauth-protected-resource${pathname}`);
        const { resource, resource_name: name } = (await metadata.json()) as Record<string, string>;
        expect([resource, name]).to.deep.equal([link, 'Ops team']);
        expect(body).to.include(`<bdi id="connect-link">${link}</bdi>`);
        expect(body).to.include('<bdi class="fact">Ops team</bdi>');
      });

      it('the page has an install address for each app that has one', async () => {
        const { link } = connector;
        const installs = installsIn(await visit(link));
        expect(Object.keys(installs)).to.deep.equal([
          'cursor:',
          'vscode:',
          'vscode-insiders:',
          'lmstudio:',
        ]);
        const { 'cursor:': cursor, 'lmstudio:': lmStudio } = installs;
        expect(String(cursor)).to.match(/^cursor:\/\/anysphere\.cursor-deeplink\/mcp\/install\?/);
        expect(String(lmStudio)).to.match(/^lmstudio:\/\/add_mcp\?/);
        for (const address of [cursor, lmStudio]) {
          const parameters = address?.searchParams;
          expect(parameters?.get('name')).to.equal('ops-team');
          const config = Buffer.from(parameters?.get('config') ?? '', 'base64').toString();
          expect(JSON.parse(config)).to.deep.equal({ url: link });
        }
        for (const scheme of ['vscode:', 'vscode-insiders:']) {
          const [path, query = ''] = String(installs[scheme]).split('?');
          expect(path).to.equal(`${scheme}mcp/install`);
          expect(JSON.parse(decodeURIComponent(query))).to.deep.equal({
            name: 'ops-team',
            type: 'http',
            url: link,
          });
        }
      });

      it('the page has the commands and files of each app', async () => {
        const { link } = connector;
        const samples = samplesIn(await visit(link));
        expect(samples).to.include.members([
          link,
          `claude mcp add --transport http ops-team ${link}`,
          `codex mcp add ops-team --url ${link}`,
          `gemini mcp add --transport http ops-team ${link}`,
          `npx -y -p mcp-remote mcp-remote-client ${link}`,
        ]);
        const files = samples
          .filter((text) => text.startsWith('{'))
          .map((text) => JSON.parse(text));
        expect(files).to.deep.equal([
          { servers: { 'ops-team': { type: 'http', url: link } } },
          { mcpServers: { 'ops-team': { url: link } } },
          { mcpServers: { 'ops-team': { command: 'npx', args: ['-y', 'mcp-remote', link] } } },
        ]);
      });

      for (const [name, slug] of [
        [`'; touch "$HOME"; \`id\` #`, 'touch-home-id'],
        ['</bdi><script>alert(1)</script>', 'bdi-script-alert-1-script'],
        ['" onmouseover="alert(1)', 'onmouseover-alert-1'],
        ['&config=e30&name=other', 'config-e30-name-other'],
        ['--scope user', 'scope-user'],
        ['事務所', 'gatehouse'],
        ['{"url":"https://evil.example"}', 'url-https-evil-example'],
      ] as const)
        it(`the name ${name} is escaped on the page and shortened in addresses, files and commands`, async () => {
          const hostile = await createConnector(system(), { name });
          const page = await visit(hostile.link);
          const [, shown = ''] = /<bdi class="fact">([^<]*)<\/bdi>/.exec(page.body) ?? [];
          expect(unescape(shown)).to.equal(name);
          const own = /<script src="\/assets\/copy\.js\?v=[\w-]{22}" defer><\/script>/;
          expect(page.body.replace(own, '')).not.to.match(/<script|\son\w+="/);
          const commands = samplesIn(page).filter((text) => /^(claude|codex|gemini) /.test(text));
          expect(commands.map((command) => wordsOf(command))).to.deep.equal([
            ['mcp', 'add', '--transport', 'http', slug, hostile.link],
            ['mcp', 'add', slug, '--url', hostile.link],
            ['mcp', 'add', '--transport', 'http', slug, hostile.link],
          ]);
          const { 'cursor:': cursor, 'vscode:': vsCode } = installsIn(page);
          expect([...(cursor?.searchParams.keys() ?? [])]).to.deep.equal(['name', 'config']);
          expect(cursor?.searchParams.get('name')).to.equal(slug);
          const [, query = ''] = String(vsCode).split('?');
          expect(JSON.parse(decodeURIComponent(query))).to.include({
            name: slug,
            url: hostile.link,
          });
        });

      it('the page explains Claude, which connects from the internet, unless the link is one of this computer', async () => {
        const path = await production.createLink();
        const headers = { accept: CHROMIUM };
        const hosted = await production.request('resource', { path, headers });
        expect(hosted.status).to.equal(401);
        expect(hosted.body).to.include('Claude (web').and.include('Claude Code');
        const local = await visit(connector.link);
        expect(local.body).to.include('Claude Code').and.not.include('Claude (web');
      });

      it('the pages of two connectors with one name, one of them restricted, differ in nothing but the link', async () => {
        const name = 'Two of a kind';
        const expiresAt = '2999-01-01T00:00:00Z';
        const [one, other] = await Promise.all([
          createConnector(system(), { name, level: 'analytics' }),
          createConnector(system(), {
            name,
            level: 'full',
            maxUses: 1,
            expiresAt,
            audience: [{ email: 'ada@example.com' }],
          }),
        ]);
        const encoded = ({ link }: Connector) => [
          link,
          encodeURIComponent(link),
          encodeURIComponent(Buffer.from(JSON.stringify({ url: link })).toString('base64')),
        ];
        const bodies = await Promise.all(
          [one, other].map(async (each) => {
            const { body } = await visit(each.link);
            return encoded(each).reduce((text, form) => text.replaceAll(form, '-'), body);
          }),
        );
        expect(bodies[0]).to.include('Two of a kind');
        expect(bodies[0]).to.equal(bodies[1]);
      });

      it('the page is in the language of the browser', async () => {
        const german = await visit(connector.link, { headers: { 'accept-language': 'de' } });
        expect(german.headers['content-language']).to.equal('de');
        expect(german.body).to.include('App mit');
        expectVary(german, 'Accept-Language');
      });

      it('a link that does not work is a page that says why and asks for a new link', async () => {
        const ended = await Promise.all(
          ['revoked', 'deleted'].map((name) => createConnector(system(), { name })),
        );
        const [revoked, deleted] = ended;
        const expiresAt = new Date(Date.now() + DAY * 1000).toISOString();
        const expiring = await createConnector(system(), { name: 'expired', expiresAt });
        for (const { id } of ended) await revokeConnector(system(), id);
        await deleteConnector(system(), deleted?.id ?? '');
        advanceClock(2 * DAY);
        const unknown = connector.link.replace(connector.id, 'x'.repeat(22));
        const cases: [string | undefined, number, string][] = [
          [revoked?.link, 410, 'This connect link was revoked'],
          [expiring.link, 410, 'This connect link has expired'],
          [deleted?.link, 404, 'Connect link not found'],
          [unknown, 404, 'Connect link not found'],
        ];
        for (const [link = '', status, title] of cases) {
          const page = await visit(link);
          expect([page.status, isPage(page)], title).to.deep.equal([status, true]);
          expect(page.body)
            .to.include(`<h1>${title}</h1>`)
            .and.match(/\bnew\b/);
          expect(page.body).not.to.match(/<bdi[^>]*>(revoked|deleted|expired)</);
          expect(page.headers).not.to.have.property('www-authenticate');
          const json = await ask(link, 'application/json');
          expect([json.status, isJson(json)], title).to.deep.equal([status, true]);
          expect(JSON.parse(json.body).error.message).to.be.a('string');
          expect(otherHeaders(page)).to.deep.equal(otherHeaders(json));
        }
      });
    });

    describe('in a program', () => {
      const BODY = {
        jsonrpc: '2.0',
        error: {
          code: -32_000,
          message: 'an access token is required: sign in first',
          data: { error: 'token_required' },
        },
      };

      for (const accept of PROGRAMS)
        it(`the response to a GET without a token is JSON, and varies by Accept (${accept ?? 'no Accept'})`, async () => {
          const response = await ask(connector.link, accept);
          expect([response.status, isJson(response)]).to.deep.equal([401, true]);
          expect(JSON.parse(response.body)).to.deep.equal(BODY);
          expectVary(response, 'Accept');
          expectVary(response, 'Origin');
        });

      it('the response to every other method is JSON, whatever Accept is', async () => {
        for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
          const response = await visit(connector.link, { method });
          expect([response.status, isJson(response)], method).to.deep.equal([401, true]);
          expect(JSON.parse(response.body)).to.deep.equal(BODY);
          expect(response.headers.vary).to.equal('Origin');
        }
      });

      it('the response to a request with any Authorization header is JSON, whatever Accept is', async () => {
        for (const authorization of ['Bearer x', 'DPoP x', 'Basic YTpi', 'Bearer', '']) {
          const response = await visit(connector.link, { headers: { authorization } });
          expect([response.status, isJson(response)], authorization).to.deep.equal([401, true]);
          expect(response.headers.vary).to.equal('Origin');
        }
      });
    });

    it('an address that is almost a connect link says what to change, as a page and as JSON', async () => {
      const { link } = await createConnector(system());
      for (const [address, title, description] of [
        [`${link}/`, 'Remove what follows the connect link', 'ends with /mcp: remove'],
        [`${link}/sse`, 'Remove what follows the connect link', 'ends with /mcp: remove'],
        [link.replace('/mcp', ''), 'This isn’t the whole connect link', 'not a whole connect link'],
        [link.replace(/[^/]+\/mcp$/, ''), 'This isn’t the whole connect link', 'not a whole'],
      ] as const) {
        const page = await visit(address);
        expect(page.status, address).to.equal(404);
        expect(page.body).to.include(title);
        const answer = await fetch(address, { method: 'POST', body: '{}' });
        expect(answer.status, address).to.equal(404);
        expect(await answer.text()).to.include(description);
      }
    });

    it('the address of minted tokens is a page in a browser, and JSON in a program', async () => {
      const url = `${system().resource}/mcp`;
      const page = await visit(url);
      expect([page.status, isPage(page)]).to.deep.equal([401, true]);
      expect(page.headers['www-authenticate']).to.equal('Bearer');
      expect(page.body).to.include('<h1>This address is for programs</h1>');
      const json = await ask(url, '*/*');
      expect([json.status, isJson(json)]).to.deep.equal([401, true]);
      expect(JSON.parse(json.body).error.data).to.deep.equal({ error: 'invalid_token' });
    });
  });

  describe('the roots and unknown addresses of the hosts', () => {
    const hosts = () => {
      const [auth = '', resource = '', developmentIdp = ''] = system().origins;
      const { management } = system();
      return { auth, resource, developmentIdp, management };
    };

    /** Loads the stylesheet that the page names. */
    async function expectStyled(base: string, { body }: RawResponse): Promise<void> {
      const [, path = ''] = /<link rel="stylesheet" href="([^"]*)"/.exec(body) ?? [];
      const style = await fetch(base + unescape(path));
      expect([style.status, style.headers.get('content-type')]).to.deep.equal([
        200,
        'text/css; charset=utf-8',
      ]);
    }

    it('an unknown address is a page with its stylesheet in a browser, and JSON in a program', async () => {
      for (const [host, base] of Object.entries(hosts())) {
        const page = await visit(`${base}/nothing`);
        expect([page.status, isPage(page)], host).to.deep.equal([404, true]);
        expect(page.body, host).to.include('<h1>Page not found</h1>');
        expectVary(page, 'Accept');
        await expectStyled(base, page);
        for (const accept of PROGRAMS) {
          const json = await ask(`${base}/nothing`, accept);
          expect([json.status, isJson(json)], `${host} ${accept}`).to.deep.equal([404, true]);
          expect(JSON.parse(json.body)).to.have.property('error', 'not_found');
          expectVary(json, 'Accept');
        }
      }
    });

    it('at another host name, every page has its stylesheet and says which address to open', async () => {
      for (const [name, base] of Object.entries(hosts())) {
        const { port } = new URL(base);
        const host = { host: `other.example:${port}` };
        const open = (path: string, accept: string) =>
          rawRequest(base, { path, headers: { ...host, accept } });
        const page = await open('/nothing?code=canary', CHROMIUM);
        expect([page.status, isPage(page)], name).to.deep.equal([421, true]);
        expect(page.body).to.include(`<a class="button" href="${base}/nothing">`);
        expect(page.body).to.not.include('canary');
        const [, style = ''] = /<link rel="stylesheet" href="([^"]*)"/.exec(page.body) ?? [];
        expect((await open(unescape(style), 'text/css')).status, name).to.equal(200);
        expect((await open('//evil.example/%2e', CHROMIUM)).body).to.include(`href="${base}/"`);
        const json = await open('/nothing', '*/*');
        expect([json.status, isJson(json)], name).to.deep.equal([421, true]);
      }
    });

    it('the roots are pages in a browser, and JSON in a program', async () => {
      const { auth, resource, developmentIdp, management } = hosts();
      const expected: [base: string, status: number, text: string, json: number][] = [
        [auth, 200, 'Connect AI apps to your company’s tools', 200],
        [resource, 200, 'Connect AI apps to your company’s tools', 404],
        [developmentIdp, 404, 'Page not found', 404],
      ];
      for (const [base, status, text, jsonStatus] of expected) {
        const page = await visit(`${base}/`);
        expect([page.status, isPage(page)], base).to.deep.equal([status, true]);
        expect(page.body).to.include(text);
        expectVary(page, 'Accept');
        await expectStyled(base, page);
        const json = await ask(`${base}/`, '*/*');
        expect([json.status, isJson(json)], base).to.deep.equal([jsonStatus, true]);
        expectVary(json, 'Accept');
      }
      const console = await visit(`${management}/`);
      expect([console.status, console.headers.location]).to.deep.equal([303, '/console']);
      const json = await ask(`${management}/`, '*/*');
      expect([json.status, isJson(json)]).to.deep.equal([404, true]);
    });

    it('without a console, the root of the management host says how to have one', async () => {
      const page = await production.request('management', { headers: { accept: CHROMIUM } });
      expect([page.status, isPage(page)]).to.deep.equal([404, true]);
      expect(page.body).to.include('<h1>The console is off</h1>');
      const [, path = ''] = /<link rel="stylesheet" href="([^"]*)"/.exec(page.body) ?? [];
      expect((await production.request('management', { path: unescape(path) })).status).to.equal(
        200,
      );
      expect(isJson(await production.request('management'))).to.equal(true);
    });

    it('the root of the authorization server names its metadata to programs', async () => {
      const { auth } = hosts();
      const { body } = await ask(`${auth}/`, 'application/json');
      const { issuer, metadata } = JSON.parse(body);
      expect(issuer).to.equal(auth);
      expect(await (await fetch(metadata)).json()).to.include({ issuer });
    });

    it('the root of the resource server leads to the connected apps', async () => {
      const { auth, resource } = hosts();
      expect((await visit(`${resource}/`)).body).to.include(`href="${auth}/account">`);
    });

    it('the management API and well-known addresses are JSON in a browser', async () => {
      const { management } = hosts();
      for (const path of ['/api/v1/connectors', '/metrics']) {
        const headers = { accept: CHROMIUM };
        for (const response of [
          await visit(management + path),
          await production.request('management', { path, headers }),
        ])
          expect([response.status, isJson(response)], path).to.deep.equal([401, true]);
      }
      for (const [host, base] of Object.entries(hosts()))
        for (const path of [
          '/.well-known/nothing',
          '/connect/x/mcp/.well-known/openid-configuration',
        ]) {
          const response = await visit(base + path);
          expect([response.status, isJson(response)], `${host} ${path}`).to.deep.equal([404, true]);
        }
      const resource = await visit(`${hosts().resource}/.well-known/oauth-protected-resource`);
      expect([resource.status, isJson(resource)]).to.deep.equal([200, true]);
    });
  });
});
