// Every row of the table in config/operating.md, with a real OpenID provider and a clock that moves.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { type Browser, openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type CompanyProvider,
  companySettings,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { connect } from '../support/connection.ts';
import { changeAccount, createConnector, readAudit, showGrant } from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;
const ENTITLEMENTS = [{ match: { group: 'analysts' }, level: 'operations' }];
const SCOPES = ['openid', 'profile', 'email', 'groups'];

type Place = { system: System; link: string };
/** A person with a connected app. */
type Employee = Place & {
  subject: string;
  account: string;
  grant: string;
  browser: Browser;
  /** `works`, or the status of the call with the newest access token. */
  call: () => Promise<string>;
  /** `works`, or the error of the refresh. */
  refresh: () => Promise<string>;
  /** The text of the account page or of what is shown instead. `signedOut`: the provider was asked first. */
  openAccountPage: () => Promise<{ html: string; signedOut: boolean }>;
  /** The newest first. */
  audited: () => Promise<[event: string, reason: string | undefined][]>;
  why: () => Promise<[state: string, reason: string | undefined]>;
};

describe('What ends when a person leaves', () => {
  let company: CompanyProvider;
  let plain: Place;
  /** With `recheck: 24h` and `backchannelLogout: connections`. */
  let strict: Place;
  let people = 0;
  before(async () => {
    company = await startCompanyProvider();
    const start = async (provider: object): Promise<Place> => {
      const settings = { scopes: SCOPES, ...provider };
      const file = { entitlements: ENTITLEMENTS };
      const system = await startSystem(companySettings(company, settings, file));
      return { system, link: (await createConnector(system)).link };
    };
    plain = await start({});
    strict = await start({ recheck: '24h', backchannelLogout: 'connections' });
  });
  afterEach(() => {
    company.setFault(undefined);
    restoreClock();
  });
  after(async () => {
    for (const { system } of [plain, strict]) await system.stop();
    await company.stop();
  });

  async function hire({ system, link }: Place): Promise<Employee> {
    people += 1;
    const subject = `employee-${people}`;
    const email = `${subject}@example.com`;
    company.people.set(subject, {
      name: subject,
      email,
      email_verified: true,
      groups: ['analysts'],
    });
    company.signInAs(subject);
    const browser = openBrowser([system.auth, company.issuer]);
    const connection = await connect(system, { link }, { as: { browser } });
    const { server, client } = connection;
    let { accessToken, refreshToken } = connection;
    const { sub: account, grant_id: grant } = decodeJwt(accessToken);
    return {
      system,
      link,
      subject,
      browser,
      account: String(account),
      grant: String(grant),
      call: async () => ((await isAccepted(link, accessToken)) ? 'works' : 'refused'),
      async refresh() {
        const { body } = await refresh(server, client, refreshToken);
        accessToken = body.access_token ?? accessToken;
        refreshToken = body.refresh_token ?? refreshToken;
        return body.error ?? 'works';
      },
      async openAccountPage() {
        company.signInAs(subject);
        const before = browser.visited.length;
        const { html } = requirePage(await browser.visit(`${system.auth}/account`));
        const visited = browser.visited.slice(before);
        return { html, signedOut: visited.some(({ origin }) => origin === company.issuer) };
      },
      audited: async () =>
        (await readAudit(system))
          .filter((item) => item.account === String(account))
          .map(({ event, reason }) => [event, reason as string | undefined]),
      async why() {
        const { state, reason } = await showGrant(system, String(grant));
        return [state, reason];
      },
    };
  }

  const disable = ({ subject }: Employee) => {
    company.people.delete(subject);
    company.revoke(subject);
  };
  const signOut = ({ subject, system }: Employee) =>
    company.signOut(subject, `${system.auth}/backchannel-logout`);

  async function expectWorking(person: Employee) {
    expect([await person.refresh(), await person.call()]).to.deep.equal(['works', 'works']);
    expect(await person.why()).to.deep.equal(['active', undefined]);
  }

  /** The first two cells of each row, which name what happened and the setting, with what proves the others. */
  const ROWS: [what: string, setting: string, proof: () => Promise<void>][] = [
    [
      'removed from a group',
      'none',
      async () => {
        const person = await hire(plain);
        company.people.get(person.subject)?.groups.pop();
        advanceClock(25 * DAY);
        await expectWorking(person);
        expect((await person.openAccountPage()).html).to.include(
          'You no longer have access to this connector',
        );
        expect(await person.refresh()).to.equal('invalid_grant');
        expect(await person.call()).to.equal('refused');
        expect(await person.why()).to.deep.equal(['refused', 'not_entitled']);
      },
    ],
    [
      'removed from a group',
      '`recheck: 24h`',
      async () => {
        const person = await hire(strict);
        company.people.get(person.subject)?.groups.pop();
        advanceClock(DAY - HOUR);
        await expectWorking(person);
        advanceClock(HOUR);
        expect(await person.refresh()).to.equal('invalid_grant');
        expect(await person.call()).to.equal('refused');
        expect((await person.openAccountPage()).html).to.include(
          'You no longer have access to this connector',
        );
        expect(await person.why()).to.deep.equal(['refused', 'not_entitled']);
      },
    ],
    [
      'account disabled',
      'none',
      async () => {
        const person = await hire(plain);
        disable(person);
        advanceClock(25 * DAY);
        await expectWorking(person);
        const { html, signedOut } = await person.openAccountPage();
        expect(signedOut).to.equal(true);
        expect(html).to.include('You’re not signed in');
      },
    ],
    [
      'account disabled',
      '`recheck: 24h`',
      async () => {
        const person = await hire(strict);
        disable(person);
        advanceClock(DAY - HOUR);
        await expectWorking(person);
        advanceClock(HOUR);
        expect(await person.refresh()).to.equal('invalid_grant');
        expect(await person.call()).to.equal('refused');
        expect((await person.openAccountPage()).html).to.include('You’re not signed in');
        expect(await person.why()).to.deep.equal(['ended', 'identity_provider_ended']);
        expect(await person.audited()).to.deep.include(['grant_ended', 'identity_provider_ended']);
      },
    ],
    [
      'account disabled',
      'back-channel logout',
      async () => {
        const person = await hire(plain);
        disable(person);
        await signOut(person);
        const { html, signedOut } = await person.openAccountPage();
        expect(signedOut).to.equal(true);
        expect(html).to.include('You’re not signed in');
        expect(await person.audited()).to.deep.include(['backchannel_logout', undefined]);
        await expectWorking(person);
      },
    ],
    [
      'account disabled',
      '`backchannelLogout: connections`',
      async () => {
        const person = await hire(strict);
        disable(person);
        await signOut(person);
        expect([await person.call(), await person.refresh()]).to.deep.equal([
          'refused',
          'invalid_grant',
        ]);
        expect((await person.openAccountPage()).html).to.include('You’re not signed in');
        expect(await person.why()).to.deep.equal(['ended', 'identity_provider_ended']);
        expect(await person.audited()).to.deep.include.members([
          ['backchannel_logout', undefined],
          ['grant_ended', 'identity_provider_ended'],
        ]);
      },
    ],
    [
      'session ended',
      'none',
      async () => {
        const person = await hire(plain);
        company.endSession(person.subject);
        advanceClock(12 * HOUR - 60);
        expect((await person.openAccountPage()).signedOut).to.equal(false);
        advanceClock(120);
        expect((await person.openAccountPage()).signedOut).to.equal(true);
        await expectWorking(person);
      },
    ],
    [
      'session ended',
      '`recheck: 24h`',
      async () => {
        const person = await hire(strict);
        company.endSession(person.subject);
        advanceClock(DAY);
        await expectWorking(person);
      },
    ],
    [
      'session ended',
      'back-channel logout',
      async () => {
        const person = await hire(plain);
        await signOut(person);
        advanceClock(2);
        expect((await person.openAccountPage()).signedOut).to.equal(true);
        expect(await person.audited()).to.deep.include(['backchannel_logout', undefined]);
        await expectWorking(person);
      },
    ],
    [
      'session ended',
      '`backchannelLogout: connections`',
      async () => {
        const person = await hire(strict);
        await signOut(person);
        expect([await person.call(), await person.refresh()]).to.deep.equal([
          'refused',
          'invalid_grant',
        ]);
        advanceClock(2);
        const { html, signedOut } = await person.openAccountPage();
        expect(signedOut).to.equal(true);
        expect(html).to.include('you were signed out of it everywhere');
        expect(await person.why()).to.deep.equal(['ended', 'identity_provider_ended']);
      },
    ],
    [
      'provider unreachable for a day',
      'none',
      async () => {
        const person = await hire(plain);
        company.setFault('down');
        advanceClock(DAY);
        await expectWorking(person);
        expect(await person.openAccountPage().catch(() => 'no page')).to.equal('no page');
      },
    ],
    [
      'provider unreachable for a day',
      '`recheck: 24h`',
      async () => {
        const person = await hire(strict);
        company.setFault('down');
        advanceClock(DAY);
        await expectWorking(person);
        expect(await person.openAccountPage().catch(() => 'no page')).to.equal('no page');
        advanceClock(DAY);
        expect(await person.refresh()).to.equal('temporarily_unavailable');
        const { state, refusals } = await showGrant(strict.system, person.grant);
        expect([state, refusals[0]?.reason]).to.deep.equal([
          'active',
          'identity_provider_unavailable',
        ]);
        company.setFault(undefined);
        await expectWorking(person);
      },
    ],
    [
      'nothing',
      '`account disable`',
      async () => {
        const person = await hire(plain);
        await changeAccount(plain.system, person.account, 'disable');
        expect([await person.call(), await person.refresh()]).to.deep.equal([
          'refused',
          'invalid_grant',
        ]);
        const { html, signedOut } = await person.openAccountPage();
        expect(signedOut).to.equal(true);
        expect(html).to.include('Your account is disabled');
        expect(await person.why()).to.deep.equal(['ended', 'account_disabled']);
        expect(await person.audited()).to.deep.include(['account_disabled', undefined]);
      },
    ],
  ];

  for (const [what, setting, proof] of ROWS)
    it(`CNX-13 the row “${what}” with “${setting}” says what happens`, proof);

  it('CNX-13 the table has the rows that these tests prove', () => {
    const document = readFileSync(join(import.meta.dirname, '../../config/operating.md'), 'utf8');
    const [, table = ''] = /\n### What ends when\n(.*?)\n### /s.exec(document) ?? [];
    const rows = table.split('\n').filter((line) => line.startsWith('| '));
    const cells = rows.slice(2).map((row) => row.split('|').map((cell) => cell.trim()));
    expect(cells.map(([, what, setting]) => [what, setting])).to.deep.equal(
      ROWS.map(([what, setting]) => [what, setting]),
    );
  });
});
