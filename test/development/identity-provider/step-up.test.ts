import { expect } from 'chai';
import { isSignInPage, requireExternalRedirect, requirePage } from '../../support/browser.ts';
import { advanceClock } from '../../support/clock.ts';
import { openConsent } from '../../support/connection.ts';
import { createConnector } from '../../support/management-api.ts';
import { useSystem } from '../../support/system.ts';

describe('A sign-in at the development identity provider for a level that needs it', () => {
  const people = [{ id: 'ada', name: 'Ada', email: 'ada@example.com' }];
  const stepUp = { levels: ['full'], maxAge: '5m', acrValues: ['phr', 'mfa'] };
  const developmentIdp = { url: 'http://localhost:4003', people, stepUp };
  const system = useSystem({ file: { developmentIdp } });

  it('the person is asked again, and choosing them is a sign-in of the requested class', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const { browser, page, decide, redeem } = await openConsent(system(), connector);
    expect(page.html).to.include('You’ll sign in again');
    const question = requirePage(await decide({ decision: 'approve', level: 'full' }));
    expect(isSignInPage(question)).to.equal(true);
    const callback = requireExternalRedirect(await browser.submit(question, { person: 'ada' }));
    expect((await redeem(callback)).body.scope).to.equal('full offline_access');
  });

  it('a sign-in of this class is repeated only after maxAge', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const first = await openConsent(system(), connector);
    const question = requirePage(await first.decide({ decision: 'approve', level: 'full' }));
    await first.browser.submit(question, { person: 'ada' });
    const as = { browser: first.browser };
    const second = await openConsent(system(), connector, { as });
    requireExternalRedirect(await second.decide({ decision: 'approve', level: 'full' }));
    advanceClock(301);
    const third = await openConsent(system(), connector, { as });
    const again = requirePage(await third.decide({ decision: 'approve', level: 'full' }));
    expect(isSignInPage(again)).to.equal(true);
  });
});
