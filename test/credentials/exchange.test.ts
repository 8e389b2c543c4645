import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { openBrowser, requireExternalRedirect, requirePage } from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type CompanyProvider,
  companySettings,
  EXCHANGE_CLIENT,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { connect, type Connection, openConsent } from '../support/connection.ts';
import {
  startProtectedServer,
  type ProtectedServer,
} from '../support/credentials/protected-server.ts';
import { openAddress, settingsFor, textOf, WHOAMI } from '../support/credentials/system.ts';
import {
  changeAccount,
  createConnector,
  readAudit,
  requestManagement,
} from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { OPENID_CLIENT } from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

const LIFETIME = 300;
const SCOPES = ['openid', 'profile', 'email', 'groups'];

let people = 0;
let tokens = 0;

type Use = {
  company: () => CompanyProvider;
  service: () => ProtectedServer;
  system: () => System;
  link: () => string;
  hire(): Promise<Hired>;
};

type Hired = Connection & { subject: string; call(): ReturnType<typeof call> };

/** A company whose provider exchanges tokens, and a Gatehouse in front of a server that takes them. */
function useExchange(credential: object, provider: object = {}): Use {
  let company: CompanyProvider | undefined;
  let service: ProtectedServer | undefined;
  let system: System | undefined;
  let link = '';
  before(async () => {
    const upstream = await startProtectedServer();
    service = upstream;
    const issue = (subject: string) => upstream.acceptKey(`at-${subject}-${(tokens += 1)}`);
    company = await startCompanyProvider({ exchanging: { issue, lifetime: LIFETIME } });
    const file = settingsFor(upstream.url, { kind: 'exchange', ...credential });
    const entitlements = [{ match: { group: 'employees' }, level: 'analytics' }];
    const settings = { scopes: SCOPES, ...provider };
    system = await startSystem(companySettings(company, settings, { ...file, entitlements }));
    ({ link } = await createConnector(system));
  });
  afterEach(() => restoreClock());
  after(async () => {
    await system?.stop();
    await company?.stop();
    await service?.close();
  });
  const running = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('the system runs only during tests');
    return value;
  };
  const use: Use = {
    company: () => running(company),
    service: () => running(service),
    system: () => running(system),
    link: () => link,
    async hire() {
      people += 1;
      const subject = `employee${people}`;
      const email = `${subject}@example.com`;
      const person = { name: subject, email, email_verified: true, groups: ['employees'] };
      use.company().people.set(subject, person);
      use.company().signInAs(subject);
      const browser = openBrowser([use.system().auth, use.company().issuer]);
      const connection = await connect(use.system(), { link }, { as: { browser } });
      return { ...connection, subject, call: () => call(link, connection.accessToken, WHOAMI) };
    },
  };
  return use;
}

const accountOf = ({ accessToken }: Connection) => String(decodeJwt(accessToken).sub);

const isSignInAsked = (text: string | undefined) =>
  expect(text).to.contain('sign in again').and.contain('/credentials/tools?for=');

