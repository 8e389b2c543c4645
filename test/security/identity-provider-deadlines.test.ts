import { expect } from 'chai';
import { openBrowser, requirePage } from '../support/browser.ts';
import { requestAuthorization } from '../support/connection.ts';
import { meetsDeadline, outcomeOf } from '../support/deadlines.ts';
import { createConnector } from '../support/management-api.ts';
import { openIdSettings, startOpenIdProvider } from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

/** What the provider sends of its discovery document, without ever finishing the response. */
const BEGINNINGS = { 'never sends': undefined, 'never finishes': '{' };

type Waiting = { system: System; url: URL };

describe('The time until a page says that an identity provider does not answer', () => {
  const { timeout } = AbortSignal;
  const closing: (() => Promise<void>)[] = [];
  const measured = new Map<string, Promise<void>>();

  async function startWaiting(beginning: string | undefined): Promise<Waiting> {
    const provider = await startOpenIdProvider();
    closing.push(() => provider.stop());
    const entitlements = [{ match: { anyone: true }, level: 'full' }];
    const system = await startSystem(openIdSettings(provider, { entitlements }));
    closing.push(system.stop);
    const { link } = await createConnector(system);
    const { url } = await requestAuthorization(system, { link });
    provider.setBehaviour({
      responses: {
        '/.well-known/openid-configuration': (_req, res) => {
          if (beginning === undefined) return;
          res.setHeader('content-type', 'application/json');
          res.write(beginning);
        },
      },
    });
    return { system, url };
  }

  async function visit({ system, url }: Waiting): Promise<void> {
    const page = requirePage(await openBrowser([system.auth]).visit(url));
    expect(page.status).to.equal(503);
    expect(page.headers.get('retry-after')).to.match(/^\d+$/);
  }

  // Both requests wait at the same time.
  before(async () => {
    const waiting: [string, Waiting][] = [];
    for (const [what, beginning] of Object.entries(BEGINNINGS))
      waiting.push([what, await startWaiting(beginning)]);
    AbortSignal.timeout = (ms) => timeout.call(AbortSignal, ms / 10);
    for (const [what, each] of waiting)
      measured.set(
        what,
        meetsDeadline('providerOutage', () => visit(each)),
      );
    await Promise.allSettled(measured.values());
    AbortSignal.timeout = timeout;
  });
  after(async () => {
    AbortSignal.timeout = timeout;
    for (const close of closing.toReversed()) await close();
  });

  for (const what of Object.keys(BEGINNINGS))
    it(`IDP-10 a provider that ${what} its discovery document gets a 503 page within nine seconds`, () =>
      outcomeOf(measured, what));
});
