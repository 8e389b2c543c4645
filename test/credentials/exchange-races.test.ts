// Concurrent calls of one person in several processes, at an identity provider that ends all tokens of a person whose refresh token is used again.
import { expect } from 'chai';
import { openBrowser } from '../support/browser.ts';
import {
  type CompanyProvider,
  companySettings,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { connect } from '../support/connection.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import { settingsFor, textOf, WHOAMI } from '../support/credentials/system.ts';
import { createConnector } from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { useProcesses } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

const CALLS = 64;
const ROUNDS = SOAK ? 200 : 4;
const LIFETIME = 300;
const SCOPES = ['openid', 'profile', 'email', 'groups'];

describe('Calls of one person with an exchanged token in four processes on one Redis', () => {
  let service: ProtectedServer;
  let company: CompanyProvider;
  let ask: () => ReturnType<typeof call>;
  const processes = useProcesses(async () => {
    service = await startProtectedServer();
    let tokens = 0;
    const issue = (subject: string) => service.acceptKey(`at-${subject}-${(tokens += 1)}`);
    company = await startCompanyProvider({ exchanging: { issue, lifetime: LIFETIME } });
    const file = {
      ...settingsFor(service.url, { kind: 'exchange', audience: 'tools' }),
      entitlements: [{ match: { group: 'employees' }, level: 'analytics' }],
    };
    const settings = companySettings(company, { scopes: SCOPES }, file);
    return { ...settings, store: 'redis', count: 4, inThisProcess: true };
  });
  before(async function hire() {
    const { link } = await createConnector(processes(), { name: 'Tools' });
    const email = 'ada@example.com';
    company.people.set('ada', { name: 'Ada', email, email_verified: true, groups: ['employees'] });
    company.signInAs('ada');
    const browser = openBrowser([processes().auth, company.issuer]);
    const { accessToken } = await connect(processes(), { link }, { as: { browser } });
    ask = () => call(link, accessToken, WHOAMI);
    expect(textOf(await ask())).to.equal('ada');
  });
  after(async () => {
    await company?.stop();
    await service?.close();
  });

  /** None of the calls fails. */
  async function race(what: string): Promise<void> {
    company.exchanges.length = 0;
    const before = company.refreshes();
    const answers = await Promise.all(Array.from({ length: CALLS }, ask));
    expect(answers.map(textOf), what).to.deep.equal(answers.map(() => 'ada'));
    expect(company.exchanges.length, what).to.equal(1);
    // One refresh of the person's token, and the exchange.
    expect(company.refreshes() - before, what).to.equal(2);
  }

  it(`CRD-28 ${CALLS} calls after the server took the token back lead to one exchange, and none fails, in ${ROUNDS} rounds`, async () => {
    const started = performance.now();
    for (let round = 0; round < ROUNDS; round += 1) {
      service.expire();
      await race(`round ${round}`);
    }
    recordSoak({
      what: `${ROUNDS} rounds of ${CALLS} calls with an exchanged token that was taken back, in four processes on one Redis`,
      held: `${ROUNDS * CALLS} calls, ${ROUNDS} exchanges, ${Math.round((performance.now() - started) / 1000)} s`,
    });
  }).timeout(60_000 + ROUNDS * 5000);

  it(`CRD-28 ${CALLS} calls with an expired token lead to one exchange, and none fails`, async () => {
    await processes().setClocks({ advanceBy: LIFETIME + 1 });
    service.expire();
    await race('expired');
    await processes().setClocks('restore');
  });
});
