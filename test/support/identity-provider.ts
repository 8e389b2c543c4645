// A system with one identity provider.
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
} from './browser.ts';
import { restoreClock } from './clock.ts';
import { registerClient } from './connection.ts';
import { authorizeUrl, type Client, discover, type Server } from './oauth.ts';
import { type OpenIdProvider, openIdSettings, startOpenIdProvider } from './openid-provider.ts';
import { startSystem, type System } from './system.ts';

export const PERSON = {
  name: 'Ada',
  email: 'ada@example.com',
  email_verified: true,
};

type Running = {
  provider: OpenIdProvider;
  system: System;
  connector: Connector;
  server: Server;
  client: Client;
};

/** One system for all tests of the surrounding `describe`; call the returned functions while a test runs. */
export function useIdentityProvider() {
  let running: Running | undefined;
  before(async () => {
    const provider = await startOpenIdProvider();
    const entitlements = [{ match: { emailDomain: 'example.com' }, level: 'full' }];
    const system = await startSystem(openIdSettings(provider, { entitlements }));
    const connector = await createConnector(system);
    const { server } = await discover(connector.link);
    running = { provider, system, connector, server, client: await registerClient(server) };
  });
  beforeEach(() => running?.provider.setBehaviour({ claims: PERSON }));
  afterEach(restoreClock);
  after(async () => {
    await running?.system.stop();
    await running?.provider.stop();
  });

  const setup = (): Running => {
    if (!running) throw new Error('the system runs only during tests');
    return running;
  };
  const newBrowser = () => openBrowser([setup().system.auth]);

  /** Goes to the identity provider; `callback` is the URL to which it sends the browser. */
  async function redirectToProvider(browser: Browser, more: Record<string, string> = {}) {
    const { provider, server, client, connector } = setup();
    const { url, verifier } = authorizeUrl(server, client, { resource: connector.link });
    const redirect = requireExternalRedirect(await browser.visit(url));
    const callback = provider.approve(redirect);
    for (const [name, value] of Object.entries(more)) callback.searchParams.set(name, value);
    const interactionUrl = browser.visited.at(-1)?.href ?? '';
    return { callback, redirect, verifier, interactionUrl };
  }

  async function expectRefused(browser: Browser, callback: URL, status = 400): Promise<Page> {
    const page = requirePage(await browser.visit(callback));
    expect(page.status, describePage(page)).to.equal(status);
    expect(isConsentPage(page)).to.equal(false);
    return page;
  }

  /** Whether the browser has a session, so that it would not be sent to the identity provider. */
  async function isSignedIn(browser: Browser): Promise<boolean> {
    const { server, client, connector } = setup();
    const { url } = authorizeUrl(server, client, { resource: connector.link });
    return (await browser.visit(url)).kind === 'page';
  }

  return { setup, newBrowser, redirectToProvider, expectRefused, isSignedIn };
}
