// What could bring the credential of one person to another one, to another server, or to an app.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import type { Credential } from '../../src/credentials/credential.ts';
import {
  deleteCredential,
  findCredential,
  listCredentials,
  saveCredential,
} from '../../src/credentials/credentials.ts';
import { type Browser, openBrowser, type Page, requirePage } from '../support/browser.ts';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
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
import { changeAccount, createConnector, requestManagement } from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';
import { until } from '../support/until.ts';

const accountOf = ({ token }: Connected) => String(decodeJwt(token).sub);

/** A browser with the cookies of another one, that goes no further than to Gatehouse. */
function stoppingBrowser({ auth, origins }: System, { jar }: Browser, keeps = /./): Browser {
  const browser = openBrowser([auth, ...origins]);
  browser.jar.push(...jar.filter(({ name }) => keeps.test(name)));
  return browser;
}

/** Begins on the page, and returns the way back from the service. */
async function wayBack(page: Page, browser: Browser): Promise<string> {
  const away = await browser.submit(page, { credential: 'now' });
  if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
  const response = await fetch(away.url, { redirect: 'manual' });
  return String(response.headers.get('location'));
}

describe('A person who uses what belongs to another one', () => {
  const { system, service, connectAs } = usePersonalUpstream();
  let ada: Connected;
  let grace: Connected;
  before(async () => {
    ada = await connectAs('ada');
    grace = await connectAs('grace', later);
  });
  afterEach(() => {
    service().tokenRequests.length = 0;
  });

  const asksGrace = async () => {
    service().calls.length = 0;
    expect(textOf(await grace.call())).to.contain('/credentials/tools?for=');
    expect(service().calls).to.deep.equal([]);
  };

  it('CRD-02 cannot send the form of the other one', async () => {
    const page = await openAddress(await grace.call(), grace.browser);
    const ofAda = stoppingBrowser(system(), ada.browser);
    const step = requirePage(await ofAda.submit(page, { credential: 'now' }));
    expect(step.status).to.be.oneOf([400, 403]);
    expect(service().authorizations).to.have.length(1);
  });

  it('CRD-19 cannot finish what the other one began with the mark of that browser, also without a session', async () => {
    const page = await openAddress(await grace.call(), grace.browser);
    const own = stoppingBrowser(system(), grace.browser);
    const back = await wayBack(page, own);
    // Somebody else, in whose browser the mark was planted.
    const other = stoppingBrowser(system(), own, /credential/);
    expect(other.jar).to.not.deep.equal([]);
    expect(requirePage(await other.visit(back)).status).to.equal(400);
    expect(service().tokenRequests).to.deep.equal([]);
    await asksGrace();
  });

  for (const [title, change] of Object.entries({
    'without a state': (url: URL) => url.searchParams.delete('state'),
    'with an empty state': (url: URL) => url.searchParams.set('state', ''),
    'with a state of nobody': (url: URL) => url.searchParams.set('state', 'constructor'),
    'with a state that ends otherwise': (url: URL) =>
      url.searchParams.set('state', `${url.searchParams.get('state')?.slice(0, -1)}`),
  }))
    it(`CRD-02 a way back ${title} completes nothing`, async () => {
      const page = await openAddress(await grace.call(), grace.browser);
      const own = stoppingBrowser(system(), grace.browser);
      const back = new URL(await wayBack(page, own));
      change(back);
      expect(requirePage(await own.visit(back.href)).status).to.equal(400);
      expect(service().tokenRequests).to.deep.equal([]);
      await asksGrace();
    });

  it('CRD-02 a way back of a browser whose mark was changed completes nothing', async () => {
    const page = await openAddress(await grace.call(), grace.browser);
    const own = stoppingBrowser(system(), grace.browser);
    const back = await wayBack(page, own);
    for (const cookie of own.jar)
      if (cookie.name === 'gatehouse-credential') cookie.value = `x${cookie.value}`;
    expect(requirePage(await own.visit(back)).status).to.equal(400);
    await asksGrace();
  });

  it('CRD-33 is told on the page to whom the account will belong', async () => {
    const page = await openAddress(await grace.call(), grace.browser);
    expect(page.html).to.contain('Signed in as').and.contain('Grace Hopper');
    await connectAs('grace', async (asked, browser) => {
      expect(asked.html).to.contain('Grace Hopper');
      return later(asked, browser);
    });
  });

  it('CRD-20 cannot use a session of the server, or one that waits for an account', async () => {
    const initialize = {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'app' } },
    };
    const { link } = await createConnector(system(), { name: 'Waiting' });
    const waiting = await connectPerson({
      system: system(),
      service: service(),
      link,
      person: 'grace',
      complete: later,
    });
    const opened = await call(link, waiting.token, initialize);
    const session = String(opened.headers.get('mcp-session-id'));
    expect(session).to.contain('waiting-');
    const owner = await connectPerson({
      system: system(),
      service: service(),
      link,
      person: 'ada',
      complete: later,
    });
    const foreign = await call(link, owner.token, WHOAMI, {
      headers: { 'mcp-session-id': session },
    });
    expect(foreign.status).to.equal(404);
  });
});

