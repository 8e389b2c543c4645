// The cache of searches by words in the audit log: folded texts of items, which take most of the time to read and decrypt, and names of what they are
// about. It only says where to look, and is never shown: whatever is found is read again.
import type { Store } from '../store/store.ts';
import type { AuditItem } from './audit.ts';
import type { Found } from './audit-search.ts';

/** `detail` also identifies people with the same name: the verified email address. `isKnown`: there is a record of it. */
export type AuditName = { text: string; detail?: string; isKnown: boolean };

/** Returns names in the order of the ids. */
export type FindNames = (ids: readonly string[]) => Promise<readonly (AuditName | undefined)[]>;

export type CachedNames = {
  get(id: string): AuditName | undefined;
  /** Caches what `find` returns, except what changes meanwhile. */
  find(ids: readonly string[], find: FindNames): Promise<readonly (AuditName | undefined)[]>;
};

/** What names are found by, and names in the details of an event. */
export type NamingPart = Pick<
  AuditItem,
  'event' | 'account' | 'by' | 'clientId' | 'connector' | 'arguments'
>;

/**
 * What is searched of an item: what it says itself, folded, and what it names. `names` are the folded names, as long as the cache has heard of so many
 * `changes`.
 */
export type ItemText = {
  text: string;
  naming: NamingPart;
  folded?: { names: readonly string[]; changes: number };
};

/** The channels that carry the ids of what gets another name. */
export type NameChannels = Record<'people' | 'apps' | 'connectors', string>;

export type SearchCache = {
  names: Record<keyof NameChannels, CachedNames>;
  /** Of any name, also of one that is not cached. */
  changes(): number;
  /** `isWhole` is false for readers who see less of an item. */
  texts: {
    get(place: Found, isWhole: boolean): ItemText | undefined;
    set(place: Found, isWhole: boolean, text: ItemText): void;
  };
  close(): void;
};

/** A message about a change can be lost, and nothing that was forgotten stays for longer. */
const KEPT_MS = 300_000;
/** More than the items have that one search reads. */
const MAX_NAMES = 12_000;
const MAX_TEXT_BYTES = 8 * 1024 * 1024;
/** What a text takes besides its characters. Estimated. */
const ENTRY_BYTES = 450;

/** Names that change are dropped when the store says so. */
export async function openSearchCache(
  store: Pick<Store, 'subscribe'>,
  channels: NameChannels,
): Promise<SearchCache> {
  const texts = boundedMap<number, KeptText>(
    MAX_TEXT_BYTES,
    ({ text }) => ENTRY_BYTES + text.text.length,
  );
  const clears = [() => texts.clear()];
  let changes = 0;
  let clearing: NodeJS.Timeout | undefined;
  const clear = () => {
    clearTimeout(clearing);
    clearing = undefined;
    for (const each of clears) each();
  };
  const noteUse = () => {
    clearing ??= setTimeout(clear, KEPT_MS).unref();
  };
  const openNames = async (channel: string): Promise<CachedNames> => {
    const names = boundedMap<string, AuditName>(MAX_NAMES);
    clears.push(() => names.clear());
    /** Of each reading in progress: what changed since it began. */
    const readings = new Set<Set<string>>();
    await store.subscribe(channel, (id) => {
      names.delete(id);
      changes += 1;
      for (const changed of readings) changed.add(id);
    });
    return {
      get: (id) => names.get(id),
      async find(ids, find) {
        const changed = new Set<string>();
        readings.add(changed);
        try {
          const found = await find(ids);
          noteUse();
          for (const [index, id] of ids.entries()) {
            const name = found[index];
            if (name && !changed.has(id)) names.set(id, name);
          }
          return found;
        } finally {
          readings.delete(changed);
        }
      },
    };
  };
  return {
    names: {
      people: await openNames(channels.people),
      apps: await openNames(channels.apps),
      connectors: await openNames(channels.connectors),
    },
    changes: () => changes,
    texts: {
      get(place, isWhole) {
        const kept = texts.get(keyOf(place, isWhole));
        const isSame = kept?.time === place.time && kept.completedBy === place.completedBy;
        return isSame ? kept.text : undefined;
      },
      set(place, isWhole, text) {
        noteUse();
        texts.set(keyOf(place, isWhole), {
          time: place.time,
          completedBy: place.completedBy,
          text,
        });
      },
    },
    close: clear,
  };
}

type KeptText = Pick<Found, 'time' | 'completedBy'> & { text: ItemText };

function keyOf({ number }: Found, isWhole: boolean): number {
  return 2 * number + (isWhole ? 1 : 0);
}

/** Drops what was added first when it has more than `max`. Noting each use, as an LRU cache does, takes longer than the rest of a search. */
function boundedMap<Key, Value>(max: number, sizeOf: (value: Value) => number = () => 1) {
  const values = new Map<Key, Value>();
  let size = 0;
  const remove = (key: Key) => {
    const value = values.get(key);
    if (value !== undefined && values.delete(key)) size -= sizeOf(value);
  };
  return {
    get: (key: Key) => values.get(key),
    delete: remove,
    set(key: Key, value: Value) {
      remove(key);
      values.set(key, value);
      size += sizeOf(value);
      for (const first of values.keys()) {
        if (size <= max) break;
        remove(first);
      }
    },
    clear() {
      values.clear();
      size = 0;
    },
  };
}
