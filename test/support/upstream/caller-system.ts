// A system in front of an upstream, whose people sign in at two identity providers with the claims that a test gives them.
import { decodeJwt, type JWTPayload } from 'jose';
import {
  type Browser,
  openBrowser,
  type Page,
  requireExternalRedirect,
  requirePage,
} from '../browser.ts';
import { restoreClock } from '../clock.ts';
import { registerClient } from '../connection.ts';
import { type Connector, createConnector } from '../management-api.ts';
import { call, type CallOptions } from '../mcp.ts';
import { authorizeUrl, discover, exchange } from '../oauth.ts';
import {
  approveAs,
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../openid-provider.ts';
import { restartSystem } from '../restart.ts';
import { createDeployment, type Deployment, startDeployment, type System } from '../system.ts';
import { PING, type ScriptedUpstream, startScriptedUpstream } from './scripted-upstream.ts';

/** The ids of the providers in the settings. */
const PROVIDERS = ['staff', 'partners'] as const;
export type ProviderId = (typeof PROVIDERS)[number];

export const ALL_CLAIMS = ['name', 'email', 'groups', 'issuer', 'subject', 'provider'] as const;

/** Claims of the caller header that are not about the person. */
const ALWAYS_THERE = ['iss', 'aud', 'iat', 'exp', 'sub', 'client_id', 'connector', 'level'];

/** `claims` are those of the ID token. */
export type SignIn = {
  claims?: JWTPayload;
  sub?: string;
  provider?: ProviderId;
  /** Of the browser. */
  language?: string;
};

export type ConnectedCaller = {
  browser: Browser;
  page: Page;
  link: string;
  token: string;
  grantId: string;
};

type Running = {
  place: Deployment;
  system: System;
  upstream: ScriptedUpstream;
  providers: Record<ProviderId, OpenIdProvider>;
};

/** The `emailDomains` of providers. */
type Domains = Partial<Record<ProviderId, string[]>>;

/** One system for all tests of the surrounding `describe`; `more` adds to the settings of the upstream. */
export function useCallers(
  more: Record<string, unknown>,
  file: Record<string, unknown> = {},
  domains: Domains = {},
) {
  let running: Running | undefined;
  const setup = (): Running => {
    if (!running) throw new Error('the system runs only during tests');
    return running;
  };
  before(async () => {
    const [upstream, staff, partners] = await Promise.all([
      startScriptedUpstream(),
      startOpenIdProvider(),
      startOpenIdProvider(),
    ]);
    const providers = { staff, partners };
    const created = await createDeployment({
      file: {
        ...settingsFor(providers, domains),
        resourceServer: upstreamSettings(upstream, more),
        ...file,
      },
    });
    const { auth, resource } = created.facts;
    const place = { ...created, facts: { ...created.facts, origins: [auth, resource] } };
    const system = await startDeployment(place, { GATEHOUSE_DEVELOPMENT_IDP_URL: '' });
    upstream.trustIssuer(system.auth);
    running = { place, system, upstream, providers };
  });
  afterEach(restoreClock);
  after(async () => {
    if (!running) return;
    const { place, system, upstream, providers } = running;
    await system.stop();
    await place.release();
    await Promise.all([upstream.close(), providers.staff.stop(), providers.partners.stop()]);
  });

  /** Restarts the system with other settings of the upstream. */
  async function restartWith(changed: Record<string, unknown>): Promise<void> {
    const { place, system, upstream } = setup();
    await system.stop();
    const again = await restartSystem(
      place,
      { resourceServer: upstreamSettings(upstream, changed) },
      { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
    );
    setup().system = again;
  }

  /** Signs in, and shows the page that follows. */
  async function openPage(
    browser: Browser,
    url: URL,
    { claims = {}, sub = 'subject-1', provider = 'staff' }: SignIn,
  ): Promise<Page> {
    setup().providers[provider].setBehaviour({ claims });
    const choice = requirePage(await browser.visit(url));
    const departure = requireExternalRedirect(await browser.submit(choice, { provider }));
    return requirePage(await browser.visit(approveAs(sub, departure)));
  }

  /** Signs in, approves and redeems the code. */
  async function connectAs(signIn: SignIn = {}, connector?: Connector): Promise<ConnectedCaller> {
    const { system } = setup();
    const { link } =
      connector ?? (await createConnector(system, { name: 'The link', level: 'analytics' }));
    const { server } = await discover(link);
    const client = await registerClient(server);
    const browser = openBrowser([system.auth]);
    const { language } = signIn;
    const parameters = language === undefined ? {} : { ui_locales: language };
    const { url, verifier } = authorizeUrl(server, client, { resource: link, ...parameters });
    const page = await openPage(browser, url, signIn);
    const step = await browser.submit(page, { decision: 'approve', level: 'analytics' });
    const callback = requireExternalRedirect(step);
    const { body } = await exchange(server, client, { callback, verifier }, { resource: link });
    const token = String(body.access_token);
    return { browser, page, link, token, grantId: String(decodeJwt(token)['grant_id']) };
  }

  /** Calls, and returns the headers that the upstream got. */
  async function headersFor(
    { link, token }: Pick<ConnectedCaller, 'link' | 'token'>,
    options: CallOptions = {},
  ): Promise<Record<string, string | string[] | undefined>> {
    const { upstream } = setup();
    const before = upstream.received.length;
    const { status, text } = await call(link, token, PING, options);
    if (status !== 200 || upstream.received.length !== before + 1)
      throw new Error(`the call did not arrive: ${status} ${text}`);
    return { ...upstream.received.at(-1)?.headers };
  }

  /** Calls, and returns what the signed header says about the person. */
  async function claimsFor(caller: Pick<ConnectedCaller, 'link' | 'token'>): Promise<JWTPayload> {
    const claims = decodeJwt(String((await headersFor(caller))['gatehouse-caller']));
    return Object.fromEntries(
      Object.entries(claims).filter(([name]) => !ALWAYS_THERE.includes(name)),
    );
  }

  return { setup, connectAs, openPage, headersFor, claimsFor, restartWith };
}

function upstreamSettings({ url }: ScriptedUpstream, more: Record<string, unknown>) {
  return { upstream: { url, defaultLevel: 'analytics', ...more } };
}

/** The `identityProviders` of the settings. */
export function providerSettings(
  providers: Record<ProviderId, OpenIdProvider>,
  domains: Domains,
): object[] {
  return PROVIDERS.map((id) => ({
    id,
    name: `The ${id}`,
    issuer: providers[id].issuer,
    userInfo: false,
    emailDomains: domains[id] ?? [],
    ...OPENID_CLIENT,
  }));
}

function settingsFor(
  providers: Record<ProviderId, OpenIdProvider>,
  domains: Domains,
): Record<string, unknown> {
  return {
    developmentIdp: undefined,
    management: {},
    identityProviders: providerSettings(providers, domains),
    entitlements: PROVIDERS.map((provider) => ({
      match: { anyone: true, provider },
      level: 'analytics',
    })),
  };
}

/** The line of a consent page about what the server learns. Undefined if there is none. */
export function learnedLine({ html }: Page): string | undefined {
  const [, line] = /<p class="note" id="learned">([\s\S]*?)<\/p>/.exec(html) ?? [];
  return line?.replace(/<[^>]*>/g, '').trim();
}