describe('The end of an own account while the person is on the way back', () => {
  const { system, service, connectAs } = usePersonalUpstream();
  afterEach(() => {
    service().beforeCodeAnswer = undefined;
  });

  /** Goes to the service and back, and runs `meanwhile` before the service answers to the code. */
  async function interrupted(person: Connected, meanwhile: () => Promise<unknown>) {
    const page = await openAddress(await person.call(), person.browser);
    service().revoked.length = 0;
    service().beforeCodeAnswer = async () => void (await meanwhile());
    return requirePage(await person.browser.submit(page, { credential: 'now' }));
  }

  const stored = async (account: string) => {
    const page = await requestManagement(system(), 'GET', `/credentials?account=${account}`);
    return (page as { items: object[] }).items;
  };

  it('CRD-16 by an administrator leaves nothing, and what arrives is revoked', async () => {
    const ada = await connectAs('ada', later);
    const id = `${UPSTREAM}.${accountOf(ada)}`;
    const page = await interrupted(ada, () =>
      requestManagement(system(), 'DELETE', `/credentials/${id}`).catch(() => undefined),
    );
    expect(page.status).to.equal(400);
    expect(await stored(accountOf(ada))).to.deep.equal([]);
    await until('the tokens to be revoked', () => service().revoked.length === 2);
    expect(textOf(await ada.call())).to.contain('/credentials/tools?for=');
  });

  for (const change of ['disable', 'forget'] as const)
    it(`CRD-16 because the account is ${change === 'disable' ? 'disabled' : 'forgotten'} leaves nothing, and what arrives is revoked`, async () => {
      const grace = await connectAs('grace', later);
      const account = accountOf(grace);
      const page = await interrupted(grace, () => changeAccount(system(), account, change));
      expect(page.status).to.equal(400);
      expect(await stored(account)).to.deep.equal([]);
      await until('the tokens to be revoked', () => service().revoked.length === 2);
      if (change === 'disable') await changeAccount(system(), account, 'enable');
    });

  it('CRD-21 an account that is forgotten and signs in again has no credential of before', async () => {
    const before = await connectAs('grace');
    expect(textOf(await before.call())).to.equal('ada');
    await changeAccount(system(), accountOf(before), 'forget');
    const again = await connectAs('grace', later);
    expect(accountOf(again)).to.equal(accountOf(before));
    await until('the credential of before to be unusable', async () =>
      textOf(await again.call())?.includes('/credentials/tools?for='),
    );
  });
});

describe('A credential whose upstream is at another address by now', () => {
  let first: ProtectedServer;
  let second: ProtectedServer;
  let system: System;
  let link: string;
  before(async function start() {
    [first, second] = await Promise.all([startProtectedServer(), startProtectedServer()]);
    system = await startSystem({ file: settingsFor(first.url) });
    ({ link } = await createConnector(system, { name: 'Moved' }));
  });
  after(async () => {
    await system?.stop();
    await first?.close();
    await second?.close();
  });

  it('CRD-22 is not sent there, and the person is asked again', async () => {
    const ada = await connectPerson({ system, service: first, link, person: 'ada' });
    expect(textOf(await ada.call())).to.equal('ada');
    changeSettings(system, settingsFor(second.url));
    await requestManagement(system, 'POST', '/settings/reload', {});
    await until('the new address', async () => (await ada.call()).text.includes('?for='));
    const tokens = second.calls.flatMap(({ token }) => token ?? []);
    expect(tokens).to.deep.equal([]);
    const browser = openBrowser([...system.origins, second.origin]);
    browser.jar.push(...ada.browser.jar);
    const page = await openAddress(await ada.call(), browser);
    expect(page.html).to.not.contain('id="connected"');
    second.user = 'moved';
    await browser.submit(page, { credential: 'now' });
    expect(textOf(await ada.call())).to.equal('moved');
  });
});

