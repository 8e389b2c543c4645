import { expect } from 'chai';
import {
  openBrowser,
  type Person,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { advanceClock, restoreClock } from '../support/clock.ts';
import {
  type CompanyProvider,
  companySettings,
  startCompanyProvider,
} from '../support/company-provider.ts';
import { openConsent } from '../support/connection.ts';
import {
  changeAccount,
  createConnector,
  readAllAudit,
  requestManagement,
  revokeConnector,
} from '../support/management-api.ts';
import {
  type Connected,
  connectPerson,
  later,
  openAddress,
  settingsFor,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
  WHOAMI,
} from '../support/credentials/system.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import { call } from '../support/mcp.ts';
import { refresh } from '../support/oauth.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';
import { findCredential } from '../../src/credentials/credentials.ts';
import { decodeJwt } from 'jose';

const accountOf = ({ token }: Connected) => String(decodeJwt(token).sub);

describe('The end of an own account at a server', () => {
  const { system, service, connectAs } = usePersonalUpstream();

  /** The access token of the last call that succeeded, and the refresh token before it. */
  const revoked = () => {
    const { token } = service().calls.findLast(({ status }) => status === 200) ?? {};
    return until('the service to revoke the tokens', () => service().revoked.includes(token ?? ''));
  };

  async function connected(person: Person) {
    const app = await connectAs(person);
    if (textOf(await app.call()) !== 'ada') {
      const page = await openAddress(await app.call(), app.browser);
      await app.browser.submit(page, { credential: 'now' });
    }
    expect(textOf(await app.call())).to.equal('ada');
    return app;
  }

  async function listed(app: Connected) {
    const path = `/credentials?account=${accountOf(app)}`;
    const page = await requestManagement(system(), 'GET', path);
    return (page as { items: { id: string }[] }).items;
  }

  async function causeOfLast(app: Connected) {
    const items = await readAllAudit(system());
    const ended = items.findLast(
      ({ event, account }) => event === 'credential_ended' && account === accountOf(app),
    );
    return (ended?.arguments as { cause: string } | undefined)?.cause;
  }

  it('the person disconnects it on the account page: the next call asks, and the service has revoked it', async () => {
    const app = await connected('ada');
    const page = requirePage(await app.browser.visit(`${system().auth}/account`));
    const done = requirePage(
      await app.browser.submit(page, { upstream: UPSTREAM, decision: 'end-credential' }),
    );
    expect(done.html).to.contain('The account is disconnected');
    expect(textOf(await app.call())).to.contain('/credentials/tools?for=');
    await revoked();
    expect(await causeOfLast(app)).to.equal('disconnected');
  });

  it('an administrator ends it by its id', async () => {
    const app = await connected('ada');
    const [{ id } = { id: '' }] = await listed(app);
    await requestManagement(system(), 'DELETE', `/credentials/${id}`);
    expect(textOf(await app.call())).to.contain('/credentials/tools?for=');
    expect(await causeOfLast(app)).to.equal('ended_by_administrator');
  });

  for (const [action, cause] of [
    ['disable', 'account_disabled'],
    ['forget', 'account_forgotten'],
  ] as const)
    it(`it ends when the account is ${cause.slice('account_'.length)}`, async () => {
      const app = await connected(action === 'disable' ? 'grace' : 'ada');
      await changeAccount(system(), accountOf(app), action);
      await until('the credential to end', async () => (await listed(app)).length === 0);
      await revoked();
    });
});

describe('An own account of a person who leaves the company', () => {
  const HOUR = 3600;
  let company: CompanyProvider;
  let service: ProtectedServer;
  let system: System;
  let link: string;
  before(async function start() {
    [company, service] = await Promise.all([startCompanyProvider(), startProtectedServer()]);
    const provider = {
      scopes: ['openid', 'profile', 'email', 'groups'],
      recheck: '24h',
      backchannelLogout: 'connections',
    };
    const entitlements = [{ match: { group: 'employees' }, level: 'analytics' }];
    const file = { ...settingsFor(service.url), entitlements };
    system = await startSystem(companySettings(company, provider, file));
    ({ link } = await createConnector(system, { name: 'Notes' }));
  });
  after(async () => {
    await system?.stop();
    restoreClock();
    await service?.close();
    await company?.stop();
  });

  /** Signs in at the company, and connects an account at the service. */
  async function hire(subject: string) {
    const email = `${subject}@example.com`;
    const groups = ['employees'];
    company.people.set(subject, { name: subject, email, email_verified: true, groups });
    company.signInAs(subject);
    service.user = subject;
    const browser = openBrowser([...system.origins, service.origin, company.issuer]);
    const opened = await openConsent(system, { link }, { as: { browser } });
    const asked = requirePage(await opened.decide({ decision: 'approve' }));
    const back = await browser.submit(asked, { credential: 'now' });
    const { body } = await opened.redeem(requireExternalRedirect(back), { resource: link });
    const app = { ...opened, token: String(body.access_token), refreshToken: body.refresh_token };
    expect(textOf(await call(link, app.token, WHOAMI))).to.equal(subject);
    const { token = '' } = service.calls.at(-1) ?? {};
    return { ...app, subject, account: String(decodeJwt(app.token).sub), accessToken: token };
  }

  for (const [title, leave] of Object.entries<(person: Hired) => Promise<unknown>>({
    'the identity provider signs the person out': ({ subject }) =>
      company.signOut(subject, `${system.auth}/backchannel-logout`),
    'the recheck of the identity provider is refused': ({ server, client, refreshToken }) => {
      advanceClock(24 * HOUR);
      return refresh(server, client, refreshToken);
    },
  }))
    it(`is unusable, deleted and revoked within seconds after ${title}`, async () => {
      const person = await hire(`employee${title.length}`);
      company.people.delete(person.subject);
      company.revoke(person.subject);
      await leave(person);
      const path = `/credentials?account=${person.account}`;
      await until('the credential to end', async () => {
        const { items } = (await requestManagement(system, 'GET', path)) as { items: unknown[] };
        return items.length === 0;
      });
      expect((await call(link, person.token, WHOAMI)).status).to.equal(401);
      await until('the service to revoke the tokens', () =>
        service.revoked.includes(person.accessToken),
      );
      const ended = (await readAllAudit(system)).findLast(
        ({ event, account }) => event === 'credential_ended' && account === person.account,
      );
      expect(ended?.arguments).to.deep.equal({ cause: 'identity_provider_ended' });
    });

  type Hired = Awaited<ReturnType<typeof hire>>;
});

describe('An own account at a server that nothing uses any more', () => {
  const DAY = 86_400;
  const { system, service, connectorId, connectAs } = usePersonalUpstream();
  // A lease that ends in the future would last until then.
  after(restoreClock);

  const stored = async () => {
    const page = await requestManagement(system(), 'GET', `/credentials?upstream=${UPSTREAM}`);
    return (page as { items: { id: string }[] }).items;
  };

  /** Since when nothing uses it, once a pass over all credentials has noted that. */
  async function noted({ token }: Connected): Promise<number> {
    const { store } = await openSystemStore(system());
    const owner = { upstream: UPSTREAM, account: String(decodeJwt(token).sub) };
    try {
      advanceClock(61);
      return await until(
        'a pass to note that nothing uses the account',
        async () => (await findCredential(store, owner))?.unusedSince,
      );
    } finally {
      await store.close();
    }
  }

  async function endedAs(cause: string): Promise<void> {
    await until('the credential to end', async () => (await stored()).length === 0);
    const items = await readAllAudit(system());
    const ended = items.findLast(({ event }) => event === 'credential_ended');
    expect(ended?.arguments).to.deep.include({ cause });
    const { token = '' } = service().calls.findLast(({ status }) => status === 200) ?? {};
    await until('the service to revoke the tokens', () => service().revoked.includes(token));
  }

  async function endsAfterThirtyDays(ada: Connected, cause: string) {
    await noted(ada);
    advanceClock(29 * DAY);
    const later = await noted(ada);
    expect(later).to.be.lessThan(Date.now() / 1000 - 28 * DAY);
    expect(await stored()).to.have.length(1);
    advanceClock(DAY);
    await endedAs(cause);
  }

  it('stays when its connector is revoked, and ends 30 days after the last connection of the person', async () => {
    const ada = await connectAs('ada');
    expect(textOf(await ada.call())).to.equal('ada');
    await revokeConnector(system(), connectorId());
    await endsAfterThirtyDays(ada, 'unused');
  });

  it('ends 30 days after the settings lost the server, also for another person', async () => {
    const { link } = await createConnector(system(), { name: 'Again' });
    const grace = await connectPerson({
      system: system(),
      service: service(),
      link,
      person: 'grace',
    });
    expect(textOf(await grace.call())).to.equal('ada');
    const upstreams = [{ id: 'others', url: service().url, defaultLevel: 'analytics' }];
    changeSettings(system(), { resourceServer: { upstreams } });
    await requestManagement(system(), 'POST', '/settings/reload', {});
    await endsAfterThirtyDays(grace, 'upstream_removed');
  });
});

describe('The address where a person connects an own account', () => {
  const { system, service, connectAs } = usePersonalUpstream();

  it('CRD-02 another person cannot use it', async () => {
    const ada = await connectAs('ada', later);
    const grace = await connectAs('grace', later);
    const page = await openAddress(await ada.call(), grace.browser);
    expect(page.status).to.equal(403);
  });

  it('CRD-02 the way back from the service works only in the browser that began it, and once', async () => {
    const ada = await connectAs('ada', later);
    const page = await openAddress(await ada.call(), ada.browser);
    const stopped = openBrowser(system().origins);
    stopped.jar.push(...ada.browser.jar);
    const away = await stopped.submit(page, { credential: 'now' });
    if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
    const response = await fetch(away.url, { redirect: 'manual' });
    const back = String(response.headers.get('location'));
    const other = requirePage(await openBrowser(system().origins).visit(back));
    expect(other.status).to.equal(400);
    const own = requirePage(await stopped.visit(back));
    expect(own.status).to.equal(200);
    expect(requirePage(await stopped.visit(back)).status).to.equal(400);
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().tokenRequests.filter((form) => form.has('code'))).to.have.length(1);
  });
});

