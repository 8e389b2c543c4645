// A process that ends at any write of a change that an administrator makes: what is changed is in the audit log, once.
import { expect } from 'chai';
import { readAuditAfter } from '../../src/audit/audit-log.ts';
import { noteAuditSettings } from '../../src/audit/audit-settings.ts';
import { recordChange, recordInterrupted } from '../../src/audit/recorded-change.ts';
import { clientKey } from '../../src/clients/clients.ts';
import { listRules } from '../../src/clients/rules.ts';
import {
  denyConnection,
  narrowConnection,
  raiseConnection,
} from '../../src/connections/connections.ts';
import { createGrant, newGrantId } from '../../src/connections/create-grant.ts';
import { updateGrant } from '../../src/connections/grants.ts';
import { listKeptOut } from '../../src/connections/kept-out.ts';
import { credentialId } from '../../src/credentials/credential.ts';
import { findCredential, saveCredential } from '../../src/credentials/credentials.ts';
import { connectLink } from '../../src/links/connect-link.ts';
import { listConnectors } from '../../src/links/connectors.ts';
import { listMintedTokens } from '../../src/links/minted-tokens.ts';
import type { ManagementContext } from '../../src/management/context.ts';
import { HANDLERS } from '../../src/management/handlers.ts';
import { approveTools } from '../../src/management/tool-review.ts';
import { saveAccount } from '../../src/people/accounts.ts';
import { findPins, updatePins } from '../../src/upstreams/tool-pin-records.ts';
import { reloadSettings } from '../../src/reload/reload-settings.ts';
import { ReloadRefused } from '../../src/reload/reloads.ts';
import { type Store, StoreUnavailable } from '../../src/store/store.ts';
import { updateWorkloadRecord } from '../../src/workloads/records.ts';
import {
  ACCOUNT_LIFETIME,
  LIFETIMES,
  openManagementServices,
  openReloadsOf,
  RESOURCE_URL,
} from '../management/management-host.ts';
import { dyingStore } from '../support/faults/dying-store.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { STORES } from '../support/system.ts';

/** What is changed by `run`, by the event that says so. */
type Prepared = {
  run: (management: ManagementContext) => Promise<unknown>;
  views: Record<string, () => Promise<unknown>>;
};
type Change = (management: ManagementContext) => Promise<Prepared>;

const HOUR = 3600;
const isGone = (error: unknown) => String(error);

async function connectorOf(management: ManagementContext, more: object = {}) {
  const body = { name: 'Orders', level: 'full', ...more };
  const { id } = await HANDLERS.createConnector(management, { body });
  return id;
}

async function machineOf(management: ManagementContext) {
  const connector = await connectorOf(management);
  const expiresAt = management.services.now() + HOUR;
  const body = { name: 'CI', connector, level: 'analytics', expiresAt };
  const { id } = await HANDLERS.createMachine(management, { body });
  const view = () => management.services.store.get(clientKey(id)).then((found) => found?.value);
  return { id, connector, view };
}

async function accountOf({ services: { store, now, keys } }: ManagementContext) {
  const person = { issuer: 'https://idp.example', subject: `ada-${now()}`, name: 'Ada' };
  const claims = { ...person, emailVerified: false, groups: [] };
  const times = { now: now(), ttl: ACCOUNT_LIFETIME };
  const { id } = await saveAccount(store, keys.accountIds, claims, times);
  const view = () => store.get(`account:${id}`).then((found) => found?.value);
  return { id, view };
}

async function appOf({ services: { store, now } }: ManagementContext) {
  const id = `an-app-that-registered-${newGrantId()}`;
  const metadata = { client_name: 'App', redirect_uris: ['https://app.example.com/cb'] };
  await store.set(clientKey(id), { metadata, usedAt: now() }, HOUR);
  return id;
}

