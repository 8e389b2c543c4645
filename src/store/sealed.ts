// The store's promises, made once for every database: ids hidden, values sealed, compare-and-set retried, one kind of failure.
import type { ByteStore, Piece } from './byte-store.ts';
import { openPatience, type Reach } from './patience.ts';
import type { Sealer } from './seal.ts';
import {
  type Change,
  type Entry,
  type Found,
  KEEP,
  type Range,
  type Store,
  StoreUnavailable,
} from './store.ts';

// Of writers racing for one key at least one wins every round, so this many may race.
const ATTEMPTS = 200;
// For all rounds together.
const DEADLINE_MS = 1200;
const REPLICATED_MS = 300;
const ENTRY_ID = /^\d{32}$/;

export function sealedStore(bytes: ByteStore, sealer: Sealer): Store {
  const reach = openPatience();
  return {
    ...values(bytes, sealer, reach),
    ...sets(bytes, sealer, reach),
    ...streams(bytes, sealer, reach),
    ...channels(bytes, sealer, reach),
    delete: (key) => reach(bytes.delete(sealer.name(key))),
    async replicated(key) {
      const waiting = bytes.replicated?.(sealer.name(key), REPLICATED_MS);
      if (waiting) await reach(waiting, REPLICATED_MS).catch(() => undefined);
    },
    ping: () => reach(bytes.ping()),
    close: () => bytes.close(),
  };
}

function lifetime(ttl: number): number {
  if (Number.isNaN(ttl) || typeof ttl !== 'number') {
    throw new TypeError('a lifetime is a number of seconds');
  }
  return Math.max(ttl, 0.001);
}

type Values = Pick<Store, 'get' | 'set' | 'add' | 'take' | 'update'>;

function values(bytes: ByteStore, sealer: Sealer, reach: Reach): Values {
  return {
    async get<T>(key: string) {
      const name = sealer.name(key);
      return open<T>(sealer, name, await reach(bytes.get(name)));
    },
    async set(key, value, ttl) {
      const name = sealer.name(key);
      await reach(bytes.set(name, sealer.seal(name, value), lifetime(ttl)));
    },
    async add(key, value, ttl) {
      const name = sealer.name(key);
      const sealed = sealer.seal(name, value);
      return (await reach(bytes.exchange(name, undefined, sealed, lifetime(ttl)))) === true;
    },
    async take<T>(key: string) {
      const name = sealer.name(key);
      return open<T>(sealer, name, await reach(bytes.take(name)))?.value;
    },
    async update<T>(key: string, change: Change<T>, seen?: Found<T>) {
      const name = sealer.name(key);
      return update({ bytes, sealer, reach }, name, change, seen);
    },
  };
}

function open<T>(sealer: Sealer, place: string, raw: Buffer | undefined): Found<T> | undefined {
  const value = raw && sealer.open<T>(place, raw);
  return raw && value !== undefined ? { value, raw } : undefined;
}

/** Overwriting what a process cannot read would destroy it, for instance when that process lacks a key of the ring. */
function openOrRefuse<T>(sealer: Sealer, place: string, raw: Buffer | undefined) {
  const found = open<T>(sealer, place, raw);
  if (raw && !found)
    throw new Error('a stored value cannot be opened with the keys of this process');
  return found;
}

type Parts = { bytes: ByteStore; sealer: Sealer; reach: Reach };

async function update<T>(
  { bytes, sealer, reach }: Parts,
  name: string,
  change: Change<T>,
  seen: Found<T> | undefined,
): Promise<Found<T> | undefined> {
  const end = performance.now() + DEADLINE_MS;
  const inTime = <R>(command: Promise<R>) => reach(command, end - performance.now());
  let found = seen ?? openOrRefuse<T>(sealer, name, await inTime(bytes.get(name)));
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const next = change(found?.value);
    if (next === KEEP || (!next && !found)) return found;
    const after = next && { value: next.value, raw: sealer.seal(name, next.value) };
    const ttl = next ? lifetime(next.ttl) : 0;
    const there = await inTime(bytes.exchange(name, found?.raw, after?.raw, ttl));
    if (there === true) return after;
    found = openOrRefuse<T>(sealer, name, there);
  }
  throw new StoreUnavailable(new Error('too many writers on one key'));
}

/** What a member of a set is sealed for. */
export function memberPlace(name: string, field: string): string {
  return `${name} ${field}`;
}

type Sets = Pick<Store, 'addMember' | 'removeMember' | 'members'>;

function sets(bytes: ByteStore, sealer: Sealer, reach: Reach): Sets {
  return {
    async addMember(key, member, ttl) {
      const name = sealer.name(key);
      const field = sealer.field(name, member);
      const sealed = sealer.seal(memberPlace(name, field), member);
      await reach(bytes.addMember(name, field, sealed, lifetime(ttl)));
    },
    async removeMember(key, member) {
      const name = sealer.name(key);
      await reach(bytes.removeMember(name, sealer.field(name, member)));
    },
    async members(key) {
      const name = sealer.name(key);
      const found = new Map<string, string | undefined>();
      const add: AddMember = (field, sealed) =>
        found.set(field, found.get(field) ?? sealer.open(memberPlace(name, field), sealed));
      const total = await readMembers(bytes, reach, name, add);
      // A server that took over has other pieces. Where members were only removed meanwhile, this reads once more for nothing.
      if (found.size < total) await readMembers(bytes, reach, name, add);
      return [...found.values()].filter((member) => member !== undefined);
    },
  };
}

type AddMember = (field: string, sealed: Buffer) => unknown;

/** Piece by piece. Resolves to how many there were at first, where that is known. */
async function readMembers(
  bytes: ByteStore,
  reach: Reach,
  name: string,
  add: AddMember,
): Promise<number> {
  let total = 0;
  for (let from: string | undefined = ''; from !== undefined;) {
    const piece: Piece = await reach(bytes.members(name, from));
    for (const [field, sealed] of piece.members) add(field, sealed);
    total = piece.total ?? total;
    from = piece.next;
  }
  return total;
}

type Streams = Pick<Store, 'append' | 'range'>;

function streams(bytes: ByteStore, sealer: Sealer, reach: Reach): Streams {
  return {
    async append(key, value, ttl) {
      const name = sealer.name(key);
      await reach(bytes.append(name, sealer.seal(name, value), lifetime(ttl)));
    },
    async range<T>(key: string, range: Range) {
      if (range.after !== undefined && !ENTRY_ID.test(range.after)) {
        throw new RangeError('`after` is not the id of an entry');
      }
      const name = sealer.name(key);
      const entries = await reach(bytes.range(name, range));
      return entries.map(([id, sealed]): Entry<T> => ({ id, value: sealer.open<T>(name, sealed) }));
    },
  };
}

type Channels = Pick<Store, 'publish' | 'subscribe'>;

function channels(bytes: ByteStore, sealer: Sealer, reach: Reach): Channels {
  const nameOf = (channel: string) => sealer.name(`channel:${channel}`);
  return {
    async publish(channel, message) {
      const name = nameOf(channel);
      await reach(bytes.publish(name, sealer.seal(name, message)));
    },
    async subscribe(channel, listener) {
      const name = nameOf(channel);
      await reach(
        bytes.subscribe(name, (sealed) => {
          const message = sealer.open<string>(name, sealed);
          if (message !== undefined) listener(message);
        }),
      );
    },
  };
}