describe("A token that the sign-in provider exchanges for the person's own", () => {
  const { company, service, system, link, hire } = useExchange({
    audience: 'tools',
    scope: 'read',
  });

  it('the first call has it without any question, and later calls have the same one', async () => {
    const person = await hire();
    company().exchanges.length = 0;
    expect(textOf(await person.call())).to.equal(person.subject);
    expect(textOf(await person.call())).to.equal(person.subject);
    const [exchange, ...others] = company().exchanges;
    expect(others).to.deep.equal([]);
    expect(exchange).to.include({
      grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
      subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      audience: 'tools',
      scope: 'read',
      client: OPENID_CLIENT.clientId,
      subject: person.subject,
    });
  });

  it('each person has an own one', async () => {
    const [one, other] = [await hire(), await hire()];
    const texts = await Promise.all([one.call(), other.call(), one.call(), other.call()]);
    expect(texts.map(textOf)).to.deep.equal([
      one.subject,
      other.subject,
      one.subject,
      other.subject,
    ]);
  });

  it('when it expires, many calls at once lead to one exchange', async () => {
    const person = await hire();
    await person.call();
    company().exchanges.length = 0;
    advanceClock(LIFETIME);
    const answers = await Promise.all(Array.from({ length: 20 }, () => person.call()));
    expect(new Set(answers.map(textOf))).to.deep.equal(new Set([person.subject]));
    expect(company().exchanges.length).to.equal(1);
  });

  it('after the server refused it there is one new exchange, and the call is repeated with the new token', async () => {
    const person = await hire();
    await person.call();
    service().expire();
    company().exchanges.length = 0;
    expect(textOf(await person.call())).to.equal(person.subject);
    expect(company().exchanges.length).to.equal(1);
  });

  it('if the server refuses the new token too, people read that an administrator has to act', async () => {
    const person = await hire();
    await person.call();
    service().refusesAll = true;
    company().exchanges.length = 0;
    expect(textOf(await person.call())).to.contain('not set up right');
    service().refusesAll = false;
    expect(company().exchanges.length).to.equal(1);
  });

  it('while the provider does not answer, a valid token is used, and later people read that they should try again', async () => {
    const person = await hire();
    await person.call();
    company().setFault('down');
    expect(textOf(await person.call())).to.equal(person.subject);
    advanceClock(LIFETIME - 30);
    expect(textOf(await person.call())).to.equal(person.subject);
    advanceClock(60);
    expect(textOf(await person.call())).to.contain('Try again in a minute');
    company().setFault(undefined);
    expect(textOf(await person.call())).to.equal(person.subject);
  });

  it("a refusal of the person's token ends nothing else, and after a new sign-in the same call succeeds", async () => {
    const person = await hire();
    await person.call();
    company().revoke(person.subject);
    advanceClock(LIFETIME);
    const asked = await person.call();
    isSignInAsked(textOf(asked));
    const renewed = await refresh(person.server, person.client, person.refreshToken);
    expect(renewed.status).to.equal(200);
    company().signInAs(person.subject);
    const page = await openAddress(asked, person.browser);
    expect(page.html).to.contain('Sign in again');
    const back = requirePage(await person.browser.submit(page, { credential: 'now' }));
    expect(back.html).to.contain('is enough for it');
    expect(textOf(await call(link(), String(renewed.body.access_token), WHOAMI))).to.equal(
      person.subject,
    );
  });

  it('what Keycloak and Okta answer to a client that may not exchange is for the administrator', async () => {
    const person = await hire();
    for (const [status, error] of [
      [403, 'access_denied'],
      [400, 'invalid_request'],
      [400, 'invalid_target'],
      [401, 'invalid_client'],
    ] as const) {
      company().refusals.push({ status, body: { error } });
      expect(textOf(await person.call()), error).to.contain('not set up right');
    }
    const failed = JSON.stringify(
      (await readAudit(system())).filter(
        ({ event, account }) => event === 'credential_failed' && account === accountOf(person),
      ),
    );
    expect(failed).to.contain('access_denied').and.contain('invalid_target');
    expect(textOf(await person.call())).to.equal(person.subject);
  });

  it('it is listed, and deleted when the account is disabled', async () => {
    const person = await hire();
    await person.call();
    const list = () =>
      requestManagement(system(), 'GET', `/credentials?account=${accountOf(person)}`);
    expect(JSON.stringify(await list())).to.contain('"kind":"exchange"');
    await changeAccount(system(), accountOf(person), 'disable');
    await until(
      'the credential to be deleted',
      async () => !JSON.stringify(await list()).includes('exchange'),
    );
  });
});

describe('A token that Microsoft Entra ID exchanges on behalf of a person', () => {
  const { company, hire } = useExchange(
    { style: 'on-behalf-of', scope: 'api://tools/.default' },
    { scopes: [...SCOPES, `${OPENID_CLIENT.clientId}/access`] },
  );

  it('is asked for as Entra ID wants it', async () => {
    const person = await hire();
    company().exchanges.length = 0;
    expect(textOf(await person.call())).to.equal(person.subject);
    const [exchange] = company().exchanges;
    expect(exchange).to.include({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      requested_token_use: 'on_behalf_of',
      scope: 'api://tools/.default',
      subject: person.subject,
    });
    expect(exchange).to.not.have.property('subject_token');
  });

  it('what the provider wants of the person first is in the next sign-in, and the token is kept', async () => {
    const person = await hire();
    await person.call();
    advanceClock(LIFETIME - 30);
    const claims = '{"access_token":{"acrs":{"essential":true,"value":"c1"}}}';
    const refusal = {
      status: 400,
      body: { error: 'invalid_grant', suberror: 'basic_action', claims },
    };
    company().refusals.push(refusal);
    expect(textOf(await person.call())).to.equal(person.subject);
    advanceClock(60);
    company().refusals.push(refusal);
    const asked = await person.call();
    isSignInAsked(textOf(asked));
    company().signInAs(person.subject);
    const page = await openAddress(asked, person.browser);
    person.browser.visited.length = 0;
    await person.browser.submit(page, { credential: 'now' });
    const sent = person.browser.visited.find(({ searchParams }) => searchParams.has('claims'));
    expect(sent?.searchParams.get('claims')).to.equal(claims);
    expect(textOf(await person.call())).to.equal(person.subject);
  });
});