describe('A key that a person enters after the identity provider ended the session', () => {
  const KEY = 'key-that-a-person-typed-0123456789';
  let company: CompanyProvider;
  let service: ProtectedServer;
  let system: System;
  before(async function start() {
    [company, service] = await Promise.all([startCompanyProvider(), startProtectedServer()]);
    const entitlements = [{ match: { group: 'employees' }, level: 'analytics' }];
    const scopes = ['openid', 'profile', 'email', 'groups'];
    const file = { ...settingsFor(service.url, { kind: 'key' }), entitlements };
    system = await startSystem(companySettings(company, { scopes }, file));
    service.acceptKey(KEY);
  });
  after(async () => {
    await system?.stop();
    await service?.close();
    await company?.stop();
  });

  it('BCL-03 is not stored', async () => {
    const person = { name: 'Ada', email: 'ada@example.com', email_verified: true };
    company.people.set('ada', { ...person, groups: ['employees'] });
    company.signInAs('ada');
    const { link } = await createConnector(system, { name: 'Notes' });
    const browser = openBrowser([...system.origins, company.issuer]);
    const opened = await openConsent(system, { link }, { as: { browser } });
    const asked = requirePage(await opened.decide({ decision: 'approve' }));
    expect(asked.html).to.contain('Connect your');
    await company.signOut('ada', `${system.auth}/backchannel-logout`);
    service.calls.length = 0;
    const answer = await browser.submit(asked, { credential: 'now', key: KEY });
    expect(await requestManagement(system, 'GET', '/credentials')).to.deep.include({ items: [] });
    expect(service.calls).to.deep.equal([]);
    expect(requirePage(answer).status).to.equal(400);
  });
});
