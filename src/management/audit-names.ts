// The names of what items of the audit log are about, looked up when the items are read: names change, and the items do not have them.
import { ACCOUNT_ID, verifiedEmailOf } from '../people/account.ts';
import { findAccounts } from '../people/accounts.ts';
import type { AuditItem } from '../audit/audit.ts';
import { findClients } from '../clients/clients.ts';
import { listRules } from '../clients/rules.ts';
import { findConnectors } from '../links/connectors.ts';
import { findMintedToken, mintedSubject } from '../links/minted-tokens.ts';
import type { ManagementHost } from './context.ts';

/** `detail` also identifies people with the same name: the verified email address. `isKnown`: there is a record of it. */
export type AuditName = { text: string; detail?: string; isKnown: boolean };
type Names = Map<string, AuditName>;
/** By id. Tokens by their subject, `minted:<id>`. */
export type AuditNames = Record<'people' | 'apps' | 'connectors' | 'tokens', Names>;

const MINTED = mintedSubject('');

type Known = Map<string, AuditName | undefined>;
/** What was looked up before. */
export type KnownNames = Record<keyof AuditNames, Known>;

export function knownNames(): KnownNames {
  return { people: new Map(), apps: new Map(), connectors: new Map(), tokens: new Map() };
}

/** Looks up each person, app, connector and token in the items once. */
export async function findAuditNames(
  { settings, services: { store } }: ManagementHost,
  items: readonly AuditItem[],
  known = knownNames(),
): Promise<AuditNames> {
  const subjects = items.flatMap(({ account, by }) => [account, by && accountIdIn(by)]);
  const clients = items.map(({ clientId }) => clientId);
  const [people, apps, connectors, tokens] = await Promise.all([
    lookUp(known.people, subjects.filter(isAccount), async (ids) => {
      const accounts = await findAccounts(store, ids);
      return ids.map((id) => {
        const account = accounts.get(id);
        if (!account || account.forgottenAt !== undefined) return undefined;
        const email = verifiedEmailOf(account);
        const text = account.name || (email ?? id);
        return { text, detail: email ?? text, isKnown: true };
      });
    }),
    lookUp(known.apps, clients.filter(isClient), async (ids) => {
      const found = await findClients(store, ids, settings.clients, await listRules(store));
      return found.map((client) => client && { text: client.name ?? client.id, isKnown: true });
    }),
    lookUp(
      known.connectors,
      items.map(({ connector }) => connector),
      async (ids) => {
        const found = await findConnectors(store, ids);
        return found.map((connector) => connector && { text: connector.name, isKnown: true });
      },
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
  return {
    people,
    apps: withRecordedApps(apps, items),
    connectors: withRecorded(connectors, items),
    tokens,
  };
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

/** `find` returns names in the order of the ids. */
async function lookUp(
  known: Known,
  ids: readonly (string | undefined)[],
  find: (ids: readonly string[]) => Promise<readonly (AuditName | undefined)[]>,
): Promise<Names> {
  if (known.size > MAX_KNOWN) known.clear();
  const wanted = [...new Set(ids.flatMap((id) => (id ? [id] : [])))];
  const unknown = wanted.filter((id) => !known.has(id));
  const found = unknown.length === 0 ? [] : await find(unknown);
  for (const [index, id] of unknown.entries()) known.set(id, found[index]);
  return new Map(
    wanted.flatMap((id) => {
      const name = known.get(id);
      return name ? [[id, name] as const] : [];
    }),
  );
}

type Details = Partial<
  Record<'level' | 'name' | 'client' | 'host' | 'effect' | 'target' | 'read' | 'change', string>
>;

/** The arguments that names and sentences use. Those of a call are what an app sent. */
export function detailsOf({ event, arguments: given }: AuditItem): Details {
  if (event === 'call' || typeof given !== 'object' || given === null) return {};
  return Object.fromEntries(Object.entries(given).filter(([, value]) => typeof value === 'string'));
}

/** The names that apps had when the items were recorded. */
function withRecordedApps(apps: Names, items: readonly AuditItem[]): Names {
  const named = new Map(apps);
  for (const item of items) {
    const { client, name } = detailsOf(item);
    const text = client ?? name;
    if (item.clientId !== undefined && text !== undefined && !item.clientId.startsWith(MINTED))
      named.set(item.clientId, { text, isKnown: apps.has(item.clientId) });
  }
  return named;
}

/** A deleted connector keeps its name in the items about it. */
function withRecorded(connectors: Names, items: readonly AuditItem[]): Names {
  const recorded = items.flatMap((item): [string, AuditName][] => {
    const { name } = detailsOf(item);
    const isAbout = item.connector !== undefined && item.event.startsWith('connector_');
    return isAbout && name !== undefined
      ? [[item.connector ?? '', { text: name, isKnown: false }]]
      : [];
  });
  return new Map([...recorded, ...connectors]);
}

/** Earlier items have the id alone in `by`. */
export function accountIdIn(by: string): string {
  return by.replace(/^account:/, '');
}

export function isAccount(id: string | undefined): id is string {
  return id !== undefined && ACCOUNT_ID.test(id);
}

function isMinted(id: string | undefined): id is string {
  return id?.startsWith(MINTED) ?? false;
}

function isClient(id: string | undefined): boolean {
  return id !== undefined && !isMinted(id);
}
