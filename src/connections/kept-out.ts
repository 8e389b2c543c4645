// Apps that an administrator keeps away from one person, by the connection that was ended with it.
import type { AuditServices } from '../audit/audit.ts';
import { type ChangeItem, recordChange } from '../audit/recorded-change.ts';
import { findClient } from '../clients/clients.ts';
import { type App, comparableName, destinationsOf } from '../clients/rules.ts';
import { KEEP, type Store } from '../store/store.ts';
import type { Settings } from '../settings/settings.ts';
import type { Connection } from './connection.ts';
import { type ConnectionSettings, endConnection, listConnections } from './connections.ts';

/** `id` of the connection, `since` in seconds since the epoch, `by` as in the audit log. */
export type KeptOut = {
  id: string;
  account: string;
  clientId: string;
  name: string;
  /** Hosts of redirect URIs, as `destinationsOf` has them. */
  destinations: readonly string[];
  since: number;
  by?: string | undefined;
};

const keptOutKey = (id: string) => `kept-out:${id}`;
const ofAccountKey = (account: string) => `kept-out-of:${account}`;
const CONNECTION_ID = /^[\w-]{16,64}$/;

/** What is kept out if an administrator keeps the app of this connection out now. */
export async function keptOutBy(
  { clients }: Pick<Settings, 'clients'>,
  { store, now }: Pick<AuditServices, 'store' | 'now'>,
  { id, account, client }: Connection,
  by: string,
): Promise<KeptOut> {
  const known = await findClient(store, client.id, clients);
  const destinations = new Set([
    ...destinationsOf(appOf(client)),
    ...(known ? destinationsOf(known) : []),
  ]);
  return {
    id,
    account: account.id,
    clientId: client.id,
    name: client.name,
    destinations: [...destinations].sort(),
    since: Math.floor(now()),
    by,
  };
}

/** Refuses the app to the person from now on, then ends what it has. Records both. May be repeated. */
export async function keepOut(
  settings: ConnectionSettings,
  services: AuditServices,
  app: KeptOut,
): Promise<void> {
  const { store } = services;
  const { account, by } = app;
  const item = itemOf('kept_out', app, by);
  await recordChange(services, item, {
    make: () => storeKeptOut(store, app),
    itemOf: (isNew) => (isNew ? item : undefined),
  });
  for await (const { item: connection } of listConnections(settings, services, { account }))
    if (isSameApp(app, { ...appOf(connection.client), id: connection.client.id }))
      await endConnection(services, connection, 'revoked_by_administrator', by);
}

/** True for the one call that stored it. It is listed first, so that none is missing in the list. */
async function storeKeptOut(store: Store, app: KeptOut): Promise<boolean> {
  await store.addMember(ofAccountKey(app.account), app.id, Infinity);
  let isNew = false;
  await store.update<KeptOut>(keptOutKey(app.id), (current) => {
    isNew = current === undefined;
    return isNew ? { value: app, ttl: Infinity } : KEEP;
  });
  await store.replicated(keptOutKey(app.id));
  return isNew;
}

export async function findKeptOut(store: Store, id: string): Promise<KeptOut | undefined> {
  return CONNECTION_ID.test(id) ? (await store.get<KeptOut>(keptOutKey(id)))?.value : undefined;
}

/** The oldest first. */
export async function listKeptOut(store: Store, account: string): Promise<KeptOut[]> {
  const ids = await store.members(ofAccountKey(account));
  const found = await Promise.all(ids.map((id) => findKeptOut(store, id)));
  return found
    .filter((each) => each !== undefined)
    .toSorted((one, other) => one.since - other.since);
}

/** Ends that the app is kept out, by whichever connections it is. */
export async function endKeptOut(services: AuditServices, app: KeptOut, by: string): Promise<void> {
  const { store } = services;
  for (const each of await listKeptOut(store, app.account)) {
    if (!isSameApp(each, { ...app, id: app.clientId })) continue;
    const item = itemOf('kept_out_ended', each, by);
    await recordChange(services, item, {
      async make() {
        const ended = await store.take<KeptOut>(keptOutKey(each.id));
        await store.removeMember(ofAccountKey(app.account), each.id);
        return ended;
      },
      itemOf: (ended) => ended && item,
    });
  }
}

function itemOf(
  event: 'kept_out' | 'kept_out_ended',
  { id, account, clientId, name, destinations }: KeptOut,
  by: string | undefined,
): ChangeItem {
  return { event, account, clientId, grantId: id, by, arguments: { name, destinations } };
}

type Asking = { id: string; name?: string } & (
  Pick<KeptOut, 'destinations'> | Pick<App, 'redirectUris' | 'usesDevice'>
);

export async function isKeptOut(store: Store, account: string, app: Asking): Promise<boolean> {
  return (await listKeptOut(store, account)).some((each) => isSameApp(each, app));
}

/** One redirect host in common is enough: an app would otherwise register another one beside it. */
function isSameApp({ clientId, name, destinations }: KeptOut, app: Asking): boolean {
  if (app.id === clientId) return true;
  if (comparableName(app.name ?? app.id) !== comparableName(name)) return false;
  const asked = 'destinations' in app ? app.destinations : destinationsOf(app);
  return asked.some((destination) => destinations.includes(destination));
}

/** What a connection knows of its app. Its redirect host is a host or a scheme, and empty for a device. */
function appOf({ name, redirectHost }: Connection['client']): App {
  if (redirectHost === '') return { name, redirectUris: [], usesDevice: true };
  const isScheme = !/[.:]/.test(redirectHost) && redirectHost !== 'localhost';
  return { name, redirectUris: [isScheme ? `${redirectHost}:/` : `https://${redirectHost}/`] };
}