describe('A client with a secret at a service that is replaced in the settings', () => {
  let first: ProtectedServer;
  let second: ProtectedServer;
  let mcp: ProtectedServer;
  let system: System;
  const credentialAt = ({ origin }: ProtectedServer, name: string) => ({
    kind: 'oauth',
    issuer: origin,
    resource: false,
    clientId: `client-${name}`,
    clientSecret: `secret-${name}-0123456789`,
    tokenAuth: 'post',
  });
  before(async function start() {
    [first, second, mcp] = await Promise.all([
      startProtectedServer(),
      startProtectedServer(),
      startProtectedServer(),
    ]);
    system = await startSystem({ file: settingsFor(mcp.url, credentialAt(first, 'first')) });
  });
  after(async () => {
    await system?.stop();
    await Promise.all([first, second, mcp].map((server) => server?.close()));
  });

  it('CRD-23 sends the new secret to no earlier service, at a refresh or a revocation, and asks the person again', async () => {
    const { link } = await createConnector(system, { name: 'Replaced' });
    first.expiresIn = 0;
    const browser = openBrowser([...system.origins, first.origin]);
    const ada = await connectPerson({ system, service: first, link, person: 'ada' });
    browser.jar.push(...ada.browser.jar);
    await ada.call();
    const sent = first.tokenRequests.length;
    expect(first.tokenRequests.at(-1)?.get('client_secret')).to.equal('secret-first-0123456789');
    changeSettings(system, settingsFor(mcp.url, credentialAt(second, 'second')));
    await requestManagement(system, 'POST', '/settings/reload', {});
    await until('the new settings', async () => (await ada.call()).text.includes('?for='));
    expect(first.tokenRequests.length).to.equal(sent);
    await requestManagement(system, 'DELETE', `/credentials/${UPSTREAM}.${accountOf(ada)}`);
    const all = [...first.tokenRequests, ...second.tokenRequests, ...first.revocations].map(String);
    expect(all.join()).to.not.contain('secret-second');
  });
});

describe('Credentials in the store', () => {
  const { system } = usePersonalUpstream();

  it('CRD-27 are in the lists by which they are ended, also if one ends while the next is stored', async () => {
    const { store } = await openSystemStore(system());
    const owner = { account: 'a'.repeat(27), upstream: UPSTREAM };
    const credential = (token: string): Credential => ({
      ...owner,
      kind: 'key',
      token,
      scopes: [],
      epoch: token,
      connectedAt: 1,
    });
    try {
      for (const step of [0, 1, 2, 3, 4]) {
        await saveCredential(store, owner, () => credential('first'));
        // The end waits before its n-th write, until the next one is stored.
        let writes = 0;
        const waits = Promise.withResolvers<void>();
        const slow = new Proxy(store, {
          get(target, name: keyof typeof store) {
            const verb = target[name];
            if (typeof verb !== 'function') return verb;
            return async (...given: unknown[]) => {
              if ((writes += 1) > step) await waits.promise;
              return (verb as (...args: unknown[]) => unknown).apply(target, given);
            };
          },
        });
        const ended = deleteCredential(slow, owner, ({ token }) => token === 'first');
        await saveCredential(store, owner, () => credential('second'));
        waits.resolve();
        await ended;
        expect((await findCredential(store, owner))?.token, `step ${step}`).to.equal('second');
        expect(
          await listCredentials(store, { account: owner.account }),
          `step ${step}`,
        ).to.have.length(1);
        expect(await listCredentials(store), `step ${step}`).to.have.length(1);
        await deleteCredential(store, owner);
      }
    } finally {
      await store.close();
    }
  });
});
