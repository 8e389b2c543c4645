import { expect } from 'chai';
import { openBrowser, type Person, requirePage } from '../support/browser.ts';
import { changeAccount, readAllAudit, requestManagement } from '../support/management-api.ts';
import {
  type Connected,
  later,
  openAddress,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { until } from '../support/until.ts';
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
