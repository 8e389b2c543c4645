import { createSecretKey, randomBytes } from 'node:crypto';
import { mock } from 'node:test';
import { expect } from 'chai';
import { type AuditItem, recordAudit, storeAudit } from '../../src/audit/audit.ts';
import { replaceAuditItems } from '../../src/audit/audit-log.ts';
import { openSearchCache } from '../../src/audit/search-cache.ts';
import { type Account, forgottenAccount } from '../../src/people/account.ts';
import { findAccount, forgetAccount, saveAccount } from '../../src/people/accounts.ts';
import { searchWords } from '../../src/management/audit-words.ts';
import { documentKey } from '../../src/clients/clients.ts';
import { updateMachine } from '../../src/clients/machines.ts';
import type { Range } from '../../src/store/store.ts';
import { auditServices } from '../support/audit-services.ts';
import { until } from '../support/until.ts';
import {
  ACCOUNT_LIFETIME,
  KEYS,
  type ManagementHost,
  openManagementHost,
  openManagementServices,
  request,
} from './management-host.ts';

const KEY = createSecretKey(randomBytes(32));
const SUBJECT = '1';

describe('a search by words in the audit log that repeats an earlier one', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  const times = () => ({ now: host.now(), ttl: ACCOUNT_LIFETIME });
  const signIn = async (name: string) => {
    const identity = { subject: SUBJECT, name, emailVerified: false, groups: [] };
    const issuer = 'https://login.example.com';
    return (await saveAccount(host.store, KEY, { issuer, ...identity }, times())).id;
  };
  const record = (item: Partial<AuditItem>) =>
    recordAudit(auditServices(host.store, host.now()), {
      event: 'call',
      outcome: 'answered',
      ...item,
    });
  const find = async (
    q: string,
    filters: Record<string, string> = { event: 'call' },
    role: keyof typeof KEYS = 'administrator',
  ) => {
    const path = `/api/v1/audit?${new URLSearchParams({ q, ...filters })}`;
    const headers = { Authorization: `Bearer ${KEYS[role]}` };
    const { body } = await request(host, 'GET', path, { headers });
    return (body as { items: AuditItem[] }).items.map(({ traceId }) => traceId);
  };

  it('finds a person by the new name only', async () => {
    const account = await signIn('Earlier Bernard');
    await record({ account, traceId: '1' });
    expect(await find('earlier')).to.deep.equal(['1']);
    expect(await find('later')).to.deep.equal([]);
    await signIn('Later Bernard');
    await until('the new name is found', async () => (await find('later')).length === 1);
    expect(await find('earlier')).to.deep.equal([]);
  });

  it('finds nobody who was forgotten, even if the message about it is lost', async () => {
    const account = await signIn('Grace Hopper');
    await record({ account, traceId: '1' });
    expect(await find('hopper')).to.deep.equal(['1']);
    const known = (await findAccount(host.store, account)) as Account;
    const gone = forgottenAccount(known, host.now());
    await host.store.set(`account:${account}`, gone, ACCOUNT_LIFETIME);
    expect(await find('hopper')).to.deep.equal([]);
    await forgetAccount(host.store, account, times());
    await signIn('Grace Hopper');
    await until('the new account is found', async () => (await find('hopper')).length === 1);
  });

  it('does not find what was deleted from an item', async () => {
    const { number, ...item } = await record({ userAgent: 'curl/8', traceId: '1' });
    expect(await find('curl')).to.deep.equal(['1']);
    const { userAgent: _deleted, ...left } = item;
    await replaceAuditItems(host.store, [{ ...left, number }]);
    expect(await find('curl')).to.deep.equal([]);
  });

  it('does not find calls by a name of the app that was deleted from another item', async () => {
    const [account, clientId] = ['person', 'an-app-that-has-expired'];
    const event = 'consent_approved';
    const named = { event, account, clientId, arguments: { client: 'Laptop of Grace' } };
    const { number, ...approval } = await record(named);
    await record({ account, clientId, tool: 'export_cards', traceId: '1' });
    expect(await find('grace export_cards', {})).to.deep.equal(['1']);
    expect(await find('grace', {})).to.deep.equal(['1', undefined]);
    const { arguments: _deleted, ...left } = approval;
    await replaceAuditItems(host.store, [{ ...left, number }]);
    expect(await find('grace export_cards', {})).to.deep.equal([]);
    expect(await find('grace', {})).to.deep.equal([]);
  });

  it('finds an item that came later, and a call by how it ended', async () => {
    const started = await record({ tool: 'export_cards', outcome: 'started', traceId: '1' });
    expect(await find('export_cards')).to.deep.equal(['1']);
    expect(await find('upstream_timeout')).to.deep.equal([]);
    const ended = { event: 'call_ended', call: started.id, outcome: 'failed' };
    const item = { id: 'end', time: started.time, reason: 'upstream_timeout', ...ended };
    const completes = started;
    await storeAudit(auditServices(host.store, host.now()), [{ item, part: 'lasting', completes }]);
    expect(await find('upstream_timeout')).to.deep.equal(['1']);
    await record({ tool: 'export_cards', traceId: '2' });
    expect(await find('export_cards')).to.deep.equal(['2', '1']);
  });

  it('ROL-08 finds no more for a viewer than the viewer may read after an auditor has searched', async () => {
    await record({ tool: 'find', argumentsJson: '{"member":"grace"}', traceId: '1' });
    expect(await find('grace', { event: 'call' }, 'auditor')).to.deep.equal(['1']);
    expect(await find('grace', { event: 'call' }, 'viewer')).to.deep.equal([]);
    expect(await find('find', { event: 'call' }, 'viewer')).to.deep.equal(['1']);
    expect(await find('grace', { event: 'call' }, 'auditor')).to.deep.equal(['1']);
  });

  it('finds connectors and machines by the new names', async () => {
    const body = { name: 'Quarterly numbers', level: 'analytics' };
    const { id } = (await request(host, 'POST', '/api/v1/connectors', { body })).body;
    const connector = String(id);
    const machine = await addMachine(connector);
    await record({ connector, clientId: machine, traceId: '1' });
    expect(await find('quarterly nightly')).to.deep.equal(['1']);
    await request(host, 'PATCH', `/api/v1/connectors/${connector}`, {
      body: { name: 'Yearly numbers' },
    });
    await updateMachine(
      host.store,
      machine,
      (before) => ({ ...before, name: 'Hourly job' }),
      host.now(),
    );
    await until('the new names are found', async () => (await find('yearly hourly')).length === 1);
    expect(await find('quarterly')).to.deep.equal([]);
  });

  it('finds an app with a metadata document by the new name, of which no message tells', async () => {
    const clientId = 'https://app.example.com/client.json';
    const save = (name: string) =>
      host.store.set(
        documentKey(clientId),
        { document: { client_name: name, redirect_uris: ['https://app.example.com/cb'] } },
        3600,
      );
    await save('Earlier app');
    await record({ clientId, traceId: '1' });
    expect(await find('earlier')).to.deep.equal(['1']);
    await save('Later app');
    expect(await find('later')).to.deep.equal(['1']);
    expect(await find('earlier')).to.deep.equal([]);
  });

  async function addMachine(connector: string): Promise<string> {
    const body = { name: 'Nightly job', connector, level: 'analytics' };
    const { status, body: made } = await request(host, 'POST', '/api/v1/clients', { body });
    expect(status, JSON.stringify(made)).to.equal(201);
    return String(made['id']);
  }
});

