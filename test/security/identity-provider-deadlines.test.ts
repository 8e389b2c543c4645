import { expect } from 'chai';
import { openBrowser, requirePage } from '../support/browser.ts';
import { registerClient } from '../support/connection.ts';
import { meetsDeadline } from '../support/deadlines.ts';
import { createConnector } from '../support/management-api.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import {
  openIdSettings,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

describe('The time until a page says that an identity provider does not answer', () => {
  const { timeout } = AbortSignal;
  let provider: OpenIdProvider;
  let system: System;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [{ match: { anyone: true }, level: 'full' }];
    system = await startSystem(openIdSettings(provider, { entitlements }));
  });
  afterEach(() => {
    AbortSignal.timeout = timeout;
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  const BEGINNINGS = { 'never sends': undefined, 'never finishes': '{' };
  for (const [what, beginning] of Object.entries(BEGINNINGS)) {
    it(`IDP-10 a provider that ${what} its discovery document gets a 503 page within nine seconds`, async () => {
      const { link } = await createConnector(system);
      const { server } = await discover(link);
      const { url } = authorizeUrl(server, await registerClient(server), { resource: link });
      provider.setBehaviour({
        responses: {
          '/.well-known/openid-configuration': (_req, res) => {
            if (beginning === undefined) return;
            res.setHeader('content-type', 'application/json');
            res.write(beginning);
          },
        },
      });
      AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 10);
      await meetsDeadline('providerOutage', async () => {
        const page = requirePage(await openBrowser([system.auth]).visit(url));
        expect(page.status).to.equal(503);
        expect(page.headers.get('retry-after')).to.match(/^\d+$/);
      });
    });
  }
});
