import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  type Browser,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import {
  type Behaviour,
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';
import { PERSON } from '../support/identity-provider.ts';

describe('A sign-in at a faulty identity provider', () => {
  const huge = 'x'.repeat(11 * 1024 * 1024);
  const at = (path: string, answer: NonNullable<Behaviour['responses']>[string]) => ({
    responses: { [path]: answer },
  });
  const DISCOVERY = '/.well-known/openid-configuration';
  const MISCONFIGURED: Record<string, (other: string) => Behaviour> = {
    'names another issuer': (other) =>
      at(DISCOVERY, (_req, res) => {
        const endpoints = { authorization_endpoint: `${other}/a`, token_endpoint: `${other}/t` };
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify({ issuer: other, jwks_uri: `${other}/jwks`, ...endpoints }));
      }),
    'has no discovery document': () => at(DISCOVERY, (_req, res) => res.writeHead(404).end()),
    'redirects its discovery document': (other) =>
      at(DISCOVERY, (_req, res) => res.writeHead(302, { location: other + DISCOVERY }).end()),
  };
  const UNAVAILABLE: Record<string, (other: string) => Behaviour> = {
    'has a discovery document of 11 MB': () =>
      at(DISCOVERY, (_req, res) => {
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify({ issuer: huge }));
      }),
  };
  let provider: OpenIdProvider;
  let system: System;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [{ match: { anyone: true }, level: 'full' }];
    system = await startSystem(openIdSettings(provider, { entitlements }));
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  async function visit(browser: Browser) {
    const { link } = await createConnector(system);
    const { server } = await discover(link);
    return browser.visit(
      authorizeUrl(server, await registerClient(server), { resource: link }).url,
    );
  }

  for (const [what, behaviour] of Object.entries(UNAVAILABLE)) {
    it(`IDP-10 a provider that ${what} gets a 503 page`, async () => {
      const other = await startOpenIdProvider();
      provider.setBehaviour(behaviour(other.issuer));
      const page = requirePage(await visit(openBrowser([system.auth])));
      expect(page.status).to.equal(503);
      expect(page.html).to.include('<h1>Sign-in is unavailable</h1>');
      expect(page.headers.get('retry-after')).to.match(/^\d+$/);
      expect(other.requests).to.deep.equal([]);
      await other.stop();
    });
  }

  for (const [what, behaviour] of Object.entries(MISCONFIGURED)) {
    it(`IDP-11 a provider that ${what} gets the page for a wrong setup and no request to another host`, async () => {
      const other = await startOpenIdProvider();
      provider.setBehaviour(behaviour(other.issuer));
      const page = requirePage(await visit(openBrowser([system.auth])));
      expect(page.status).to.equal(500);
      expect(page.html).to.include('Sign-in isn’t set up correctly');
      expect(other.requests).to.deep.equal([]);
      await other.stop();
    });
  }

  it('IDP-10 a provider with 11 MB of keys gets a 503 page, and sign-in works after it recovers', async () => {
    provider.setBehaviour({
      claims: PERSON,
      ...at('/jwks', (_req, res) => {
        res.setHeader('content-type', 'application/json');
        res.end(JSON.stringify({ keys: [], more: huge }));
      }),
    });
    const browser = openBrowser([system.auth]);
    const signIn = async () => {
      const departure = requireExternalRedirect(await visit(browser));
      return requirePage(await browser.visit(provider.approve(departure)));
    };
    expect((await signIn()).status).to.equal(503);
    provider.setBehaviour({ claims: PERSON });
    expect(isConsentPage(await signIn())).to.equal(true);
  });
});