/** The connection of a person. */
async function connectionOf(management: ManagementContext) {
  const { services } = management;
  const { store, now } = services;
  const [account, client, connector] = [
    await accountOf(management),
    await appOf(management),
    await connectorOf(management),
  ];
  const id = newGrantId();
  const times = { store, now, lifetimes: LIFETIMES, grantLifetime: HOUR };
  await createGrant(times, id, {
    account: { id: account.id },
    client: { id: client, name: 'App', redirectHost: 'app.example.com' },
    connector: { id: connector },
    resource: connectLink(RESOURCE_URL, connector),
    scopes: ['analytics'],
  });
  const refresh = { payload: { iat: now() }, generation: 0, turns: [] };
  const exchanged = { lifetimes: LIFETIMES, now: now() };
  await updateGrant(store, id, (record) => ({ ...record, refresh }), exchanged);
  const view = () => store.get(`grant:${id}`).then((found) => found?.value);
  return { id, account: account.id, view };
}

const count = (listed: Promise<readonly unknown[]>) => listed.then(({ length }) => length);

const CHANGES: Record<string, Change> = {
  'creating a connector': async (management) => ({
    run: connectorOf,
    views: { connector_created: () => count(listConnectors(management.services.store)) },
  }),
  'changing a connector': async (management) => {
    const id = await connectorOf(management);
    return {
      run: (given) => HANDLERS.updateConnector(given, { id, query: {}, body: { name: 'Bills' } }),
      views: { connector_changed: () => HANDLERS.showConnector(management, { id }) },
    };
  },
  'revoking a connector': async (management) => {
    const id = await connectorOf(management);
    return {
      run: (given) => HANDLERS.revokeConnector(given, { id }),
      views: { connector_revoked: () => HANDLERS.showConnector(management, { id }) },
    };
  },
  'deleting a connector': async (management) => {
    const id = await connectorOf(management);
    await HANDLERS.revokeConnector(management, { id });
    return {
      run: (given) => HANDLERS.deleteConnector(given, { id }),
      views: {
        connector_deleted: () => HANDLERS.showConnector(management, { id }).catch(isGone),
      },
    };
  },
  'creating a machine': async (management) => {
    const connector = await connectorOf(management);
    const body = { name: 'CI', connector, level: 'analytics' as const };
    const expiresAt = management.services.now() + HOUR;
    return {
      run: (given) => HANDLERS.createMachine(given, { body: { ...body, expiresAt } }),
      views: {
        machine_created: () =>
          count(
            HANDLERS.listClients(management, {
              query: { limit: 50, kind: 'machine' },
            }).then(({ items }) => items),
          ),
      },
    };
  },
  'replacing the secret of a machine': async (management) => {
    const { id, view } = await machineOf(management);
    return {
      run: (given) => HANDLERS.replaceMachineKey(given, { body: { id } }),
      views: { machine_key_replaced: view },
    };
  },
  'changing a machine': async (management) => {
    const { id, view } = await machineOf(management);
    return {
      run: (given) => HANDLERS.updateMachine(given, { body: { id, name: 'Nightly' } }),
      views: { machine_changed: view },
    };
  },
  'revoking an app': async (management) => {
    const id = await appOf(management);
    const listed = () => HANDLERS.listClients(management, { query: { limit: 1, id } });
    return {
      run: (given) => HANDLERS.revokeClient(given, { body: { id } }),
      views: { client_revoked: listed },
    };
  },
  'allowing an app': async (management) => {
    const id = await appOf(management);
    await HANDLERS.revokeClient(management, { body: { id } });
    const listed = () => HANDLERS.listClients(management, { query: { limit: 1, id } });
    return {
      run: (given) => HANDLERS.allowClient(given, { body: { id } }),
      views: { client_allowed: listed },
    };
  },
  'blocking a host': async (management) => {
    const host = `${newGrantId().replaceAll(/[^a-z\d]/g, 'x')}.example.com`;
    return {
      run: (given) => HANDLERS.blockClients(given, { body: { host } }),
      views: { client_blocked: () => count(listRules(management.services.store)) },
    };
  },
  'removing a rule': async (management) => {
    const name = `Bad ${newGrantId()}`;
    const { id } = await HANDLERS.blockClients(management, { body: { name } });
    return {
      run: (given) => HANDLERS.removeClientRule(given, { id }),
      views: { client_rule_removed: () => count(listRules(management.services.store)) },
    };
  },
  'minting a token': async (management) => {
    const { store, now } = management.services;
    const body = { name: 'Script', level: 'analytics' as const, expiresAt: now() + HOUR };
    return {
      run: (given) => HANDLERS.mintToken(given, { body }),
      views: { token_minted: () => count(listMintedTokens(store, now())) },
    };
  },
  'changing a token': async (management) => {
    const { id, view } = await tokenOf(management);
    return {
      run: (given) => HANDLERS.updateToken(given, { id, body: { name: 'Report' } }),
      views: { token_changed: view },
    };
  },
  'revoking a token': async (management) => {
    const { id, view } = await tokenOf(management);
    return {
      run: (given) => HANDLERS.revokeToken(given, { id }),
      views: { token_revoked: view },
    };
  },
  'pausing a workload': async (management) => {
    const subject = `workload:cluster:${newGrantId()}`;
    const id = subject.slice('workload:'.length);
    const { store } = management.services;
    const grantId = newGrantId();
    await updateWorkloadRecord(store, subject, (record) => ({ ...record, grantId }));
    return {
      run: (given) => HANDLERS.pauseWorkload(given, { body: { id } }),
      views: { workload_paused: () => store.get(subject).then((found) => found?.value) },
    };
  },
  'disabling a person': async (management) => {
    const { id, view } = await accountOf(management);
    return {
      run: (given) => HANDLERS.disableAccount(given, { id }),
      views: { account_disabled: view },
    };
  },
  'deleting a person': async (management) => {
    const { account, view } = await connectionOf(management);
    const { store } = management.services;
    return {
      run: (given) => HANDLERS.forgetAccount(given, { id: account }),
      views: {
        grant_ended: view,
        account_forgotten: () => store.get(`account:${account}`).then((found) => found?.value),
      },
    };
  },
  'disconnecting an app and keeping it out': async (management) => {
    const { id, account, view } = await connectionOf(management);
    const keptOut = () => count(listKeptOut(management.services.store, account));
    return {
      run: (given) => HANDLERS.revokeGrant(given, { id, query: { keepOut: 'true' } }),
      views: { grant_ended: view, kept_out: keptOut },
    };
  },
  'a person who raises the level of an app': async (management) => {
    const { id, view } = await connectionOf(management);
    const raise = { from: 'analytics', to: 'full' } as const;
    return {
      run: ({ settings, services }) => raiseConnection(settings, services, id, raise),
      views: { level_raised: view },
    };
  },
  'a person who lowers the level of an app': async (management) => {
    const { id, view } = await connectionOf(management);
    await raiseConnection(management.settings, management.services, id, {
      from: 'analytics',
      to: 'full',
    });
    const limit = { level: 'analytics', stays: true } as const;
    return {
      run: ({ settings, services }) => narrowConnection(settings, services, id, limit),
      views: { level_lowered: view },
    };
  },
  'a person who takes an approval back': async (management) => {
    const { id, account, view } = await connectionOf(management);
    const details = {
      connector: 'con',
      client: { name: 'App', redirectHost: 'app.example.com' },
      clientId: 'app',
      accountId: account,
    };
    return {
      run: ({ services }) => denyConnection(services, id, details, HOUR),
      views: { grant_ended: view },
    };
  },
  'reading the settings again': async (management) => {
    const { store } = management.services;
    const last = () => store.get('settings-reload:last').then((found) => found?.value);
    return {
      run: ({ services }) => reloadSettings(services, 'key:a'),
      views: { settings_reloaded: last },
    };
  },
  'letting an app in again': async (management) => {
    const { id, account } = await connectionOf(management);
    await HANDLERS.revokeGrant(management, { id, query: { keepOut: 'true' } });
    const keptOut = () => count(listKeptOut(management.services.store, account));
    return {
      run: (given) => HANDLERS.allowGrant(given, { id }),
      views: { kept_out_ended: keptOut },
    };
  },
  'ending a credential': async (management) => {
    const { store, now } = management.services;
    const owner = { upstream: 'orders', account: (await accountOf(management)).id };
    const key = { ...owner, kind: 'key' as const, token: 'a key', scopes: [], epoch: 'first' };
    await saveCredential(store, owner, () => ({ ...key, connectedAt: now() }));
    return {
      run: (given) => HANDLERS.endCredential(given, { id: credentialId(owner) }),
      views: { credential_ended: () => findCredential(store, owner) },
    };
  },
  'rotating the signing keys': async (management) => ({
    run: (given) => HANDLERS.rotateKeys(given, { body: { atOnce: true } }),
    views: { signing_key_rotated: () => HANDLERS.listKeys(management, {}) },
  }),
  'approving tools': async (management) => {
    const { store, now } = management.services;
    const [id, digest] = [`server-${newGrantId()}`, 'sha256:1'];
    const seen = { digest, bare: digest, annotations: [], at: now(), isOwn: true, callers: [] };
    const pin = { approved: [], pending: [seen], latest: digest };
    await updatePins(store, id, () => ({ mode: 'hold', since: now(), tools: [['ping', pin]] }));
    const upstream = { id, toolChanges: 'hold' } as Parameters<typeof approveTools>[1];
    return {
      run: (given) => approveTools(given, upstream, { tools: [{ name: 'ping', digest }] }),
      views: { tools_approved: () => findPins(store, id) },
    };
  },
  'changing the settings of the audit log': async (management) => {
    const { services, settings } = management;
    await noteAuditSettings(services, settings);
    const audit = { ...settings.audit, calls: 'recorded' as const };
    const kept = () => services.store.get('audit-settings:last').then((found) => found?.value);
    return {
      run: (given) => noteAuditSettings(given.services, { ...settings, audit }),
      views: { audit_settings_changed: kept },
    };
  },
};

