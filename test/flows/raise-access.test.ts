// More access for a connected app, given on the account page.
import { expect } from 'chai';
import {
  claimOf,
  formTokenOf,
  grantIdOf,
  openAccountPage,
  openRaisePage,
  submitAccountForm,
  textOf,
} from '../support/account-page.ts';
import { isConsentPage, openBrowser, type Page, requirePage } from '../support/browser.ts';
import { advanceClock } from '../support/clock.ts';
import { connect } from '../support/connection.ts';
import { cookieHeader } from '../support/cookie-jar.ts';
import {
  changeAccount,
  type ConnectorOptions,
  createConnector,
  readAudit,
  requestManagement,
  revokeConnector,
  showGrant,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { onEachStore, type System, useSystem } from '../support/system.ts';
import {
  connectWithRefreshToken,
  present,
  rotate,
  times,
  type TokenFamily,
} from '../connections/token-family.ts';

const levelsOn = (page: Page) =>
  page.forms.flatMap(({ controls }) =>
    controls.filter(({ name }) => name === 'level').map(({ value }) => value),
  );
const offersRaise = ({ forms }: Page, grant: string) =>
  forms.some(({ controls }) =>
    [grant, 'raise'].every((wanted) => controls.some(({ value }) => value === wanted)),
  );
const approveAt = (level: string) => ({ decision: 'approve', level });

function raising(system: () => System) {
  /** A connection of Ada, who may have `full`, and her account page. */
  async function connected(given: ConnectorOptions = {}, level = 'analytics') {
    const connector = await createConnector(system(), { level: 'full', ...given });
    const family = await connectWithRefreshToken(system(), { level }, connector);
    const browser = openBrowser(system().origins);
    const page = await openAccountPage(system(), browser);
    return { connector, family, browser, page, grant: grantIdOf(family) };
  }
  async function opened(given?: ConnectorOptions, level?: string) {
    const found = await connected(given, level);
    const consent = await openRaisePage(found.browser, found.page, found.grant);
    expect(isConsentPage(consent), textOf(consent)).to.equal(true);
    return { ...found, consent };
  }
  const levelOf = async (grant: string) => (await showGrant(system(), grant)).level;
  const eventsOf = async (grant: string) =>
    (await readAudit(system()))
      .filter(({ grantId }) => grantId === grant)
      .map(({ event, arguments: details }) => [event, (details as { level?: string })?.level]);
  return { connected, opened, levelOf, eventsOf };
}

const scopeOf = async (family: TokenFamily, token = family.refreshToken, scope?: string) => {
  const { body } = await present(family, token, scope === undefined ? {} : { scope });
  return body;
};

onEachStore('More access for a connected app', (system) => {
  const { opened, levelOf, eventsOf } = raising(system);

  it('CON-28 the next refresh gets the level that the person approved on the consent page, and the tokens before keep theirs', async () => {
    const { family, browser, consent, grant } = await opened();
    expect(levelsOn(consent)).to.deep.equal(['operations', 'admin', 'full']);
    expect(textOf(consent)).to.include('Test client').and.include('Access now');
    const done = requirePage(await browser.submit(consent, approveAt('admin')));
    expect([done.status, done.url.pathname]).to.deep.equal([200, '/account']);
    expect(textOf(done)).to.include('can access “Names and contact details” in');
    expect(await levelOf(grant)).to.equal('admin');
    const narrower = await scopeOf(family, family.refreshToken, 'analytics offline_access');
    expect(narrower.scope).to.equal('analytics offline_access');
    const next = await scopeOf(family, narrower.refresh_token);
    expect(next.scope).to.equal('admin offline_access');
    expect(await isAccepted(family.link, next.access_token ?? '')).to.equal(true);
    expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
    expect(await eventsOf(grant)).to.deep.equal([
      ['consent_approved', 'analytics'],
      ['level_raised', 'admin'],
    ]);
  });

  it('CON-29 of an approval and the end of a connection at the same time, the end remains', async () => {
    const outcomes = await times(4, async () => {
      const { family, browser, consent, page, grant } = await opened();
      await Promise.all([
        browser.submit(consent, approveAt('full')),
        submitAccountForm(browser, page, { decision: 'disconnect', grant }),
      ]);
      const { error } = (await present(family, family.refreshToken)).body;
      return [(await showGrant(system(), grant)).state, error];
    });
    for (const outcome of outcomes) expect(outcome).to.deep.equal(['ended', 'invalid_grant']);
  });

  it('CON-29 of an approval and a lower level at the same time, the level is one of the two that the person chose', async () => {
    const levels = await times(4, async () => {
      const { browser, consent, page, grant } = await opened({}, 'operations');
      await Promise.all([
        browser.submit(consent, approveAt('full')),
        submitAccountForm(browser, page, { decision: 'lower', grant, level: 'analytics' }),
      ]);
      return levelOf(grant);
    });
    for (const level of levels) expect(level).to.be.oneOf(['analytics', 'full']);
  });
});

describe('The page that gives a connected app more access', () => {
  const system = useSystem();
  const { connected, opened, levelOf, eventsOf } = raising(system);

  it('an approval that is sent twice raises the connection once, and both responses show it', async () => {
    const { browser, consent, grant } = await opened();
    for (const answer of await times(3, () => browser.submit(consent, approveAt('operations'))))
      expect(requirePage(answer).url.pathname).to.equal('/account');
    const late = requirePage(await browser.submit(consent, approveAt('full')));
    expect(late.url.pathname).to.equal('/account');
    expect(await eventsOf(grant)).to.have.length(2);
    expect(await levelOf(grant)).to.equal('operations');
  });

  it('leaving the page without an approval changes nothing', async () => {
    const { family, browser, consent, grant } = await opened();
    const left = requirePage(await browser.submit(consent, { decision: 'deny' }));
    expect(left.url.pathname).to.equal('/account');
    expect(await showGrant(system(), grant)).to.include({ state: 'active', level: 'analytics' });
    expect((await scopeOf(family)).scope).to.equal('analytics offline_access');
    expect(await eventsOf(grant)).to.deep.equal([['consent_approved', 'analytics']]);
  });

  it('a level that was raised can be lowered again, at once', async () => {
    const { family, browser, consent, grant } = await opened();
    const done = requirePage(await browser.submit(consent, approveAt('full')));
    const next = await rotate(family, family.refreshToken);
    await submitAccountForm(browser, done, { decision: 'lower', grant, level: 'analytics' });
    expect((await scopeOf(family, next.refreshToken)).scope).to.equal('analytics offline_access');
    expect((await eventsOf(grant)).map(([event]) => event)).to.deep.equal([
      'consent_approved',
      'level_raised',
      'level_lowered',
    ]);
  });

  it('CON-28 the levels are those of the connect link and of the person, and no others are approved', async () => {
    const { browser, consent, grant } = await opened({ level: 'operations' });
    expect(levelsOn(consent)).to.deep.equal(['operations']);
    const forged = new URLSearchParams({ token: formTokenOf(consent), ...approveAt('full') });
    const answer = requirePage(await browser.post(consent, consent.url, forged));
    expect(answer.status).to.equal(400);
    expect(await levelOf(grant)).to.equal('analytics');
    // Grace may have `operations`, through a link for `full`.
    const grace = await connectWithRefreshToken(
      system(),
      { person: 'grace', level: 'analytics' },
      await createConnector(system(), { level: 'full' }),
    );
    const own = openBrowser(system().origins);
    const page = await openRaisePage(
      own,
      await openAccountPage(system(), own, 'grace'),
      grantIdOf(grace),
    );
    expect(levelsOn(page)).to.deep.equal(['operations']);
  });

  it('CON-28 a level that is lowered for the person or the link after the page was shown is not approved', async () => {
    const { connector, browser, consent, grant } = await opened();
    const path = `/connectors/${connector.id}`;
    await requestManagement(system(), 'PATCH', path, { level: 'operations' });
    const again = requirePage(await browser.submit(consent, approveAt('full')));
    expect([again.status, levelsOn(again)]).to.deep.equal([409, ['operations']]);
    expect(await levelOf(grant)).to.equal('analytics');
  });

  it('the account page offers nothing where there is nothing to give', async () => {
    const highest = await connected({ level: 'operations' }, 'operations');
    expect(offersRaise(highest.page, highest.grant)).to.equal(false);
    const lower = await connected({}, 'operations');
    expect(offersRaise(lower.page, lower.grant)).to.equal(true);
    const answer = await openRaisePage(highest.browser, highest.page, highest.grant);
    expect(answer.status).to.equal(404);
    const connector = await createConnector(system(), { level: 'full' });
    const once = await connect(system(), connector, { level: 'analytics', stay: false });
    const browser = openBrowser(system().origins);
    const page = await openAccountPage(system(), browser);
    const refused = await openRaisePage(browser, page, grantIdOf(once));
    expect(refused.status, 'a connection without a refresh token').to.equal(404);
  });

  it('CON-28 another person cannot raise the connection, nor open the page of its person', async () => {
    const { family, consent, grant } = await opened();
    const mallory = openBrowser(system().origins);
    const page = await openAccountPage(system(), mallory, 'grace');
    expect((await openRaisePage(mallory, page, grant)).status).to.equal(404);
    const opening = requirePage(await mallory.visit(consent.url));
    expect(opening.status).to.equal(400);
    expect(isConsentPage(opening)).to.equal(false);
    const answer = requirePage(await mallory.submit(consent, approveAt('full')));
    expect(answer.status).to.equal(400);
    expect((await scopeOf(family)).scope).to.equal('analytics offline_access');
  });

  it('CON-28 the form of one connection raises no other, and the page does not change the account', async () => {
    const { browser, page, consent, grant } = await opened();
    const other = await connectWithRefreshToken(
      system(),
      { level: 'analytics' },
      await createConnector(system(), { level: 'full' }),
    );
    const otherPage = await openRaisePage(browser, page, grantIdOf(other));
    const mixed = new URLSearchParams({ token: formTokenOf(otherPage), ...approveAt('full') });
    expect(requirePage(await browser.post(consent, consent.url, mixed)).status).to.equal(403);
    const switched = new URLSearchParams({ token: formTokenOf(consent), decision: 'switch' });
    const left = requirePage(await browser.post(consent, consent.url, switched));
    expect(left.url.pathname).to.equal('/account');
    expect([await levelOf(grant), await levelOf(grantIdOf(other))]).to.deep.equal([
      'analytics',
      'analytics',
    ]);
  });

  it('CON-28 forms of other sites neither open the page nor approve', async () => {
    const { browser, page, consent, grant } = await opened();
    const token = formTokenOf(page);
    const attempts: [URL, Record<string, string>][] = [
      [page.url, { token, decision: 'raise', grant }],
      [consent.url, { token: formTokenOf(consent), ...approveAt('full') }],
    ];
    for (const [url, body] of attempts) {
      const response = await fetch(url, {
        method: 'POST',
        redirect: 'manual',
        headers: {
          cookie: cookieHeader(browser.jar, url) ?? '',
          origin: 'https://evil.example',
          'sec-fetch-site': 'cross-site',
        },
        body: new URLSearchParams(body),
      });
      expect(response.status).to.equal(403);
    }
    const without = new URLSearchParams({ ...approveAt('full'), token: '' });
    expect(requirePage(await browser.post(consent, consent.url, without)).status).to.equal(403);
    expect(await levelOf(grant)).to.equal('analytics');
  });

  it('CON-29 a connection that ended, or whose link was paused or revoked, while the page was shown is not raised', async () => {
    const ended = await opened();
    await submitAccountForm(ended.browser, ended.page, {
      decision: 'disconnect',
      grant: ended.grant,
    });
    const answer = requirePage(await ended.browser.submit(ended.consent, approveAt('full')));
    expect(answer.url.pathname).to.equal('/account');
    expect(await showGrant(system(), ended.grant)).to.include({
      state: 'ended',
      level: 'analytics',
    });
    const paused = await opened();
    const path = `/connectors/${paused.connector.id}`;
    await requestManagement(system(), 'PATCH', path, { paused: true });
    const refused = requirePage(await paused.browser.submit(paused.consent, approveAt('full')));
    expect(refused.status).to.equal(400);
    const offered = await openAccountPage(system(), paused.browser);
    expect(offersRaise(offered, paused.grant)).to.equal(false);
    expect((await openRaisePage(paused.browser, offered, paused.grant)).status).to.equal(404);
    expect(await levelOf(paused.grant)).to.equal('analytics');
    const revoked = await opened();
    await revokeConnector(system(), revoked.connector.id);
    const gone = requirePage(await revoked.browser.submit(revoked.consent, approveAt('full')));
    expect(isConsentPage(gone)).to.equal(false);
    expect(await levelOf(revoked.grant)).to.equal('analytics');
  });

  it('CON-29 a person who was disabled raises nothing', async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const family = await connectWithRefreshToken(
      system(),
      { person: 'grace', level: 'analytics' },
      connector,
    );
    const browser = openBrowser(system().origins);
    const page = await openAccountPage(system(), browser, 'grace');
    const consent = await openRaisePage(browser, page, grantIdOf(family));
    const account = claimOf(family, 'sub');
    await changeAccount(system(), account, 'disable');
    const answer = requirePage(await browser.submit(consent, approveAt('operations')));
    expect(isConsentPage(answer)).to.equal(false);
    expect(await eventsOf(grantIdOf(family))).to.not.deep.include(['level_raised', 'operations']);
    await changeAccount(system(), account, 'enable');
  });

  it('the page expires after a quarter of an hour', async () => {
    const { browser, consent, grant } = await opened();
    advanceClock(901);
    const answer = requirePage(await browser.submit(consent, approveAt('full')));
    expect(answer.status).to.equal(400);
    expect(await levelOf(grant)).to.equal('analytics');
  });
});
