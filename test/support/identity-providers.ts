// A system with several identity providers, one of which is unreachable.
import { expect } from 'chai';
import { createConnector, type Connector } from './management-api.ts';
import {
  isConsentPage,
  type Browser,
  describePage,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
  type Step,
} from './browser.ts';
import { registerClient } from './connection.ts';
import { freePorts } from './free-ports.ts';
import { type Github, GITHUB_CLIENT, startGithub } from './github.ts';
import { authorizeUrl, type Client, discover, type Server } from './oauth.ts';
import { OPENID_CLIENT, type OpenIdProvider, startOpenIdProvider } from './openid-provider.ts';
import { startSystem, type System, type SystemOptions } from './system.ts';

export const PERSON = {
  sub: '583231',
  name: 'Ada',
  email: 'ada@example.com',
  email_verified: true,
};

type Running = {
  example: OpenIdProvider;
  partners: OpenIdProvider;
  github: Github;
  system: System;
  connector: Connector;
  server: Server;
  client: Client;
};

/** One system for all tests of the surrounding `describe`; call the returned functions while a test runs. */
export function useIdentityProviders() {
  let running: Running | undefined;
  before(async () => {
    const [example, partners] = await Promise.all([startOpenIdProvider(), startOpenIdProvider()]);
    const github = await startGithub();
    const [nobodyThere = 0] = await freePorts(1);
    const system = await startSystem(settings({ example, partners, github, nobodyThere }));
    const connector = await createConnector(system, { level: 'full' });
    const { server } = await discover(connector.link);
    const client = await registerClient(server);
    running = { example, partners, github, system, connector, server, client };
  });
  const setup = (): Running => {
    if (!running) throw new Error('the system runs only during tests');
    return running;
  };
  beforeEach(() => {
    const { example, partners, github } = setup();
    for (const provider of [example, partners]) provider.setBehaviour({ claims: PERSON });
    github.setBehaviour({});
  });
  after(async () => {
    if (!running) return;
    const { system, example, partners, github } = running;
    await system.stop();
    await Promise.all([example, partners, github].map((provider) => provider.stop()));
  });

  const newBrowser = () => openBrowser([setup().system.auth]);

  /** `more` are additional parameters of the authorization request. */
  async function startAuthorization(browser: Browser, more: Record<string, string> = {}) {
    const { server, client, connector } = setup();
    const parameters = { resource: connector.link, scope: 'full' };
    const { url, verifier } = authorizeUrl(server, client, parameters);
    for (const [name, value] of Object.entries(more)) url.searchParams.set(name, value);
    return { step: await browser.visit(url), verifier };
  }

  async function chooseProvider(browser: Browser, page: Page, id: string): Promise<Step> {
    expect(isProviderChoicePage(page), describePage(page)).to.equal(true);
    return browser.submit(page, { provider: id });
  }

  /** The callback to which the provider sends the browser. */
  function callbackFrom(id: string, departure: URL): URL {
    const { example, partners, github } = setup();
    if (id === 'github') return github.approve(departure);
    // The other provider issues an ID token for this sign-in, too.
    partners.approve(departure);
    return example.approve(departure);
  }

  async function signIn(browser: Browser, id: string) {
    const { step, verifier } = await startAuthorization(browser);
    const departure = requireExternalRedirect(await chooseProvider(browser, requirePage(step), id));
    return { page: requirePage(await browser.visit(callbackFrom(id, departure))), verifier };
  }

  async function expectRefused(browser: Browser, url: URL, status: number) {
    const page = requirePage(await browser.visit(url));
    expect(page.status, describePage(page)).to.equal(status);
    expect(isConsentPage(page)).to.equal(false);
    return page;
  }

  return {
    setup,
    newBrowser,
    startAuthorization,
    chooseProvider,
    callbackFrom,
    signIn,
    expectRefused,
  };
}

export function isProviderChoicePage(page: Page): boolean {
  return /name="provider"/.test(page.html);
}

type Providers = Pick<Running, 'example' | 'partners' | 'github'> & { nobodyThere: number };

function settings({ example, partners, github, nobodyThere }: Providers): SystemOptions {
  return {
    settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
    file: {
      developmentIdp: undefined,
      identityProviders: [
        {
          id: 'example',
          name: 'Example Corp',
          issuer: example.issuer,
          emailDomains: ['example.com'],
          ...OPENID_CLIENT,
        },
        {
          id: 'partners',
          name: 'Partners',
          issuer: partners.issuer,
          backchannelLogout: 'connections',
          ...OPENID_CLIENT,
        },
        {
          id: 'github',
          kind: 'github',
          name: 'GitHub',
          issuer: github.issuer,
          organizations: true,
          ...GITHUB_CLIENT,
        },
        {
          id: 'away',
          name: 'Away',
          issuer: `http://127.0.0.1:${nobodyThere}`,
          emailDomains: ['away.example'],
          ...OPENID_CLIENT,
        },
      ],
      management: {
        administrators: [
          { subject: PERSON.sub, provider: 'github' },
          { subject: 'administrator', provider: 'example' },
        ],
      },
      entitlements: [
        { match: { group: 'analysts', provider: 'partners' }, level: 'full' },
        { match: { emailDomain: 'example.com' }, level: 'operations' },
        { match: { anyone: true, provider: 'partners' }, level: 'operations' },
        { match: { anyone: true, provider: 'github' }, level: 'operations' },
      ],
    },
  };
}
