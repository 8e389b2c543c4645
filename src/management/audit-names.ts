// The names of what items of the audit log are about, looked up when the items are read: names change, and the items do not have them.
import { ACCOUNT_ID, verifiedEmailOf } from '../people/account.ts';
import { findAccounts } from '../people/accounts.ts';
import type { AuditItem } from '../audit/audit.ts';
import type {
  AuditName,
  FindNames,
  CachedNames,
  NamingPart,
  SearchCache,
} from '../audit/search-cache.ts';
import { CLIENT_ID, clientKind, findClients } from '../clients/clients.ts';
import { listRules } from '../clients/rules.ts';
import { findConnectors } from '../links/connectors.ts';
import { findMintedToken, mintedSubject } from '../links/minted-tokens.ts';
import type { Settings } from '../settings/settings.ts';
import type { ManagementHost } from './context.ts';

type Names = Map<string, AuditName>;
/** By id. Tokens by their subject, `minted:<id>`. */
export type AuditNames = Record<'people' | 'apps' | 'connectors' | 'tokens', Names>;

const MINTED = mintedSubject('');

type Known = Map<string, AuditName | undefined>;
/** What was looked up before, and what this process keeps of it. */
export type KnownNames = Record<keyof AuditNames, Known> & {
  kept: Partial<SearchCache['names']>;
};

export function knownNames(kept: KnownNames['kept'] = {}): KnownNames {
  return { people: new Map(), apps: new Map(), connectors: new Map(), tokens: new Map(), kept };
}

/** The names of each person, app, connector and token in the items. Apps have the names that they had when the items were recorded. */
export async function findAuditNames(
  management: ManagementHost,
  items: readonly NamingPart[],
  known = knownNames(),
): Promise<AuditNames> {
  const current = await findCurrentNames(management, items, known);
  const { apps, connectors } = recordedNames(items, current.apps);
  return {
    ...current,
    apps: new Map([...current.apps, ...apps]),
    connectors: new Map([...connectors, ...current.connectors]),
  };
}

/** Looks up each person, app, connector and token in the items once. */
export async function findCurrentNames(
  management: ManagementHost,
  items: readonly NamingPart[],
  known = knownNames(),
): Promise<AuditNames> {
  const { settings, services } = management;
  const { store } = services;
  const { kept } = known;
  const clients = items.map(({ clientId }) => clientId);
  const findApps: FindNames = async (ids) => {
    const found = await findClients(store, ids, settings.clients, await listRules(store));
    return found.map((client) => client && { text: client.name ?? client.id, isKnown: true });
  };
  const mayKeep: string[] = [];
  const others: string[] = [];
  for (const id of new Set(clients)) {
    if (isClient(id)) (isAnnounced(id, settings) ? mayKeep : others).push(id);
  }
  const [people, registered, listed, connectors, tokens] = await Promise.all([
    findPeople(management, items, known),
    lookUp(known.apps, mayKeep, findApps, kept.apps),
    lookUp(known.apps, others, findApps),
    lookUp(
      known.connectors,
      items.map(({ connector }) => connector),
      async (ids) => {
        const found = await findConnectors(store, ids);
        return found.map((connector) => connector && { text: connector.name, isKnown: true });
      },
      kept.connectors,
    ),
    lookUp(known.tokens, clients.filter(isMinted), (ids) =>
      Promise.all(
        ids.map(async (subject) => {
          const token = await findMintedToken(store, subject.slice(MINTED.length));
          return token && { text: token.name, isKnown: true };
        }),
      ),
    ),
  ]);
  return { people, apps: new Map([...registered, ...listed]), connectors, tokens };
}

/** Settings, metadata documents and tokens change their names without a message. */
export function isAnnounced(clientId: string, { clients }: Pick<Settings, 'clients'>): boolean {
  return CLIENT_ID.test(clientId) && clientKind(clientId, clients) === 'self-registered';
}

/** Looks up each person in the items once. */
export function findPeople(
  { services: { store } }: ManagementHost,
  items: readonly NamingPart[],
  known = knownNames(),
): Promise<Names> {
  const subjects: string[] = [];
  for (const { account, by } of items) {
    if (isAccount(account)) subjects.push(account);
    const manager = by && accountIdIn(by);
    if (isAccount(manager)) subjects.push(manager);
  }
  const find: FindNames = async (ids) => {
    const accounts = await findAccounts(store, ids);
    return ids.map((id) => {
      const account = accounts.get(id);
      if (!account || account.forgottenAt !== undefined) return undefined;
      const email = verifiedEmailOf(account);
      const text = account.name || (email ?? id);
      return { text, detail: email ?? text, isKnown: true };
    });
  };
  return lookUp(known.people, subjects, find, known.kept.people);
}

