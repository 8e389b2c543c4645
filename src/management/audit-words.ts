// Search by words in the audit log: in the newest items that match the other filters, and in the names of what they are about.
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { AuditItem } from '../audit/audit.ts';
import type { AuditName, ItemText, NamingPart } from '../audit/search-cache.ts';
import {
  type AuditFilters,
  type AuditFound,
  cursorOf,
  type Found,
  matchingEarlier,
  matchingRows,
  MAX_ROWS_READ,
  readRows,
} from '../audit/audit-search.ts';
import { includesRole } from '../settings/management-roles.ts';
import { AUDITOR, readableBy } from './audit-readable.ts';
import {
  accountIdIn,
  type AuditNames,
  findAuditNames,
  findCurrentNames,
  findPeople,
  isAnnounced,
  type KnownNames,
  knownNames,
  namingPart,
  recordedNames,
} from './audit-names.ts';
import type { ManagementContext } from './context.ts';
import { foldAll, wordsIn } from './search.ts';

/** `searched`: how many of the newest items were searched for the words. */
export type WordsFound = AuditFound & { names: AuditNames; searched: number };

type Search = { q: string; filters: AuditFilters; limit: number; after?: string | undefined };

/** In items that match the other filters. */
const MAX_SEARCHED = 10_000;
const SEARCHED_AT_A_TIME = 100;

/** An item, or without `text` how far the log was read. What has no row has a cursor; `item` is that of an earlier version. */
type Step = {
  cursor?: string;
  cost: number;
  isUnreadable?: boolean | undefined;
  text?: ItemText | undefined;
  row?: Found;
  item?: AuditItem | undefined;
};

/** Begins with the newest item for later pages too, so that all of them search the same items. */
export async function searchWords(
  management: ManagementContext,
  { q, filters, limit, after }: Search,
): Promise<WordsFound> {
  const words = wordsIn(q);
  const items: AuditItem[] = [];
  const names = searchedNames(management);
  let [searched, cost, last]: [number, number, Step | undefined] = [0, 0, undefined];
  let unreadable = 0;
  const page = async (next?: string): Promise<WordsFound> => ({
    items,
    ...(next ? { next } : {}),
    searched,
    ...(unreadable > 0 ? { unreadable } : {}),
    names: await findAuditNames(management, items),
  });
  const isBehind = (step: Step) => after === undefined || cursorOfStep(step) < after;
  for await (const batch of batchesOf(management, filters)) {
    const foldedNames = await names.of(batch);
    const hits = batch.filter(
      (step) => isBehind(step) && step.text && hasWords(words, step.text, foldedNames),
    );
    const found = await readAgain(management, { batch, hits, filters, words, known: names.known });
    for (const step of batch) {
      if (items.length === limit || cost >= MAX_ROWS_READ) return page(last && cursorOfStep(last));
      if (step.isUnreadable && isBehind(step)) unreadable += 1;
      last = step;
      cost += step.text || !isBehind(step) ? 0 : step.cost;
      if (!step.text) continue;
      const item = found.get(step);
      if (item) items.push(item);
      searched += 1;
      if (searched === MAX_SEARCHED) return page();
    }
  }
  return page();
}

function cursorOfStep({ cursor, row }: Step): string {
  return cursor ?? cursorOf(row?.number ?? 0);
}

async function* batchesOf(
  management: ManagementContext,
  filters: AuditFilters,
): AsyncGenerator<Step[]> {
  const { role, services } = management;
  for await (const { found, cursor, rows } of matchingRows(services, filters)) {
    for (let from = 0; from < found.length; from += SEARCHED_AT_A_TIME) {
      yield await textsOf(management, found.slice(from, from + SEARCHED_AT_A_TIME), filters);
      // Folding texts takes time, and SQLite answers at once.
      await nextTurn();
    }
    if (rows > 0) yield [{ cursor, cost: rows }];
  }
  let batch: Step[] = [];
  for await (const { item, ...place } of matchingEarlier(services, filters)) {
    const readable = item && readableBy(role, item);
    batch.push({ ...place, item: readable, text: readable && textOf(readable) });
    if (batch.length < SEARCHED_AT_A_TIME) continue;
    yield batch;
    batch = [];
    await nextTurn();
  }
  yield batch;
}

/** In the order of the rows. */
async function textsOf(
  { role, services }: ManagementContext,
  rows: readonly Found[],
  filters: AuditFilters,
): Promise<Step[]> {
  const kept = services.searchCache?.texts;
  const isWhole = includesRole(role, AUDITOR);
  // Whether items of the first and the last second match is in the items only.
  const { since = -Infinity, until = Infinity } = filters;
  const known = rows.map((row) =>
    row.time > since && row.time + 1 <= until ? kept?.get(row, isWhole) : undefined,
  );
  const unknown = rows.filter((_, index) => !known[index]);
  const read = unknown.length === 0 ? [] : await readRows(services, unknown, filters);
  const steps = new Map(
    read.map(({ item, ...place }, index) => {
      const row = unknown[index];
      const text = item && textOf(readableBy(role, item));
      if (row && text) kept?.set(row, isWhole, text);
      return [row, { ...place, ...(row ? { row } : {}), text }];
    }),
  );
  return rows.flatMap((row, index): Step | [] => {
    const text = known[index];
    return text ? { cost: 0, row, text } : (steps.get(row) ?? []);
  });
}

type Hits = {
  batch: readonly Step[];
  hits: readonly Step[];
  filters: AuditFilters;
  words: readonly string[];
  known: KnownNames;
};

