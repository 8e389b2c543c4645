import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { isConsentPage, isSignInPage, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect, obtainCode, redeem, registerClient } from '../support/connection.ts';
import { authorizeUrl, discover } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

const QUARTER_OF_AN_HOUR = 900;
const HOUR = 3600;

describe('Lifetimes during authorization', () => {
  const system = useSystem();

  it('an interaction without a decision expires, and its page says what to do', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const client = await registerClient(server);
    const browser = openBrowser(system().origins);
    const { url } = authorizeUrl(server, client, { resource: link });
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

  it('SES-04 a session ends after twelve hours, and the person signs in again', async () => {
    const connector = await createConnector(system());
    const { server, client, browser } = await connect(system(), connector);
    const [identityProvider] = system().origins.slice(-1);
    for (const [hours, isSent] of [
      [11, false],
      [13, true],
    ] as const) {
      advanceClock(hours * HOUR);
      const before = browser.visited.length;
      await browser.visit(authorizeUrl(server, client, { resource: connector.link }).url);
      const origins = browser.visited.slice(before).map(({ origin }) => origin);
      expect(origins.includes(identityProvider ?? ''), `${hours} h`).to.equal(isSent);
    }
  });

  it('COD-03 a code expires after one minute', async () => {
    const connector = await createConnector(system());
    const early = await obtainCode(system(), connector);
    const late = await obtainCode(system(), connector);
    advanceClock(55);
    expect((await redeem(early)).status).to.equal(200);
    advanceClock(10);
    expect((await redeem(late)).body.error).to.equal('invalid_grant');
  });

  it('PKC-03 COD-03 a code is bound to its verifier and redirect address, and a failed exchange does not consume it', async () => {
    const connector = await createConnector(system());
    const code = await obtainCode(system(), connector);
    const wrong = [
      { code_verifier: 'x'.repeat(43) },
      { code_verifier: undefined },
      { redirect_uri: 'http://127.0.0.1:7071/callback' },
      { code: 'x' },
    ];
    for (const parameters of wrong) {
      const { status, body } = await redeem(code, parameters);
      expect(status).to.equal(400);
      expect(body.error).to.be.oneOf(['invalid_grant', 'invalid_request']);
    }
    expect((await redeem(code)).status).to.equal(200);
  });
});
