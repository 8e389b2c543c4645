// An address that is not verified may belong to another person.
import { expect } from 'chai';
import type { JWTPayload } from 'jose';
import type { Account } from '../../src/people/account.ts';
import type { Account as AccountResource } from '../../src/management/resources/account.ts';
import type { Grant } from '../../src/management/resources/grant.ts';
import { gatehouse } from '../management/command-line.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import {
  isConsentPage,
  describePage,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../support/browser.ts';
import { connect, redeem, requestAuthorization } from '../support/connection.ts';
import { textOf } from '../support/account-page.ts';
import { useConsole } from '../support/console.ts';
import { openSystemStore } from '../support/system-store.ts';
import {
  type OpenIdProvider,
  openIdSettings,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import { startSystem, type System } from '../support/system.ts';

const ADDRESS = 'ada@example.com';
const MARKED = 'ada@example.com (not confirmed when you signed in with';

describe('An unverified email address', () => {
  let provider: OpenIdProvider;
  let system: System;
  before(async () => {
    provider = await startOpenIdProvider();
    const entitlements = [{ match: { group: 'staff' }, level: 'operations' }];
    system = await startSystem(openIdSettings(provider, { entitlements }));
  });
  after(async () => {
    await system?.stop();
    await provider.stop();
  });

  async function signIn(claims: JWTPayload) {
    const all = { name: 'Ada Lovelace', email: ADDRESS, groups: ['staff'], ...claims };
    provider.setBehaviour({ claims: all });
    const { link } = await createConnector(system);
    const browser = openBrowser([system.auth]);
    const { url, verifier, server, client } = await requestAuthorization(system, { link });
    const departure = requireExternalRedirect(await browser.visit(url));
    const page = requirePage(await browser.visit(provider.approve(departure)));
    const approve = async () => {
      const callback = requireExternalRedirect(await browser.submit(page, { decision: 'approve' }));
      await redeem({ link, server, client, callback, verifier });
      return requirePage(await browser.visit(new URL('/account', system.auth)));
    };
    return { page, approve };
  }

  /** Runs a command and returns its output. */
  async function run(...args: string[]): Promise<string> {
    const access = {
      GATEHOUSE_MANAGEMENT_URL: system.management,
      GATEHOUSE_MANAGEMENT_KEY: system.managementKey,
    };
    const { code, stdout, stderr } = await gatehouse(args, access);
    expect(code, stderr).to.equal(0);
    return stdout;
  }

  async function documentsOf(subject: string) {
    const list = async <Item>(path: string) =>
      ((await requestManagement(system, 'GET', `/${path}`)) as { items: Item[] }).items;
    const accounts = await list<AccountResource>('accounts');
    const account = accounts.find((item) => item.subject === subject);
    if (!account) throw new Error(`no account has the subject ${subject}`);
    const grants = await list<Grant>(`grants?account=${account.id}`);
    return { account, grants };
  }

  for (const [value, claims] of [
    ['false', { email_verified: false }],
    ['missing', {}],
    ['a string', { email_verified: 'true' }],
  ] as const) {
    it(`CON-21 an unverified address is absent from the consent and account pages (email_verified is ${value})`, async () => {
      const { page, approve } = await signIn({ sub: `marked ${value}`, ...claims });
      expect(isConsentPage(page), describePage(page)).to.equal(true);
      for (const shown of [page, await approve()])
        expect(textOf(shown)).to.include('Ada Lovelace').and.not.include(ADDRESS);
    });
  }

  it('CON-21 an unverified address is marked on the page for a person without any level', async () => {
    const { page } = await signIn({ sub: 'nothing offered', email_verified: false, groups: [] });
    expect(page.status).to.equal(403);
    expect(textOf(page)).to.include(MARKED);
  });

  it('CON-21 a verified address is not marked', async () => {
    const { page, approve } = await signIn({ sub: 'verified', email_verified: true });
    for (const shown of [page, await approve()])
      expect(textOf(shown)).to.include(ADDRESS).and.not.include('not confirmed');
    const { account, grants } = await documentsOf('verified');
    expect(account).to.include({ email: ADDRESS, emailVerified: true });
    expect(grants[0]).to.include({ accountEmail: ADDRESS, accountEmailVerified: true });
    expect(await run('grant', 'list', '--account', account.id)).to.include(ADDRESS);
  });

  it('CON-21 the management API marks an unverified address, and the command line does not use it as a name', async () => {
    const { approve } = await signIn({ sub: 'managed', email_verified: false });
    await approve();
    const { account, grants } = await documentsOf('managed');
    expect(account).to.include({ email: ADDRESS, emailVerified: false });
    expect(grants).to.have.length(1);
    expect(grants[0]).to.include({ accountEmail: ADDRESS, accountEmailVerified: false });
    for (const command of [['list'], ['show', account.id]])
      expect(await run('account', ...command)).to.include(`${ADDRESS} (not verified)`);
    const id = String(grants[0]?.id);
    for (const command of [
      ['list', '--account', account.id],
      ['show', id],
      ['why', id],
    ])
      expect(await run('grant', ...command))
        .to.include('Ada Lovelace')
        .and.not.include(ADDRESS);
  });

  for (const [how, claims] of [
    ['in the name claim', { name: ADDRESS }],
    ['in the name claim with a lookalike at sign', { name: 'ada＠example.com' }],
    ['in preferred_username', { name: '', preferred_username: ADDRESS }],
    ['without a name claim', { name: '' }],
  ] as const) {
    it(`CON-21 an unverified address is not used as a name (${how})`, async () => {
      const sub = `named ${how}`;
      const { page } = await signIn({ sub, ...claims });
      const account = /id="account">([\s\S]*?)<\/dd>/.exec(page.html)?.[1] ?? '';
      expect(account).to.match(new RegExp(`class="value[^"]*">${sub}<`));
      expect((await documentsOf(sub)).account.name).to.equal(sub);
    });
  }

  it('CON-21 an address in the name claim is not used as a name when another address is verified', async () => {
    const email = 'x@other.example';
    await signIn({ sub: 'other address', name: ADDRESS, email, email_verified: true });
    expect((await documentsOf('other address')).account.name).to.equal(email);
  });

  it('CON-21 a verified address in the name claim is used as a name', async () => {
    await signIn({ sub: 'own name', name: ADDRESS, email_verified: true });
    expect((await documentsOf('own name')).account.name).to.equal(ADDRESS);
  });
});

describe('An unverified email address in the console', () => {
  const { system, signIn } = useConsole();

  it('CON-21 the console marks an unverified address in the list of people and shows it on no other page', async () => {
    await connect(system(), await createConnector(system()), { person: 'grace' });
    const { items } = (await requestManagement(system(), 'GET', '/accounts')) as {
      items: Account[];
    };
    const grace = items.find(({ name }) => name === 'Grace Hopper');
    const { store } = await openSystemStore(system());
    await store.update<Account>(`account:${grace?.id}`, (account) => {
      if (!account) throw new Error('the account was not found');
      return { value: { ...account, emailVerified: false }, ttl: 86_400 };
    });
    await store.close();
    const people = textOf((await signIn('/accounts')).page);
    expect(people).to.match(/Email \(not verified\)\s+grace@example\.com/);
    await requestManagement(system(), 'POST', `/accounts/${grace?.id}/disable`);
    for (const path of ['/grants', '/audit']) {
      const shown = textOf((await signIn(path)).page);
      expect(shown).to.include('Grace Hopper').and.not.include('grace@example.com');
    }
  });
});
