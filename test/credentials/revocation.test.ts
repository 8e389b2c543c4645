// What the service hears of a credential that has ended.
import { expect } from 'chai';
import { requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type Connected,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { until } from '../support/until.ts';

const DAY = 86_400;

describe('A service that does not take revocations', () => {
  const { system, service, connectAs } = usePersonalUpstream();
  // A lease that ends in the future would last until then.
  after(restoreClock);

  const attempts = () => service().revocations.length;

  async function disconnect({ browser }: Connected) {
    const page = requirePage(await browser.visit(`${system().auth}/account`));
    await browser.submit(page, { upstream: UPSTREAM, decision: 'end-credential' });
  }

  /** One pass over what waits. */
  async function nextAttempt() {
    const before = attempts();
    advanceClock(61);
    await until('another attempt', () => attempts() > before);
  }

  it('delays no end, and gets the revocation again until it takes it', async () => {
    const ada = await connectAs('ada');
    await ada.call();
    const token = service().calls.at(-1)?.token ?? '';
    service().revocationStatus = 503;
    await disconnect(ada);
    expect(textOf(await ada.call())).to.contain('/credentials/tools?for=');
    await until('the first attempt', () => attempts() > 0);
    await nextAttempt();
    service().revocationStatus = 200;
    advanceClock(61);
    await until('the service to revoke the tokens', () => service().revoked.includes(token));
  });

  it('is not asked any more after a day', async () => {
    service().revocationStatus = 503;
    const grace = await connectAs('grace');
    await grace.call();
    const before = attempts();
    await disconnect(grace);
    await until('the first attempt', () => attempts() > before);
    const token = service().revocations.at(-1)?.get('token');
    advanceClock(DAY);
    // What ends now shows that what waits is still tried.
    const ada = await connectAs('ada');
    await disconnect(ada);
    await nextAttempt();
    const after = attempts();
    await nextAttempt();
    await nextAttempt();
    const sent = service().revocations.map((form) => form.get('token'));
    expect(sent.slice(0, after)).to.include(token);
    expect(sent.slice(after)).to.not.include(token);
  });
});

describe('A service that ends both tokens with the first one', () => {
  const { system, service, connectAs } = usePersonalUpstream();

  it('is asked for each of them once, although it does not know them any more', async () => {
    const { browser, call } = await connectAs('ada');
    await call();
    const token = service().calls.at(-1)?.token ?? '';
    service().revocationError = 'invalid_token';
    const page = requirePage(await browser.visit(`${system().auth}/account`));
    await browser.submit(page, { upstream: UPSTREAM, decision: 'end-credential' });
    await until('both tokens to be revoked', () => service().revocations.length === 2);
    expect(service().revocations.at(-1)?.get('token')).to.equal(token);
  });
});

describe('A service that has no revocation', () => {
  const { system, service, connectAs } = usePersonalUpstream();

  it('is where the person has to remove the access too, as the account page says', async () => {
    service().metadata = { revocation_endpoint: undefined };
    const { browser } = await connectAs('ada');
    const page = requirePage(await browser.visit(`${system().auth}/account`));
    expect(page.html).to.contain('doesn’t end the access at Notes. Remove it there too');
  });

  it('is not named so where there is one', async () => {
    service().metadata = {};
    const { browser } = await connectAs('grace');
    const page = requirePage(await browser.visit(`${system().auth}/account`));
    expect(page.html).to.contain('Notes').and.to.not.contain('Remove it there too');
  });
});
