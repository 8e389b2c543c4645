import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { createConnector } from '../support/management-api.ts';
import {
  isConsentPage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, redeem, registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

describe('One browser with several tabs', () => {
  const system = useSystem();

  async function prepare() {
    const connector = await createConnector(system());
    const { server } = await discover(connector.link);
    const client = await registerClient(server);
    const start = () => authorizeUrl(server, client, { resource: connector.link });
    return { connector, server, client, start, browser: openBrowser(system().origins) };
  }

  it('an approval that is submitted twice creates one grant, and both responses redirect to the client', async () => {
    const { connector, server, client, start, browser } = await prepare();
    const { url, verifier } = start();
    const page = await browser.openConsent(url, 'ada');
    const answers = await Promise.all(
      [1, 2].map(() => browser.submit(page, { decision: 'approve' })),
    );
    const third = await browser.submit(page, { decision: 'approve' });
    const callbacks = [...answers, third].map((step) => requireExternalRedirect(step).href);
    expect(new Set(callbacks).size).to.equal(1);
    const callback = new URL(String(callbacks[0]));
    const { status } = await redeem({ link: connector.link, server, client, callback, verifier });
    expect(status).to.equal(200);
  });

  it('a denial that is submitted twice redirects to the client twice, and cannot become an approval', async () => {
    const { start, browser } = await prepare();
    const page = await browser.openConsent(start().url, 'ada');
    const answers = [];
    for (const decision of ['deny', 'deny'])
      answers.push(requireExternalRedirect(await browser.submit(page, { decision })).href);
    expect(new Set(answers).size).to.equal(1);
    expect(answers[0]).to.include('error=access_denied');
    for (const seconds of [0, 60]) {
      advanceClock(seconds);
      const late = requirePage(await browser.submit(page, { decision: 'approve' }));
      expect(late.status).to.equal(400);
      expect(late.html).to.include('You’ve denied this');
    }
  });

  it('CON-12 a form that is resubmitted a minute later, or from another browser, is rejected as finished', async () => {
    const { start, browser } = await prepare();
    const page = await browser.openConsent(start().url, 'ada');
    requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
    const stranger = openBrowser(system().origins);
    expect(requirePage(await stranger.submit(page, { decision: 'approve' })).status).to.equal(400);
    advanceClock(60);
    const late = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(late.status).to.equal(400);
    expect(late.html).to.include('You’ve approved this');
  });

  it('SES-06 a person who signs in meanwhile is asked for consent, and gets nothing of the first person’s approval', async () => {
    const { connector, server, client, start, browser } = await prepare();
    const first = start();
    const adas = await browser.openConsent(first.url, 'ada');
    await browser.authorize(start().url, { person: 'grace', decision: 'switch' });
    const page = requirePage(await browser.submit(adas, { decision: 'approve' }));
    expect(page.status).to.be.below(500);
    expect(page.html).to.not.include('Ada Lovelace');
    if (isConsentPage(page)) {
      const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
      const { body } = await redeem({
        link: connector.link,
        server,
        client,
        callback,
        verifier: first.verifier,
      });
      const graces = await connect(system(), connector, { person: 'grace' });
      expect(decodeJwt(String(body.access_token)).sub).to.equal(decodeJwt(graces.accessToken).sub);
    }
  });
});