describe('a search by words in items of earlier versions of the audit log', () => {
  const MANAGER = { by: 'key:default', role: 'administrator' } as const;
  const COUNT = 2500;
  let opened: Awaited<ReturnType<typeof openManagementServices>>;
  beforeEach(async () => {
    opened = await openManagementServices();
  });
  afterEach(() => opened.close());

  /** The newest first, with numbers as ids. Those that are `readable` are items of one person each. */
  const search = (q: string, readable: (id: number) => boolean, after?: string) => {
    const { settings, services } = opened;
    const time = new Date(opened.now() * 1000).toISOString();
    const entryOf = (id: number) => {
      const item = { time, event: 'signed_in', account: `person-${id}`, outcome: 'done' };
      return { id: String(id).padStart(32, '0'), value: readable(id) ? item : undefined };
    };
    const range = async (_key: string, { after: last, limit = COUNT }: Range) => {
      const newest = last === undefined ? COUNT : Number(last) - 1;
      return Array.from({ length: Math.min(limit, newest) }, (_, n) => entryOf(newest - n));
    };
    const store = { ...services.store, range } as typeof services.store;
    const management = { settings, services: { ...services, store }, ...MANAGER };
    return searchWords(management, { q, filters: {}, limit: 10, after });
  };

  it('lets the process do other work meanwhile', async () => {
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    count();
    const { searched } = await search('nobody', () => true);
    isDone = true;
    expect(searched).to.equal(COUNT);
    expect(turns).to.be.at.least(COUNT / 100);
  });

  it('ends, and finds what is behind items that cannot be decrypted', async () => {
    const accounts: (string | undefined)[] = [];
    let after: string | undefined;
    let [pages, unreadable] = [0, 0];
    do {
      const page = await search('person-7', (id) => id < 10, after);
      accounts.push(...page.items.map(({ account }) => account));
      unreadable += page.unreadable ?? 0;
      after = page.next;
      pages += 1;
    } while (after !== undefined && pages < 10);
    expect([pages, unreadable]).to.deep.equal([3, COUNT - 9]);
    expect(accounts).to.deep.equal(['person-7']);
  });
});

