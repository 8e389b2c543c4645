import { expect } from 'chai';
import { createConnector, readAudit, showGrant } from '../support/management-api.ts';
import {
  isConsentPage,
  isSignInPage,
  type Browser,
  openBrowser,
  type Person,
  requirePage,
} from '../support/browser.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import { advanceClock } from '../support/clock.ts';
import { requestAuthorization } from '../support/connection.ts';
import { isAccepted } from '../support/mcp.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';
import {
  expectAlive,
  present,
  connectWithRefreshToken,
  rotate,
} from '../connections/token-family.ts';
import {
  claimOf,
  grantIdOf,
  openAccountPage,
  submitAccountForm,
  textOf,
} from '../support/account-page.ts';

describe('The connected apps page', () => {
  const system = useSystem();
  const at = (path = '/account') => new URL(path, system().auth);

  const open = (browser: Browser, person?: Person) => openAccountPage(system(), browser, person);

  it("CON-14 the page asks for a sign-in, and lists the person's connections with link and level", async () => {
    const connector = await createConnector(system(), { name: 'Yoga numbers', level: 'full' });
    const family = await connectWithRefreshToken(system(), { level: 'admin' }, connector);
    const other = await connectWithRefreshToken(system(), { person: 'grace' });
    const browser = openBrowser(system().origins);
    expect(isSignInPage(requirePage(await browser.visit(at())))).to.equal(true);
    const page = await open(browser);
    expect([page.status, page.url.pathname]).to.deep.equal([200, '/account']);
    for (const text of [
      'Ada Lovelace',
      'Yoga numbers',
      'Test client',
      'Name chosen by the app, not verified',
      '127.0.0.1:7070',
    ])
      expect(textOf(page)).to.include(text);
    expect(textOf(page)).to.include('Names and contact details').and.include('today');
    expect(page.html).to.include(grantIdOf(family)).and.not.include(grantIdOf(other));
    expect(page.headers.get('cache-control')).to.equal('no-store');
  });

  it('CON-14 disconnecting an app takes effect at once, affects only that app, and is confirmed', async () => {
    const [family, bystander] = [
      await connectWithRefreshToken(system()),
      await connectWithRefreshToken(system()),
    ];
    expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
    const browser = openBrowser(system().origins);
    const choice = { decision: 'disconnect', grant: grantIdOf(family) };
    const page = await open(browser);
    const answer = await submitAccountForm(browser, page, choice);
    expect(textOf(answer))
      .to.match(/was disconnected from/)
      .and.include('You disconnected');
    expect(answer.html).to.not.include(grantIdOf(family));
    await until(
      'the token to be refused',
      async () => !(await isAccepted(family.link, family.accessToken)),
    );
    expect((await present(family, family.refreshToken)).body.error).to.equal('invalid_grant');
    await expectAlive(bystander, bystander);
    expect((await submitAccountForm(browser, page, choice)).status).to.equal(200);
    const events = (await readAudit(system())).filter(
      ({ grantId }) => grantId === grantIdOf(family),
    );
    expect(events.map(({ event, reason }) => [event, reason])).to.deep.equal([
      ['consent_approved', undefined],
      ['grant_ended', 'disconnected'],
    ]);
  });

  it('lowering a level takes effect at once: the app refreshes with the lower level', async () => {
    const family = await connectWithRefreshToken(system());
    const browser = openBrowser(system().origins);
    const lower = { decision: 'lower', grant: grantIdOf(family), level: 'analytics' };
    const page = await open(browser);
    const answer = await submitAccountForm(browser, page, lower);
    expect(textOf(answer)).to.include('can now access only “Totals only”');
    await until(
      'the token to be refused',
      async () => !(await isAccepted(family.link, family.accessToken)),
    );
    const next = await rotate(family, family.refreshToken);
    expect(claimOf(next, 'scope')).to.equal('analytics');
    expect(await isAccepted(family.link, next.accessToken)).to.equal(true);
    await submitAccountForm(browser, answer, { ...lower, level: 'full' });
    expect(claimOf(await rotate(family, next.refreshToken), 'scope')).to.equal('analytics');
    expect((await submitAccountForm(browser, answer, { ...lower, level: 'boss' })).status).to.equal(
      400,
    );
  });

  it('the page marks what was connected since the last visit, for as long as the visit lasts', async () => {
    const person = 'grace';
    const browser = openBrowser(system().origins);
    await connectWithRefreshToken(system(), { person });
    const marks = async () =>
      (textOf(await open(browser, person)).match(/New since your last visit/g) ?? []).length;
    expect(await marks(), 'the first visit').to.equal(0);
    advanceClock(1801);
    expect(await marks(), 'nothing new').to.equal(0);
    advanceClock(1900);
    await connectWithRefreshToken(system(), { person });
    expect([await marks(), await marks()]).to.deep.equal([1, 1]);
    advanceClock(3800);
    expect(await marks(), 'the next visit').to.equal(0);
  });

  it('CON-14 disconnecting all apps affects only that person’s apps', async () => {
    const own = [await connectWithRefreshToken(system()), await connectWithRefreshToken(system())];
    const other = await connectWithRefreshToken(system(), { person: 'grace' });
    const browser = openBrowser(system().origins);
    const answer = await submitAccountForm(browser, await open(browser), {
      decision: 'disconnect-all',
    });
    expect(textOf(answer))
      .to.include('All apps disconnected')
      .and.include('You have no connected apps');
    for (const family of own)
      expect((await present(family, family.refreshToken)).body.error).to.equal('invalid_grant');
    await expectAlive(other, other);
  });

  it('the activity list shows why each connection ended', async () => {
    const family = await connectWithRefreshToken(system());
    const { refreshToken } = await rotate(family, family.refreshToken);
    await rotate(family, refreshToken);
    advanceClock(120);
    await present(family, family.refreshToken);
    const page = await open(openBrowser(system().origins));
    expect(textOf(page)).to.include('an old key of this app was used again');
  });

  it('the account page and consent share a session, whose id is rotated at each sign-in', async () => {
    const connector = await createConnector(system());
    const { url } = await requestAuthorization(system(), connector);
    const first = openBrowser(system().origins);
    await open(first);
    expect(isConsentPage(requirePage(await first.visit(url)))).to.equal(true);
    const second = openBrowser(system().origins);
    await second.openConsent(url);
    expect(textOf(requirePage(await second.visit(at())))).to.include('Connected apps');
    const sessionIn = ({ jar }: Browser) =>
      /gatehouse-session=([^;]+)/.exec(cookieHeader(jar, at()) ?? '')?.[1];
    const before = sessionIn(second);
    advanceClock(13 * 3600);
    await open(second);
    expect(sessionIn(second)).to.be.a('string').and.not.equal(before);
  });

  it('after a sign-out the page asks for a sign-in, and an earlier form has no effect', async () => {
    const family = await connectWithRefreshToken(system());
    const browser = openBrowser(system().origins);
    const page = await open(browser);
    const stolen = openBrowser(system().origins);
    stolen.jar.push(...structuredClone(browser.jar));
    const answer = await submitAccountForm(browser, page, { decision: 'sign-out' });
    expect([answer.status, answer.url.pathname]).to.deep.equal([200, '/account/signed-out']);
    for (const one of [stolen, browser]) {
      const before = one.visited.length;
      // The identity provider still remembers the person; our session is a new one.
      await submitAccountForm(one, page, { decision: 'disconnect', grant: grantIdOf(family) });
      const since = one.visited.slice(before).map(({ pathname }) => pathname);
      expect(since).to.include('/account/callback');
      expect(await showGrant(system(), grantIdOf(family))).to.include({ state: 'active' });
      const late = await submitAccountForm(one, page, {
        decision: 'disconnect',
        grant: grantIdOf(family),
      });
      expect(late.status).to.equal(403);
    }
    expect(isSignInPage(requirePage(await browser.visit(at('/account/sign-in'))))).to.equal(true);
  });
});