async function tokenOf(management: ManagementContext) {
  const { store, now } = management.services;
  const body = { name: 'Script', level: 'analytics' as const, expiresAt: now() + HOUR };
  const { id } = await HANDLERS.mintToken(management, { body });
  return { id, view: () => store.get(`minted-token:${id}`).then((found) => found?.value) };
}

/** A store that starts a reload and does not say so. Unless `answersAgain`, it does not answer from then on. */
function failingAtReload<S extends Store>(store: S, answersAgain: boolean) {
  let isSilent = false;
  const silence = () => Promise.reject(new StoreUnavailable(new Error('no answer')));
  const failing = new Proxy(store, {
    get(object, name) {
      const member: unknown = Reflect.get(object, name);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]): unknown => {
        if (isSilent) return silence();
        const answer: unknown = Reflect.apply(member, object, given);
        if (name !== 'update' || given[0] !== 'settings-reload:last') return answer;
        isSilent = !answersAgain;
        return Promise.resolve(answer).then(silence);
      };
    },
  });
  return { store: failing, end: () => void (isSilent = false) };
}

const MAX_WRITES = 60;
const PATIENCE_SECONDS = 61;

for (const kind of STORES)
  describe(`The items of changes, on ${kind}`, () => {
    let redis: RedisServer | undefined;
    let opened: Awaited<ReturnType<typeof openManagementServices>>;
    before(async () => {
      redis = kind === 'redis' ? await startRedis() : undefined;
      opened = await openManagementServices(
        redis ? { store: { kind: 'redis', url: redis.url } } : {},
      );
    });
    after(async () => {
      await opened?.close();
      await redis?.stop();
    });

    const lastItem = async () =>
      (await readAuditAfter(opened.services.store, 0, 100_000)).at(-1)?.number ?? 0;
    const itemsAfter = async (number: number) =>
      (await readAuditAfter(opened.services.store, number, 100)).flatMap(({ item }) => item ?? []);

    for (const [what, prepare] of Object.entries(CHANGES))
      it(`LOG-20 ${what} is on record once, at whichever write the process ends`, async () => {
        const { settings, services, clock } = opened;
        const management: ManagementContext = {
          settings,
          services,
          by: 'key:default',
          role: 'administrator',
        };
        for (let writes = 0; ; writes += 1) {
          expect(writes).to.be.below(MAX_WRITES);
          const { run, views } = await prepare(management);
          const before = await valuesOf(views);
          const last = await lastItem();
          const { store, isDead } = dyingStore(services.store, writes);
          const failed = await run({ ...management, services: { ...services, store } }).then(
            () => undefined,
            (error: unknown) => error,
          );
          const after = await valuesOf(views);
          clock.ahead += PATIENCE_SECONDS;
          await recordInterrupted(services);
          const added = await itemsAfter(last);
          for (const event of Object.keys(views)) {
            const items = added.filter((item) => item.event === event);
            const isChanged = JSON.stringify(before[event]) !== JSON.stringify(after[event]);
            const least = isChanged ? 1 : 0;
            expect(items.length, `${event} after ${writes} writes`).to.be.within(least, 1);
            if (!isDead()) expect(items[0]?.outcome).to.be.oneOf(['done', 'grant_ended']);
          }
          if (!isDead()) {
            if (failed !== undefined) throw failed;
            break;
          }
        }
      });

    it('LOG-20 a process that ends while a connection gets a level that is not lower leaves no item', async () => {
      const { settings, services, clock } = opened;
      const management = { settings, services, by: 'key:default', role: 'administrator' } as const;
      const { id } = await connectionOf(management);
      const last = await lastItem();
      const { store } = dyingStore(services.store, 1);
      const limit = { level: 'full', stays: true } as const;
      await narrowConnection(settings, { ...services, store }, id, limit).catch(isGone);
      clock.ahead += PATIENCE_SECONDS;
      await recordInterrupted(services);
      expect(await itemsAfter(last)).to.deep.equal([]);
    });

    for (const [when, answersAgain] of [
      ['and answers again at once', true],
      ['and stays silent', false],
    ] as const)
      it(`LOG-20 a reload that all processes may follow is on record, and says so, if the store did not answer ${when}`, async () => {
        const { settings, services, clock } = opened;
        const last = await lastItem();
        const failing = failingAtReload(services.store, answersAgain);
        const own = { ...services, store: failing.store };
        const reloads = await openReloadsOf(settings, own, { answer: 0 });
        try {
          const refusal = await reloadSettings({ ...own, reloads: () => reloads }, 'key:a').catch(
            (error: unknown) => error,
          );
          expect(refusal).to.be.instanceOf(ReloadRefused);
          expect(String(refusal)).to.include('takes effect in all processes or in none');
        } finally {
          failing.end();
          await reloads.stop();
        }
        clock.ahead += PATIENCE_SECONDS;
        await recordInterrupted(services);
        const items = (await itemsAfter(last)).map(({ event, outcome }) => [event, outcome]);
        expect(items).to.deep.equal([['settings_reloaded', 'interrupted']]);
      });

    it('LOG-20 a change that was refused says why, also if the store fails then', async () => {
      const { services } = opened;
      const { store } = dyingStore(services.store, 1);
      const why = new Error('the level is not in the settings');
      const change = { make: () => Promise.reject(why), itemOf: () => undefined };
      const item = { event: 'settings_reloaded' };
      const changing = recordChange({ ...services, store }, item, change);
      expect(await changing.catch((error: unknown) => error)).to.equal(why);
    });
  });

async function valuesOf(views: Prepared['views']): Promise<Record<string, unknown>> {
  const values: Record<string, unknown> = {};
  for (const [event, view] of Object.entries(views)) values[event] = await view();
  return values;
}