/** The items that have the words now: since their texts and the names of people were kept, these may have been forgotten. */
async function readAgain(
  management: ManagementContext,
  { batch, hits, filters, words, known }: Hits,
): Promise<Map<Step, AuditItem>> {
  if (hits.length === 0) return new Map();
  const { role, services } = management;
  const steps = [...new Set([...hits, ...namingAppsOf(hits, batch)])];
  const rows = steps.flatMap(({ row }) => row ?? []);
  const read = rows.length === 0 ? [] : await readRows(services, rows, filters);
  const stored = new Map(rows.map((row, index) => [row, read[index]?.item]));
  const items = new Map(
    steps.flatMap((step): [Step, AuditItem][] => {
      const item = step.row ? stored.get(step.row) : step.item;
      return item ? [[step, readableBy(role, item)]] : [];
    }),
  );
  const all = [...items.values()];
  const [names, people] = await Promise.all([
    findAuditNames(management, all, known),
    findPeople(management, all),
  ]);
  const foldedNames = foldedNamesIn({ ...names, people });
  return new Map(
    hits.flatMap((step): [Step, AuditItem][] => {
      const item = items.get(step);
      return item && hasWords(words, textOf(item), foldedNames) ? [[step, item]] : [];
    }),
  );
}

/** The items that recorded names of the same apps and connectors. */
function namingAppsOf(hits: readonly Step[], batch: readonly Step[]): Step[] {
  const ids = new Set(hits.flatMap(({ text }) => idsIn(text)));
  return batch.filter(
    ({ text }) => text?.naming.arguments && idsIn(text).some((id) => ids.has(id)),
  );
}

function idsIn(text: ItemText | undefined): string[] {
  const { clientId = [], connector = [] } = text?.naming ?? {};
  return [clientId, connector].flat();
}

function textOf(item: AuditItem): ItemText {
  const { arguments: given, ...others } = item;
  const text = foldAll([
    ...Object.values(others).map((value) => (typeof value === 'string' ? value : undefined)),
    given === undefined ? undefined : JSON.stringify(given),
  ]);
  return { text, naming: namingPart(item) };
}

/** Folded. */
type NamesOf = (text: ItemText) => readonly (string | undefined)[];

/** Whether each word is in what the item says itself, or in a name. */
function hasWords(words: readonly string[], text: ItemText, namesOf: NamesOf): boolean {
  const others = words.filter((word) => !text.text.includes(word));
  if (others.length === 0) return true;
  const names = namesOf(text);
  return others.every((word) => names.some((name) => name?.includes(word)));
}

/** The kinds and ids of what an item names. */
function namedIn({ account, by, clientId, connector }: NamingPart): [keyof AuditNames, string][] {
  const named: [keyof AuditNames, string][] = [];
  if (account) named.push(['people', account]);
  if (by) named.push(['people', accountIdIn(by)]);
  if (clientId) named.push(['apps', clientId], ['tokens', clientId]);
  if (connector) named.push(['connectors', connector]);
  return named;
}

function foldedNamesIn(names: AuditNames): NamesOf {
  return ({ naming }) =>
    namedIn(naming).map(([kind, id]) => {
      const name = names[kind].get(id);
      return name && foldedName(name);
    });
}

const folded = new WeakMap<AuditName, string>();

function foldedName(name: AuditName): string {
  const known = folded.get(name);
  if (known !== undefined) return known;
  const text = foldAll([name.text, name.detail]);
  folded.set(name, text);
  return text;
}

/** The names in the items of a search. Each is looked up and folded once, and kept with the texts. */
function searchedNames(management: ManagementContext) {
  const { settings, services } = management;
  const cache = services.searchCache;
  const changes = cache?.changes();
  const known = knownNames(cache?.names);
  const open = () => new Map<string, string>();
  /** Folded, and empty where there is no name. */
  const found = { people: open(), apps: open(), connectors: open(), tokens: open() };
  const find = async (naming: readonly NamingPart[]) => {
    const unknown = naming.filter((each) =>
      namedIn(each).some(([kind, id]) => !found[kind].has(id)),
    );
    if (unknown.length === 0) return;
    const names = await findCurrentNames(management, unknown, known);
    for (const [kind, id] of unknown.flatMap(namedIn)) {
      const name = names[kind].get(id);
      found[kind].set(id, name ? foldedName(name) : '');
    }
  };
  const keptNames = ({ folded }: ItemText) =>
    folded?.changes === changes ? folded?.names : undefined;
  const currentNames = (text: ItemText): readonly string[] => {
    const kept = keptNames(text);
    if (kept) return kept;
    const names = namedIn(text.naming).flatMap(([kind, id]) => found[kind].get(id) || []);
    const { clientId } = text.naming;
    if (changes !== undefined && (clientId === undefined || isAnnounced(clientId, settings)))
      text.folded = { names, changes };
    return names;
  };
  return {
    known,
    async of(batch: readonly Step[]): Promise<NamesOf> {
      const texts = batch.flatMap(({ text }) => text ?? []);
      await find(texts.flatMap((text) => (keptNames(text) ? [] : text.naming)));
      const naming = texts.flatMap((text) => (text.naming.arguments ? text.naming : []));
      if (naming.length === 0) return currentNames;
      const { apps, connectors } = recordedNames(naming, found.apps);
      return (text) => {
        const { clientId = '', connector = '' } = text.naming;
        const recorded = [apps.get(clientId), connectors.get(connector)];
        return [...currentNames(text), ...recorded.map((name) => name && foldedName(name))];
      };
    },
  };
}