describe('A token that Okta exchanges for a client of its own', () => {
  const { company, hire } = useExchange({
    ...EXCHANGE_CLIENT,
    audience: 'api://tools',
    scope: 'tools:read',
    params: { requested_token_type: 'urn:ietf:params:oauth:token-type:access_token' },
  });

  it('is asked for by that client', async () => {
    const person = await hire();
    company().exchanges.length = 0;
    expect(textOf(await person.call())).to.equal(person.subject);
    expect(company().exchanges[0]).to.include({
      client: EXCHANGE_CLIENT.clientId,
      audience: 'api://tools',
      scope: 'tools:read',
      requested_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    });
  });
});

describe("An exchange where the provider's refusals end connections (recheck)", () => {
  const { company, system, hire } = useExchange({}, { recheck: '24h' });

  it("a refusal of the person's token ends the connections of the person", async () => {
    const person = await hire();
    expect(textOf(await person.call())).to.equal(person.subject);
    company().revoke(person.subject);
    advanceClock(LIFETIME);
    await person.call();
    await until('the connection to end', async () => (await person.call()).status === 401);
    const ended = (await readAudit(system())).filter(({ event }) => event === 'grant_ended');
    expect(JSON.stringify(ended)).to.contain('identity_provider_ended');
    const path = `/credentials?account=${accountOf(person)}`;
    await until('the credential to end', async () => {
      const page = await requestManagement(system(), 'GET', path);
      return !JSON.stringify(page).includes('exchange');
    });
  });
});

describe('An exchange for people of one of two identity providers', () => {
  let company: CompanyProvider;
  let partner: CompanyProvider;
  let service: ProtectedServer;
  let system: System;
  let link: string;
  before(async () => {
    service = await startProtectedServer();
    const issue = (subject: string) => service.acceptKey(`at-${subject}-${(tokens += 1)}`);
    company = await startCompanyProvider({ exchanging: { issue } });
    partner = await startCompanyProvider({ exchanging: { issue } });
    const file = {
      developmentIdp: undefined,
      identityProviders: [company, partner].map(({ issuer }, n) => ({
        id: ['company', 'partner'][n],
        name: ['Company', 'Partner'][n],
        issuer,
        ...OPENID_CLIENT,
        scopes: SCOPES,
      })),
      entitlements: [{ match: { provider: 'partner', group: 'employees' }, level: 'analytics' }],
      management: { administrators: [{ provider: 'company', group: 'administrators' }] },
      ...settingsFor(service.url, { kind: 'exchange', provider: 'company' }),
    };
    system = await startSystem({ settings: { GATEHOUSE_DEVELOPMENT_IDP_URL: '' }, file });
    ({ link } = await createConnector(system));
  });
  after(async () => {
    await system?.stop();
    await partner?.stop();
    await company?.stop();
    await service?.close();
  });

  it('CRD-13 who signed in at the other one is told so, and no token leaves for either', async () => {
    const person = {
      name: 'P',
      email: 'p@example.com',
      email_verified: true,
      groups: ['employees'],
    };
    partner.people.set('p', person);
    partner.signInAs('p');
    const browser = openBrowser([system.auth, company.issuer, partner.issuer]);
    const opened = await openConsent(system, { link }, { as: { browser } });
    const consent = requirePage(await browser.submit(opened.page, { provider: 'partner' }));
    const step = await browser.submit(consent, { decision: 'approve' });
    const { body } = await opened.redeem(requireExternalRedirect(step), { resource: link });
    // Gatehouse tries its client at the start.
    await until('the first request', () => company.refreshes() > 0);
    const refreshes = [company.refreshes(), partner.refreshes()];
    const answer = await call(link, String(body.access_token), WHOAMI);
    expect(textOf(answer)).to.contain('another identity provider');
    expect(textOf(answer)).to.not.contain('http');
    expect([...company.exchanges, ...partner.exchanges]).to.deep.equal([]);
    expect([company.refreshes(), partner.refreshes()]).to.deep.equal(refreshes);
    expect(service.calls.filter((each) => each.token !== undefined)).to.deep.equal([]);
  });
});