/** The names of what one item is about. */
export type ItemNames = Partial<Record<'account' | 'client' | 'connector' | 'by', string>>;

export function namesOf(item: AuditItem, found: AuditNames): ItemNames {
  const { account = '', by = '', clientId = '', connector = '' } = item;
  const names = {
    account: found.people.get(account),
    client: found.apps.get(clientId) ?? found.tokens.get(clientId),
    connector: found.connectors.get(connector),
    by: found.people.get(accountIdIn(by)),
  };
  const known = Object.entries(names).flatMap(([name, value]) =>
    value ? [[name, value.text]] : [],
  );
  return Object.fromEntries(known);
}

/** Every name by the id in items. */
export function namesById({ people, apps, connectors, tokens }: AuditNames): [string, string][] {
  return [people, apps, connectors, tokens].flatMap((names) =>
    [...names].map(([id, { text }]): [string, string] => [id, text]),
  );
}

const MAX_KNOWN = 10_000;

async function lookUp(
  known: Known,
  ids: Iterable<string | undefined>,
  find: FindNames,
  kept?: CachedNames,
): Promise<Names> {
  if (known.size > MAX_KNOWN) known.clear();
  const names: Names = new Map();
  const unknown: string[] = [];
  for (const id of new Set(ids)) {
    if (!id) continue;
    const name = known.get(id) ?? kept?.get(id);
    if (name) names.set(id, name);
    else if (!known.has(id)) unknown.push(id);
  }
  if (unknown.length === 0) return names;
  const found = await (kept ? kept.find(unknown, find) : find(unknown));
  for (const [index, id] of unknown.entries()) {
    const name = found[index];
    known.set(id, name);
    if (name) names.set(id, name);
  }
  return names;
}

type Details = Partial<
  Record<'level' | 'name' | 'client' | 'host' | 'effect' | 'target' | 'read' | 'change', string>
>;

/** The arguments that names and sentences use. Those of a call are what an app sent. */
export function detailsOf({
  event,
  arguments: given,
}: Pick<AuditItem, 'event' | 'arguments'>): Details {
  if (event === 'call' || typeof given !== 'object' || given === null) return {};
  return Object.fromEntries(Object.entries(given).filter(([, value]) => typeof value === 'string'));
}

/**
 * The names that apps had when the items were recorded, and those of connectors, which a deleted connector keeps in the items about it. `apps` are those
 * that have a record.
 */
export function recordedNames(
  items: readonly NamingPart[],
  apps: Pick<Names, 'has'>,
): Pick<AuditNames, 'apps' | 'connectors'> {
  const recorded = { apps: new Map<string, AuditName>(), connectors: new Map<string, AuditName>() };
  for (const item of items) {
    const { clientId, connector } = item;
    const { client, name } = detailsOf(item);
    const text = client ?? name;
    if (clientId !== undefined && text !== undefined && !isMinted(clientId))
      recorded.apps.set(clientId, { text, isKnown: apps.has(clientId) });
    if (connector !== undefined && name !== undefined && item.event.startsWith('connector_'))
      recorded.connectors.set(connector, { text: name, isKnown: false });
  }
  return recorded;
}

/** What `findAuditNames` needs of an item. */
export function namingPart(item: AuditItem): NamingPart {
  const { event, account, by, clientId, connector } = item;
  const { client, name } = detailsOf(item);
  const hasName = client !== undefined || name !== undefined;
  return {
    event,
    ...(account === undefined ? {} : { account }),
    ...(by === undefined ? {} : { by }),
    ...(clientId === undefined ? {} : { clientId }),
    ...(connector === undefined ? {} : { connector }),
    ...(hasName ? { arguments: { client, name } } : {}),
  };
}

const ACCOUNT = 'account:';

/** Earlier items have the id alone in `by`. */
export function accountIdIn(by: string): string {
  return by.startsWith(ACCOUNT) ? by.slice(ACCOUNT.length) : by;
}

export function isAccount(id: string | undefined): id is string {
  return id !== undefined && ACCOUNT_ID.test(id);
}

function isMinted(id: string | undefined): id is string {
  return id?.startsWith(MINTED) ?? false;
}

function isClient(id: string | undefined): id is string {
  return id !== undefined && !isMinted(id);
}
