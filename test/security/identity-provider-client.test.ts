import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  type Browser,
  describePage,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { requestAuthorization } from '../support/connection.ts';
import { freePorts } from '../support/free-ports.ts';
import { GITHUB_CLIENT, startGithub } from '../support/github.ts';
import { PERSON } from '../support/identity-provider.ts';
import {
  OPENID_CLIENT,
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { until } from '../support/until.ts';
import { type LogLine, startSystem, type System } from '../support/system.ts';

const CONTACT = 'it-help@example.com';
const ENTITLEMENTS = [{ match: { anyone: true }, level: 'full' }];
/** Settings for several providers. */
const SEVERAL = {
  developmentIdp: undefined,
  entitlements: [{ match: { emailDomain: 'example.com' }, level: 'full' }],
  management: { administrators: [] },
};
const CONSOLE = { administrators: [{ email: PERSON.email }] };

type Answer = { status: number; body?: object | string; headers?: Record<string, string> };

/** A provider whose token endpoint responds with this error. */
function refusing({ status, body = {}, headers = {} }: Answer) {
  const type = typeof body === 'string' ? 'text/html' : 'application/json';
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = (_req: unknown, res: ServerResponse) =>
    void res.writeHead(status, { 'content-type': type, ...headers }).end(text);
  return { claims: PERSON, responses: { '/token': answer } };
}

const WRONG_SECRET: Answer = {
  status: 401,
  body: { error: 'invalid_client', error_description: 'The client secret is wrong.' },
  headers: { 'www-authenticate': 'Basic realm="token"' },
};

const errorsIn = (log: LogLine[]) =>
  log
    .filter(({ level }) => level === 50)
    .map(({ err, requestId }) => ({ ...(err as { message: string }), requestId }));

describe('A sign-in at an identity provider that refuses Gatehouse as a client', () => {
  let provider: OpenIdProvider;
  let system: System;
  const log: LogLine[] = [];
  before(async () => {
    provider = await startOpenIdProvider();
    const file = { entitlements: ENTITLEMENTS, management: CONSOLE };
    system = await startSystem({ ...openIdSettings(provider, file), log });
  });
  beforeEach(() => {
    provider.setBehaviour({ claims: PERSON });
    log.length = 0;
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  const newBrowser = () => openBrowser([system.auth, system.management]);

  async function startOfApp(): Promise<URL> {
    return (await requestAuthorization(system, await createConnector(system))).url;
  }
  const STARTS: Record<string, () => Promise<URL> | URL> = {
    'for an app': startOfApp,
    'to the account page': () => new URL(`${system.auth}/account`),
    'to the console': () => new URL(`${system.management}/console/connectors`),
  };

  /** Visits the provider and then the callback, with `answer` in its query instead of the code. */
  async function signIn(
    browser: Browser,
    start: URL,
    answer: Record<string, string> = {},
  ): Promise<Page> {
    const callback = provider.approve(requireExternalRedirect(await browser.visit(start)));
    if (Object.keys(answer).length > 0) callback.searchParams.delete('code');
    for (const [name, value] of Object.entries(answer)) callback.searchParams.set(name, value);
    return requirePage(await browser.visit(callback));
  }

  const referenceIn = ({ html }: Page) => /<dd class="code">([\w-]{12})<\/dd>/.exec(html)?.[1];

  for (const [where, start] of Object.entries(STARTS)) {
    it(`IDP-11 the error page of a sign-in ${where} says that the setup is wrong and whom to ask`, async () => {
      provider.setBehaviour(refusing(WRONG_SECRET));
      const page = await signIn(newBrowser(), await start());
      expect(page.status, describePage(page)).to.equal(500);
      expect(page.headers.get('retry-after')).to.equal(null);
      expect(page.html)
        .to.include('Sign-in isn’t set up correctly')
        .and.include('administrator')
        .and.not.match(/wait a minute|invalid_client|secret/i);
      await until('the error to be logged', () => errorsIn(log).length > 0);
      const [error, ...more] = errorsIn(log);
      expect(more).to.deep.equal([]);
      expect(error?.requestId).to.equal(referenceIn(page));
      expect(error?.message)
        .to.include('invalid_client (The client secret is wrong.)')
        .and.include('GATEHOUSE_IDENTITY_PROVIDER_SECRET')
        .and.not.include(OPENID_CLIENT.clientSecret);
    });
  }

  const REFUSALS: Record<string, [Answer, logged: string]> = {
    'a disabled client': [
      { status: 400, body: { error: 'unauthorized_client' } },
      'unauthorized_client',
    ],
    "Google's error for a missing client secret": [
      {
        status: 400,
        body: { error: 'invalid_request', error_description: 'client_secret is missing.' },
      },
      'invalid_request (client_secret is missing.)',
    ],
    "Auth0's error for a wrong client secret": [
      { status: 401, body: { error: 'access_denied', error_description: 'Unauthorized' } },
      'access_denied (Unauthorized)',
    ],
    'a missing token endpoint': [{ status: 404, body: '<h1>Not found</h1>' }, 'HTTP 404'],
    'an error description with the secret and control characters': [
      {
        status: 401,
        body: {
          error: 'invalid_client',
          error_description: `\u001b[2J${OPENID_CLIENT.clientSecret} is\nwrong ${'x'.repeat(999)}`,
        },
      },
      'invalid_client ([2J… is wrong xxx',
    ],
  };
  for (const [what, [answer, logged]] of Object.entries(REFUSALS)) {
    it(`IDP-11 ${what} gets the page for a wrong setup, and the log says ${logged}`, async () => {
      provider.setBehaviour(refusing(answer));
      const page = await signIn(newBrowser(), await startOfApp());
      expect(page.status, describePage(page)).to.equal(500);
      expect(page.html).to.include('set up correctly');
      await until('the error to be logged', () => errorsIn(log).length > 0);
      const [error] = errorsIn(log);
      expect(error?.message).to.include(logged);
      expect(JSON.stringify(log)).to.not.include(OPENID_CLIENT.clientSecret);
      expect(error?.message.length).to.be.below(800);
    });
  }

  it('IDP-11 temporary errors of the token endpoint get 503, and an unknown code gets 400', async () => {
    const temporary: Answer[] = [
      { status: 503, body: { error: 'temporarily_unavailable' } },
      { status: 500, body: { error: 'invalid_client' } },
      { status: 429, body: { error: 'too_many_requests' } },
      { status: 400, body: { error: 'server_error' } },
    ];
    for (const answer of temporary) {
      provider.setBehaviour(refusing(answer));
      const page = await signIn(newBrowser(), await startOfApp());
      expect(page.status, describePage(page)).to.equal(503);
      expect(page.html).to.include('Wait a minute');
    }
    provider.setBehaviour(refusing({ status: 400, body: { error: 'invalid_grant' } }));
    const page = await signIn(newBrowser(), await startOfApp());
    expect([page.status, page.html.includes('didn’t finish')]).to.deep.equal([400, true]);
  });

  const ANSWERS: Record<string, [status: number, says: string]> = {
    unauthorized_client: [400, 'set up correctly'],
    invalid_client: [400, 'set up correctly'],
    invalid_scope: [400, 'set up correctly'],
    invalid_request: [400, 'set up correctly'],
    unsupported_response_type: [400, 'set up correctly'],
    redirect_uri_mismatch: [400, 'set up correctly'],
    server_error: [503, 'Wait a minute'],
    temporarily_unavailable: [503, 'Wait a minute'],
    access_denied: [400, 'didn’t finish signing in'],
    login_required: [400, 'didn’t finish signing in'],
    interaction_required: [400, 'didn’t finish signing in'],
    another_error: [400, 'didn’t finish signing in'],
  };
  for (const [error, [status, says]] of Object.entries(ANSWERS)) {
    it(`IDP-11 a callback with the error ${error} gets a page that says “${says}”`, async () => {
      const page = await signIn(newBrowser(), await startOfApp(), {
        error,
        error_description: '<script>canary',
      });
      expect(page.status, describePage(page)).to.equal(status);
      expect(page.html)
        .to.include(says)
        .and.not.match(/canary|<script/);
      await until('the error to be logged', () =>
        log.some(({ requestId }) => requestId === referenceIn(page)),
      );
      const line = log.find(({ requestId }) => requestId === referenceIn(page));
      expect(JSON.stringify(line)).to.include(error);
      expect(line?.['level']).to.equal(says.includes('finish') ? 30 : 50);
      expect(JSON.stringify(line)).to.not.include('state=');
    });
  }

  it('IDP-11 the error page names supportContact if it is set', async () => {
    const options = openIdSettings(provider, {
      entitlements: ENTITLEMENTS,
      supportContact: CONTACT,
    });
    const other = await startSystem(options);
    try {
      provider.setBehaviour(refusing(WRONG_SECRET));
      const browser = openBrowser([other.auth]);
      const page = await signIn(browser, new URL(`${other.auth}/account`));
      expect(page.html).to.match(new RegExp(`Contact <bdi[^>]*>${CONTACT}`));
      expect(page.html).to.not.include('Contact your administrator or the person');
    } finally {
      await other.stop();
    }
  });

  it('IDP-11 the choice names the provider that refuses Gatehouse, and the other providers work', async () => {
    const [second, github] = await Promise.all([startOpenIdProvider(), startGithub()]);
    second.setBehaviour({ claims: PERSON });
    const listed = [
      { id: 'one', name: 'One', issuer: provider.issuer, ...OPENID_CLIENT },
      { id: 'two', name: 'Two', issuer: second.issuer, ...OPENID_CLIENT },
      {
        id: 'github',
        kind: 'github',
        name: 'GitHub',
        issuer: github.issuer,
        ...GITHUB_CLIENT,
        clientSecret: 'another-secret-than-github-gave',
      },
    ];
    const lines: LogLine[] = [];
    const other = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: { ...SEVERAL, identityProviders: listed },
      log: lines,
    });
    try {
      const { link } = await createConnector(other);
      const browser = openBrowser([other.auth]);
      const { url } = await requestAuthorization(other, { link });
      const choice = requirePage(await browser.visit(url));
      const toGithub = requireExternalRedirect(
        await browser.submit(choice, { provider: 'github' }),
      );
      const refused = requirePage(await browser.visit(github.approve(toGithub)));
      expect(refused.status, describePage(refused)).to.equal(500);
      expect(refused.html).to.match(/Sign-in with .{0,60}GitHub.{0,60} isn’t set up correctly/);
      await until('the error to be logged', () => errorsIn(lines).length > 0);
      expect(errorsIn(lines)[0]?.message).to.include('incorrect_client_credentials (no)');
      expect(refused.html).to.include(`>${errorsIn(lines)[0]?.requestId}<`);
      const toTwo = requireExternalRedirect(await browser.submit(refused, { provider: 'two' }));
      const consent = requirePage(await browser.visit(second.approve(toTwo)));
      expect(isConsentPage(consent), describePage(consent)).to.equal(true);
    } finally {
      await other.stop();
      await Promise.all([second.stop(), github.stop()]);
    }
  });
});

describe('The startup check of identity providers', () => {
  const WARNING = 'the identity provider refuses Gatehouse: nobody can sign in there';
  let provider: OpenIdProvider;
  before(async () => {
    provider = await startOpenIdProvider();
  });
  after(() => provider.stop());

  async function warningsWith(
    options: Parameters<typeof startSystem>[0],
    isDone: (log: LogLine[]) => boolean,
  ): Promise<LogLine[]> {
    const log: LogLine[] = [];
    const system = await startSystem({ ...options, log });
    try {
      expect((await fetch(`${system.auth}/readyz`)).status).to.equal(200);
      await until('the check to finish', () => isDone(log));
    } finally {
      await system.stop();
    }
    return log.filter(({ level }) => level === 40);
  }

  const DECLINED: Record<string, object> = {
    'a wrong client secret': OPENID_CLIENT,
    'a missing client secret': { clientId: OPENID_CLIENT.clientId },
  };
  for (const [what, client] of Object.entries(DECLINED)) {
    it(`SUP-07 the startup check warns once about ${what}, with the provider's error code and no secret`, async () => {
      provider.setBehaviour(refusing(WRONG_SECRET));
      const { settings = {}, file } = openIdSettings(provider, { entitlements: ENTITLEMENTS });
      const identityProvider = { issuer: provider.issuer, ...client };
      const [warning, ...more] = await warningsWith(
        { settings, file: { ...file, identityProvider } },
        (log) => log.some(({ msg }) => msg === WARNING),
      );
      expect(more).to.deep.equal([]);
      expect(warning).to.include({
        msg: WARNING,
        what: provider.issuer,
        reason: 'invalid_client (The client secret is wrong.)',
      });
      expect(warning?.['remedy']).to.include('GATEHOUSE_IDENTITY_PROVIDER_SECRET');
      expect(String(warning?.['remedy']).includes('no client secret is set')).to.equal(
        client !== OPENID_CLIENT,
      );
      expect(JSON.stringify(warning)).to.not.include(OPENID_CLIENT.clientSecret);
    });
  }

  it('SUP-07 the startup check sends the redirect URI that sign-ins use', async () => {
    const ofOne = openIdSettings(provider, { entitlements: ENTITLEMENTS });
    const two = { id: 'two', name: 'Two', issuer: provider.issuer, ...OPENID_CLIENT };
    const ofList = { ...ofOne, file: { ...SEVERAL, identityProviders: [two] } };
    for (const [options, path] of [
      [ofOne, '/interaction/callback'],
      [ofList, '/interaction/callback/two'],
    ] as const) {
      provider.setBehaviour({});
      const before = provider.exchanges.length;
      const system = await startSystem(options);
      try {
        await until('the token request', () => provider.exchanges.length > before);
        expect(provider.exchanges.at(-1)?.get('redirect_uri')).to.equal(system.auth + path);
      } finally {
        await system.stop();
      }
    }
  });

  const LASTING: Record<string, [Answer, advice: RegExp]> = {
    redirects: [
      { status: 308, headers: { location: 'https://elsewhere.example.com/token' } },
      /^check issuer of identityProvider: the token endpoint that it leads to, .+\/token, does not work$/,
    ],
    fails: [{ status: 503 }, /^check that the identity provider is up/],
  };
  for (const [what, [answer, advice]] of Object.entries(LASTING)) {
    it(`SUP-07 the startup check warns about a token endpoint that ${what}, with a remedy`, async () => {
      provider.setBehaviour(refusing(answer));
      const [warning] = await warningsWith(
        openIdSettings(provider, { entitlements: ENTITLEMENTS }),
        (log) => log.some(({ level }) => level === 40),
      );
      expect(warning).to.include({ what: provider.issuer, reason: `HTTP ${answer.status}` });
      expect(warning?.['remedy']).to.match(advice);
    });
  }

  it('SUP-07 the startup check warns about an unreachable provider only, and the server starts', async () => {
    const [unusedPort = 0] = await freePorts(1);
    provider.setBehaviour(refusing({ status: 400, body: { error: 'invalid_grant' } }));
    const listed = [
      { id: 'here', name: 'Here', issuer: provider.issuer, ...OPENID_CLIENT },
      { id: 'away', name: 'Away', issuer: `http://127.0.0.1:${unusedPort}`, ...OPENID_CLIENT },
    ];
    const before = provider.exchanges.length;
    const exchanged = provider.requests.filter((path) => path === '/token').length;
    const warnings = await warningsWith(
      {
        settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
        file: { ...SEVERAL, identityProviders: listed },
      },
      (log) =>
        log.some(({ level }) => level === 40) &&
        provider.requests.filter((path) => path === '/token').length > exchanged,
    );
    expect(provider.exchanges).to.have.length(before);
    expect(warnings.map(({ what }) => what)).to.deep.equal([`http://127.0.0.1:${unusedPort}`]);
  });
});
