// Every recorded identity provider, with the settings that config/identity-providers.md recommends, at one running Gatehouse.
import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  type Browser,
  describePage,
  openBrowser,
  type Page,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { connect, type Connection, openConsent, registerClient } from '../support/connection.ts';
import { isProviderChoicePage } from '../support/identity-providers.ts';
import { type Connector, createConnector, showGrant } from '../support/management-api.ts';
import { NO_LIMITS } from '../support/no-limits.ts';
import { type Client, discover, refresh } from '../support/oauth.ts';
import { startSystem, type System } from '../support/system.ts';
import { idOf, recommendedFile, usePlayedProviders, VERIFIED_DOMAIN } from './played-providers.ts';
import { RECORDED_PROVIDERS } from './providers/index.ts';
import {
  type Person,
  type RecordedProvider,
  type Refusal,
  type Step,
  STEPS,
} from './providers/recorded-provider.ts';
import { DOCUMENT, recommendedSettings, withTable } from './table.ts';

const DAY = 86_400;
/** The group of the example in the document, if it has one. */
const groupOf = (recorded: RecordedProvider): string | undefined =>
  recommendedSettings(recorded).entitlements[0]?.match.group;

describe('The recorded identity providers', () => {
  const providerOf = usePlayedProviders();
  let system: System;
  let connector: Connector;
  let client: Client;
  let people = 0;

  before(async () => {
    system = await startSystem({
      settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
      file: { limits: NO_LIMITS, ...recommendedFile() },
    });
    connector = await createConnector(system, { level: 'operations' });
    client = await registerClient((await discover(connector.link)).server);
  });
  afterEach(restoreClock);
  after(() => system?.stop());

  /** A new person in the group of the document, with an address that no rule matches. */
  function hire(recorded: RecordedProvider, more: Partial<Person> = {}): Person {
    people += 1;
    const group = groupOf(recorded);
    return {
      subject: `person-${people}`,
      name: `Person ${people}`,
      email:
        group === undefined ? `person-${people}@example.com` : `person-${people}@other.example`,
      groups: group === undefined ? [] : [group],
      session: `session-${people}`,
      ...more,
    };
  }

  /** Opens the account page, and signs the person in if it asks for that. */
  async function signIn(
    recorded: RecordedProvider,
    person: Person | undefined,
    browser = openBrowser([system.auth, new URL(recorded.metadata.authorization_endpoint).origin]),
  ): Promise<{ browser: Browser; page: Page; wasSignedIn: boolean }> {
    providerOf(recorded).signInAs(person);
    const page = requirePage(await browser.visit(`${system.auth}/account`));
    if (!isProviderChoicePage(page)) return { browser, page, wasSignedIn: true };
    const step = await browser.submit(page, { provider: idOf(recorded) });
    return { browser, page: requirePage(step), wasSignedIn: false };
  }

  async function connectApp(browser: Browser): Promise<Connection> {
    return connect(system, connector, { level: 'operations', as: { browser, client } });
  }

  /** The highest level that the consent page offers, or undefined if the person may not connect. */
  async function levelOf(recorded: RecordedProvider, person: Person): Promise<string | undefined> {
    const { browser, page: account } = await signIn(recorded, person);
    expect(account.status, describePage(account)).to.equal(200);
    const { page } = await openConsent(system, connector, { as: { browser, client } });
    return page.forms
      .flatMap(({ controls }) => controls)
      .findLast(({ name, value }) => name === 'level' && value !== '')?.value;
  }

  const renew = async (connection: Connection) => {
    const { body } = await refresh(connection.server, client, connection.refreshToken);
    connection.refreshToken = body.refresh_token ?? connection.refreshToken;
    return body.error ?? body.scope;
  };
  const stateOf = async ({ accessToken }: Connection) => {
    const { state, reason } = await showGrant(system, String(decodeJwt(accessToken).grant_id));
    return { state, reason };
  };

  const EXPECTED: Record<Refusal['means'], object> = {
    ended: { state: 'ended', reason: 'identity_provider_ended' },
    'sign in again': { state: 'refused', reason: 'sign_in_again' },
    'not entitled': { state: 'refused', reason: 'not_entitled' },
  };

  const TESTS: Record<Step, [claim: string, test: (recorded: RecordedProvider) => Promise<void>]> =
    {
      'sign in': [
        'signs people in, and a sign-in that it refuses is explained',
        async (recorded) => {
          const person = hire(recorded);
          const { page } = await signIn(recorded, person);
          expect(page.status, describePage(page)).to.equal(200);
          expect(page.html).to.match(new RegExp(`${person.name}|${person.email}`));
          const refused = await signIn(recorded, undefined);
          expect(refused.page.status, describePage(refused.page)).to.equal(400);
        },
      ],
      groups: [
        'names the groups of a person',
        async (recorded) => {
          const { groups } = hire(recorded);
          for (const form of [{}, ...(recorded.otherForms ?? [])]) {
            providerOf(recorded).play(form);
            for (const more of [groups, [...groups, 'Another']])
              expect(
                await levelOf(recorded, hire(recorded, { groups: more })),
                more.join(),
              ).to.equal('operations');
            for (const more of [[], ['Another']])
              expect(await levelOf(recorded, hire(recorded, { groups: more }))).to.equal(undefined);
          }
        },
      ],
      email: [
        'vouches for the email address of a person',
        async (recorded) => {
          for (const form of [{}, ...(recorded.otherForms ?? [])]) {
            providerOf(recorded).play(form);
            const email = `person-${people}@${VERIFIED_DOMAIN}`;
            expect(await levelOf(recorded, hire(recorded, { email, groups: [] }))).to.equal(
              'analytics',
            );
          }
        },
      ],
      recheck: [
        'describes a person again, and refuses one who left',
        async (recorded) => {
          const provider = providerOf(recorded);
          for (const form of [{}, ...(recorded.otherForms ?? [])]) {
            provider.play(form);
            const person = hire(recorded);
            const { browser } = await signIn(recorded, person);
            const connection = await connectApp(browser);
            for (let day = 1; day <= 2; day += 1) {
              advanceClock(DAY);
              expect(await renew(connection), `day ${day}`).to.equal('operations offline_access');
            }
            provider.people.set(person.subject, {
              ...person,
              email: 'x@other.example',
              groups: [],
            });
            advanceClock(DAY);
            expect(await renew(connection)).to.equal('invalid_grant');
            expect(await stateOf(connection)).to.deep.equal(EXPECTED['not entitled']);
          }
          for (const refusal of recorded.refusals) {
            const person = hire(recorded);
            const { browser } = await signIn(recorded, person);
            const connection = await connectApp(browser);
            advanceClock(DAY);
            provider.refuse(refusal);
            expect(await renew(connection), refusal.why).to.equal('invalid_grant');
            expect(await stateOf(connection), refusal.why).to.deep.equal(EXPECTED[refusal.means]);
            provider.refuse(undefined);
            if (refusal.means !== 'sign in again') continue;
            await signIn(recorded, person, browser);
            expect(await renew(connection), refusal.why).to.equal('operations offline_access');
          }
        },
      ],
      logout: [
        'signs a person out with a logout token',
        async (recorded) => {
          const first = hire(recorded);
          const second = { ...first, session: 'another session' };
          const one = await signIn(recorded, first);
          advanceClock(2);
          const two = await signIn(recorded, second);
          const claims = recorded.logoutToken?.(first) ?? {};
          const response = await fetch(`${system.auth}/backchannel-logout/${idOf(recorded)}`, {
            method: 'POST',
            body: new URLSearchParams({
              logout_token: await providerOf(recorded).logoutToken(claims),
            }),
          });
          expect(response.status, await response.text()).to.equal(200);
          advanceClock(2);
          expect((await signIn(recorded, first, one.browser)).wasSignedIn).to.equal(false);
          const other = await signIn(recorded, second, two.browser);
          expect(other.wasSignedIn, 'another session').to.equal('sid' in claims);
        },
      ],
    };

  for (const recorded of RECORDED_PROVIDERS)
    for (const step of STEPS) {
      const [claim, test] = TESTS[step];
      if (recorded.steps[step] === 'tested') it(`${recorded.name} ${claim}`, () => test(recorded));
    }

  for (const recorded of RECORDED_PROVIDERS.filter(({ steps }) => steps.email !== 'tested'))
    it(`no rule by email address matches a person of ${recorded.name}`, async () => {
      const person = hire(recorded, { email: `person@${VERIFIED_DOMAIN}`, groups: [] });
      expect(await levelOf(recorded, person)).to.equal(undefined);
    });

  it('config/identity-providers.md has this table (npm run providers)', async () => {
    const document = await readFile(DOCUMENT, 'utf8');
    expect(document).to.equal(await withTable(document, RECORDED_PROVIDERS));
  });
});
