import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { isConsentPage, isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, requestAuthorization } from '../support/connection.ts';
import { authorizeUrl } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const QUARTER_OF_AN_HOUR = 900;
describe('Lifetimes during authorization', () => {
  const system = useSystem();

  it('an interaction without a decision expires, and its page says what to do', async () => {
    const { link } = await createConnector(system());
    const browser = openBrowser(system().origins);
    const { url } = await requestAuthorization(system(), { link });
    const page = await browser.openConsent(url);
    advanceClock(QUARTER_OF_AN_HOUR + 1);
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(answer.status).to.be.within(400, 499);
    expect(isConsentPage(answer)).to.equal(false);
    expect(answer.html).to.include('<h1>This page has expired</h1>');
    expect(answer.html).to.include('go back to the app and connect again');
  });

  it('a session is reused, except with prompt=login', async () => {
    const connector = await createConnector(system());
    const { server, client, browser } = await connect(system(), connector);
    const open = async (prompt?: string) => {
      const { url } = authorizeUrl(server, client, { resource: connector.link, prompt });
      return requirePage(await browser.visit(url));
    };
    for (const prompt of [undefined, 'consent', 'select_account', 'create', 'bogus'])
      expect(isConsentPage(await open(prompt)), String(prompt)).to.equal(true);
    expect(isSignInPage(await open('login'))).to.equal(true);
  });
});