describe('what searches in the audit log keep', () => {
  const CHANNELS = { people: 'accounts', apps: 'machines', connectors: 'connectors' };
  const TEXT = { text: 'x'.repeat(10_000), naming: { event: 'call' } };

  async function open() {
    const listeners = new Map<string, (id: string) => void>();
    const cache = await openSearchCache(
      {
        async subscribe(channel, listener) {
          listeners.set(channel, listener);
          return () => undefined;
        },
      },
      CHANNELS,
    );
    return { cache, announce: (channel: string, id: string) => listeners.get(channel)?.(id) };
  }

  it('a name that changes while it is read is not kept', async () => {
    const { cache, announce } = await open();
    const name = { text: 'Ada', isKnown: true };
    await cache.names.people.find(['a', 'b'], async () => {
      announce('accounts', 'a');
      return [name, name];
    });
    expect(cache.names.people.get('a')).to.equal(undefined);
    expect(cache.names.people.get('b')).to.equal(name);
    announce('connectors', 'b');
    expect(cache.names.people.get('b')).to.equal(name);
    announce('accounts', 'b');
    expect(cache.names.people.get('b')).to.equal(undefined);
    cache.close();
  });

  it('a name whose reading began five minutes ago goes with the next ones', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    try {
      const { cache } = await open();
      await cache.names.people.find(['a'], async () => {
        mock.timers.tick(300_000);
        return [{ text: 'Ada', isKnown: true }];
      });
      mock.timers.tick(300_000);
      expect(cache.names.people.get('a')).to.equal(undefined);
      cache.close();
    } finally {
      mock.timers.reset();
    }
  });

  it('texts take no more than 8 MB, and a later item with the same number has none', async () => {
    const { cache } = await open();
    const place = (number: number) => ({ number, time: 1, completedBy: 0 });
    for (let number = 1; number <= 1000; number += 1) cache.texts.set(place(number), true, TEXT);
    const kept = Array.from({ length: 1000 }, (_, n) => cache.texts.get(place(n + 1), true));
    const bytes = kept.filter((text) => text !== undefined).length * TEXT.text.length;
    expect(bytes).to.be.within(6 * 1024 ** 2, 8 * 1024 ** 2);
    expect(cache.texts.get(place(1000), true)).to.equal(TEXT);
    expect(cache.texts.get({ ...place(1000), time: 2 }, true)).to.equal(undefined);
    expect(cache.texts.get({ ...place(1000), completedBy: 1001 }, true)).to.equal(undefined);
    expect(cache.texts.get(place(1000), false)).to.equal(undefined);
    cache.close();
    expect(cache.texts.get(place(1000), true)).to.equal(undefined);
  });
});
