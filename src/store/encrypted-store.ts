// The store's promises, made once for every database: ids hidden, values encrypted, compare-and-set retried, one kind of failure.
import type { ByteStore, MemberPage } from './byte-store.ts';
import { createTimeout, type WithTimeout } from './timeout.ts';
import type { Encryption } from './encryption.ts';
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
const UPDATE_TIMEOUT_MS = 1200;
const REPLICATED_MS = 300;
const ENTRY_ID = /^\d{32}$/;

export function encryptedStore(bytes: ByteStore, encryption: Encryption): Store {
  const withTimeout = createTimeout();
  return {
    ...values(bytes, encryption, withTimeout),
    ...sets(bytes, encryption, withTimeout),
    ...streams(bytes, encryption, withTimeout),
    ...channels(bytes, encryption, withTimeout),
    delete: (key) => withTimeout(bytes.delete(encryption.name(key))),
    async replicated(key) {
      const waiting = bytes.replicated?.(encryption.name(key), REPLICATED_MS);
      if (waiting) await withTimeout(waiting, REPLICATED_MS).catch(() => undefined);
    },
    ping: () => withTimeout(bytes.ping()),
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

function values(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Values {
  return {
    async get<T>(key: string) {
      const name = encryption.name(key);
      return open<T>(encryption, name, await withTimeout(bytes.get(name)));
    },
    async set(key, value, ttl) {
      const name = encryption.name(key);
      await withTimeout(bytes.set(name, encryption.encrypt(name, value), lifetime(ttl)));
    },
    async add(key, value, ttl) {
      const name = encryption.name(key);
      const encrypted = encryption.encrypt(name, value);
      return (
        (await withTimeout(bytes.compareAndSwap(name, undefined, encrypted, lifetime(ttl)))) ===
        true
      );
    },
    async take<T>(key: string) {
      const name = encryption.name(key);
      return open<T>(encryption, name, await withTimeout(bytes.getAndDelete(name)))?.value;
    },
    async update<T>(key: string, change: Change<T>, seen?: Found<T>) {
      const name = encryption.name(key);
      return update({ bytes, encryption, withTimeout }, name, change, seen);
    },
  };
}

function open<T>(
  encryption: Encryption,
  place: string,
  raw: Buffer | undefined,
): Found<T> | undefined {
  const value = raw && encryption.decrypt<T>(place, raw);
  return raw && value !== undefined ? { value, raw } : undefined;
}

/** Overwriting what a process cannot read would destroy it, for instance when that process lacks a key of the ring. */
function openOrRefuse<T>(encryption: Encryption, place: string, raw: Buffer | undefined) {
  const found = open<T>(encryption, place, raw);
  if (raw && !found)
    throw new Error('a stored value cannot be opened with the keys of this process');
  return found;
}

type Parts = { bytes: ByteStore; encryption: Encryption; withTimeout: WithTimeout };

async function update<T>(
  { bytes, encryption, withTimeout }: Parts,
  name: string,
  change: Change<T>,
  seen: Found<T> | undefined,
): Promise<Found<T> | undefined> {
  const end = performance.now() + UPDATE_TIMEOUT_MS;
  const inTime = <R>(command: Promise<R>) => withTimeout(command, end - performance.now());
  let found = seen ?? openOrRefuse<T>(encryption, name, await inTime(bytes.get(name)));
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const next = change(found?.value);
    if (next === KEEP || (!next && !found)) return found;
    const after = next && { value: next.value, raw: encryption.encrypt(name, next.value) };
    const ttl = next ? lifetime(next.ttl) : 0;
    const there = await inTime(bytes.compareAndSwap(name, found?.raw, after?.raw, ttl));
    if (there === true) return after;
    found = openOrRefuse<T>(encryption, name, there);
  }
  throw new StoreUnavailable(new Error('too many writers on one key'));
}

/** What a member of a set is encrypted for. */
export function memberPlace(name: string, field: string): string {
  return `${name} ${field}`;
}

type Sets = Pick<Store, 'addMember' | 'removeMember' | 'members'>;

function sets(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Sets {
  return {
    async addMember(key, member, ttl) {
      const name = encryption.name(key);
      const field = encryption.field(name, member);
      const encrypted = encryption.encrypt(memberPlace(name, field), member);
      await withTimeout(bytes.addMember(name, field, encrypted, lifetime(ttl)));
    },
    async removeMember(key, member) {
      const name = encryption.name(key);
      await withTimeout(bytes.removeMember(name, encryption.field(name, member)));
    },
    async members(key) {
      const name = encryption.name(key);
      const found = new Map<string, string | undefined>();
      const add: AddMember = (field, encrypted) =>
        found.set(
          field,
          found.get(field) ?? encryption.decrypt(memberPlace(name, field), encrypted),
        );
      const total = await readMembers(bytes, withTimeout, name, add);
      // A server that took over has other pieces. Where members were only removed meanwhile, this reads once more for nothing.
      if (found.size < total) await readMembers(bytes, withTimeout, name, add);
      return [...found.values()].filter((member) => member !== undefined);
    },
  };
}

type AddMember = (field: string, encrypted: Buffer) => unknown;

/** MemberPage by page. Resolves to how many there were at first, where that is known. */
async function readMembers(
  bytes: ByteStore,
  withTimeout: WithTimeout,
  name: string,
  add: AddMember,
): Promise<number> {
  let total = 0;
  for (let from: string | undefined = ''; from !== undefined;) {
    const page: MemberPage = await withTimeout(bytes.members(name, from));
    for (const [field, encrypted] of page.members) add(field, encrypted);
    total = page.total ?? total;
    from = page.next;
  }
  return total;
}

type Streams = Pick<Store, 'append' | 'range'>;

function streams(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Streams {
  return {
    async append(key, value, ttl) {
      const name = encryption.name(key);
      await withTimeout(bytes.append(name, encryption.encrypt(name, value), lifetime(ttl)));
    },
    async range<T>(key: string, range: Range) {
      if (range.after !== undefined && !ENTRY_ID.test(range.after)) {
        throw new RangeError('`after` is not the id of an entry');
      }
      const name = encryption.name(key);
      const entries = await withTimeout(bytes.range(name, range));
      return entries.map(([id, encrypted]): Entry<T> => ({
        id,
        value: encryption.decrypt<T>(name, encrypted),
      }));
    },
  };
}

type Channels = Pick<Store, 'publish' | 'subscribe'>;

function channels(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Channels {
  const nameOf = (channel: string) => encryption.name(`channel:${channel}`);
  return {
    async publish(channel, message) {
      const name = nameOf(channel);
      await withTimeout(bytes.publish(name, encryption.encrypt(name, message)));
    },
    async subscribe(channel, listener) {
      const name = nameOf(channel);
      await withTimeout(
        bytes.subscribe(name, (encrypted) => {
          const message = encryption.decrypt<string>(name, encrypted);
          if (message !== undefined) listener(message);
        }),
      );
    },
  };
}
