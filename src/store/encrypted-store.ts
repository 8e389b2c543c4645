import { randomBytes } from 'node:crypto';
import { lruCache } from '../lru-cache.ts';
import { LOG_TERMS, rowWithoutNumber } from './log-rows.ts';
import {
  type AllMembers,
  type ByteStore,
  EPOCH_LENGTH,
  type IsKnown,
  type ListedMember,
  type MemberPage,
  type NumberedBytes,
  type PlaceRange,
} from './byte-store.ts';
import { LAST_REPLY_MS } from '../overdue.ts';
import { createTimeout, STORE_TIMEOUTS, type WithTimeout } from './timeout.ts';
import type { Encryption } from './encryption.ts';
import {
  type Change,
  type Entry,
  type Found,
  KEEP,
  type LogEntry,
  type LogMark,
  type NewLogEntry,
  type NewMember,
  type Range,
  type Store,
  StoreUnavailable,
} from './store.ts';

// At least one of the concurrent writers of a key succeeds per attempt, so this many can write at once.
const MAX_UPDATE_ATTEMPTS = 200;
const ENTRY_ID = /^\d{32}$/;

/** Implements the store over any database: encrypts values, hides ids, retries updates, and applies timeouts. */
export function encryptedStore(
  bytes: ByteStore,
  encryption: Encryption,
  timeouts = STORE_TIMEOUTS,
): Store {
  const withTimeout = createTimeout(timeouts);
  // Of its own, because a replica that does not answer says nothing about the server.
  const withReplicaTimeout = createTimeout(timeouts);
  return {
    ...values({ bytes, encryption, withTimeout, timeoutMs: timeouts.operation }),
    ...sets(bytes, encryption, withTimeout),
    ...streams(bytes, encryption, withTimeout),
    ...logs(bytes, encryption, withTimeout),
    ...channels(bytes, encryption, withTimeout),
    delete: (key) => withTimeout(bytes.delete(encryption.name(key))),
    async replicated(key) {
      const waiting = bytes.replicated?.(encryption.name(key), timeouts.replication);
      if (waiting) await withReplicaTimeout(waiting, timeouts.replication).catch(() => undefined);
    },
    freeBytes: () => withTimeout(bytes.freeBytes()),
    ping: () => withTimeout(bytes.ping()),
    close: () => bytes.close(),
  };
}

function validTtl(ttl: number): number {
  if (Number.isNaN(ttl) || typeof ttl !== 'number') {
    throw new TypeError('a TTL must be a number of seconds');
  }
  return Math.max(ttl, 0.001);
}

type Parts = {
  bytes: ByteStore;
  encryption: Encryption;
  withTimeout: WithTimeout;
  /** For an update with all its attempts. */
  timeoutMs: number;
};

type Values = Pick<Store, 'get' | 'getMany' | 'set' | 'add' | 'take' | 'update'>;

/** Of one command. */
const BATCH_KEYS = 200;

function values(parts: Parts): Values {
  const { bytes, encryption, withTimeout } = parts;
  return {
    async get<T>(key: string) {
      const name = encryption.name(key);
      return decrypt<T>(encryption, name, await withTimeout(bytes.get(name)));
    },
    async getMany<T>(keys: readonly string[], seen = new Map<string, Found<T>>()) {
      const before = new Map(seen);
      seen.clear();
      for (let from = 0; from < keys.length; from += BATCH_KEYS) {
        const batch = keys.slice(from, from + BATCH_KEYS);
        const names = batch.map((key) => encryption.name(key));
        const known = batch.map((key) => before.get(key));
        const stored = await withTimeout(
          bytes.getMany(
            names,
            known.map((each) => each?.raw),
          ),
        );
        for (const [index, key] of batch.entries()) {
          const raw = stored[index];
          const earlier = known[index];
          // Two encryptions never give the same bytes.
          const isSame = raw !== undefined && earlier?.raw.equals(raw);
          const found = isSame ? earlier : decrypt<T>(encryption, names[index] ?? '', raw);
          // A copy, because the bytes are part of a larger buffer with the replies of the database.
          if (found) seen.set(key, isSame ? found : { ...found, raw: Buffer.from(found.raw) });
        }
      }
      return keys.map((key) => seen.get(key)?.value);
    },
    async set(key, value, ttl) {
      const name = encryption.name(key);
      await withTimeout(bytes.set(name, encryption.encrypt(name, value), validTtl(ttl)));
    },
    async add(key, value, ttl, members = []) {
      const name = encryption.name(key);
      const encrypted = encryption.encrypt(name, value);
      const placed = members.map((each) => newMember(encryption, each));
      if (bytes.addWithMembers && placed.length > 0)
        return withTimeout(bytes.addWithMembers(name, encrypted, validTtl(ttl), placed));
      await Promise.all(
        placed.map((each) => withTimeout(bytes.addMember(each.name, each.member, each.ttl))),
      );
      return (
        (await withTimeout(bytes.compareAndSwap(name, undefined, encrypted, validTtl(ttl)))) ===
        true
      );
    },
    async take<T>(key: string) {
      const name = encryption.name(key);
      return decrypt<T>(encryption, name, await withTimeout(bytes.getAndDelete(name)))?.value;
    },
    async update<T>(key: string, change: Change<T>, seen?: Found<T>) {
      const name = encryption.name(key);
      return update(parts, name, change, seen);
    },
  };
}

function decrypt<T>(
  encryption: Encryption,
  place: string,
  raw: Buffer | undefined,
): Found<T> | undefined {
  const value = raw && encryption.decrypt<T>(place, raw);
  return raw && value !== undefined ? { value, raw } : undefined;
}

/** Throws instead of letting the caller overwrite a value that it cannot decrypt, for example because it lacks a key of the ring. */
function decryptOrThrow<T>(encryption: Encryption, place: string, raw: Buffer | undefined) {
  const found = decrypt<T>(encryption, place, raw);
  if (raw && !found)
    throw new Error('a stored value cannot be decrypted with the keys of this process');
  return found;
}

async function update<T>(
  { bytes, encryption, withTimeout, timeoutMs }: Parts,
  name: string,
  change: Change<T>,
  seen: Found<T> | undefined,
): Promise<Found<T> | undefined> {
  const end = performance.now() + timeoutMs;
  const inTime = <R>(command: Promise<R>) =>
    withTimeout(command, Math.max(LAST_REPLY_MS, end - performance.now()));
  let found = seen ?? decryptOrThrow<T>(encryption, name, await inTime(bytes.get(name)));
  for (let attempt = 0; attempt < MAX_UPDATE_ATTEMPTS; attempt++) {
    // Once more, because the process may have been held up.
    if (attempt > 1 && performance.now() > end) break;
    const next = change(found?.value);
    if (next === KEEP || (!next && !found)) return found;
    const after = next && { value: next.value, raw: encryption.encrypt(name, next.value) };
    const ttl = next ? validTtl(next.ttl) : 0;
    const stored = await inTime(bytes.compareAndSwap(name, found?.raw, after?.raw, ttl));
    if (stored === true) return after;
    found = decryptOrThrow<T>(encryption, name, stored);
  }
  const why =
    performance.now() > end ? 'the update timed out' : 'too many concurrent writers of one key';
  throw new StoreUnavailable(new Error(why));
}

/** The place that a member of a set is encrypted for. */
export function memberPlace(name: string, field: string): string {
  return `${name} ${field}`;
}

type Sets = Pick<Store, 'addMember' | 'removeMember' | 'members' | 'sizes' | 'includes' | 'page'>;

/** Of all sets: those of the pages that are read again and again, and of some lists that are read whole. */
const MAX_CACHED_MEMBERS = 10_000;

function sets(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Sets {
  const decrypterOf = memberDecrypters(encryption);
  return {
    async addMember(key, member, ttl) {
      const placed = newMember(encryption, { key, member, ttl });
      await withTimeout(bytes.addMember(placed.name, placed.member, placed.ttl));
    },
    async removeMember(key, member) {
      const name = encryption.name(key);
      await withTimeout(bytes.removeMember(name, placedIn(encryption, name, member)));
    },
    async members(key) {
      const name = encryption.name(key);
      const found = new Map<string, string | undefined>();
      const decrypter = decrypterOf(name);
      const parts = { bytes, decrypter, withTimeout };
      const add: AddMember = (field, encrypted) =>
        found.set(field, found.get(field) ?? decrypter.decrypt(field, encrypted));
      const total = await readMembers(parts, name, add);
      // After a failover, cursors of the old server skip members. This also reads again, needlessly, if members were removed meanwhile.
      if (found.size < total) await readMembers(parts, name, add);
      return [...found.values()].filter((member) => member !== undefined);
    },
    sizes: (keys, limit) =>
      withTimeout(
        bytes.sizes(
          keys.map((key) => encryption.name(key)),
          limit,
        ),
      ),
    async includes(key, members) {
      const name = encryption.name(key);
      const fields = new Map(members.map((member) => [encryption.field(name, member), member]));
      const found = await withTimeout(bytes.includes(name, [...fields.keys()]));
      return new Set([...fields].flatMap(([field, member]) => (found.has(field) ? [member] : [])));
    },
    async page(key, { after, limit, newestFirst }) {
      const name = encryption.name(key);
      const decrypter = decrypterOf(name);
      const parts = { bytes, decrypter, withTimeout };
      const found: string[] = [];
      let last = after === undefined ? undefined : placedIn(encryption, name, after).place;
      // More than one read only if this process cannot decrypt some of the members.
      while (found.length < limit) {
        const range = { after: last, limit: limit - found.length, newestFirst };
        const page = await readPage(parts, name, range);
        for (const { field, bytes: encrypted } of page) {
          const member = decrypter.decrypt(field, encrypted);
          if (member !== undefined) found.push(member);
        }
        if (page.length < range.limit) break;
        last = page.at(-1)?.place;
      }
      return found;
    },
  };
}

/** For the members of one set. `decrypt` returns undefined for bytes that this process cannot decrypt. */
type MemberDecrypter = {
  isKnown: IsKnown;
  decrypt: (field: string, encrypted: Buffer | undefined) => string | undefined;
};

/** A field is the HMAC of one member of one set, so a member that was decrypted once in this set is known by it. */
function memberDecrypters(encryption: Encryption): (name: string) => MemberDecrypter {
  const cache = lruCache<string>(MAX_CACHED_MEMBERS);
  return (name) => {
    // The cache may drop a member between the two calls.
    const known = new Map<string, string>();
    const isKnown = (field: string) => {
      // With the set, or a field that somebody copies to another set would be one of its members.
      const member = cache.get(memberPlace(name, field));
      if (member !== undefined) known.set(field, member);
      return member !== undefined;
    };
    return {
      isKnown,
      decrypt(field, encrypted) {
        const place = memberPlace(name, field);
        const before = known.get(field) ?? cache.get(place);
        if (before !== undefined || !encrypted) return before;
        const member = encryption.decrypt<string>(place, encrypted);
        if (member !== undefined) cache.set(place, member);
        return member;
      },
    };
  };
}

function newMember(encryption: Encryption, { key, member, ttl }: NewMember) {
  const name = encryption.name(key);
  const placed = placedIn(encryption, name, member);
  const bytes = encryption.encrypt(memberPlace(name, placed.field), member);
  return { name, member: { ...placed, bytes }, ttl: validTtl(ttl) };
}

const NUMBER_DIGITS = 15;
const NUMBERED = new RegExp(`^(\\d{1,${NUMBER_DIGITS}})\\.`);

function placedIn(encryption: Encryption, name: string, member: string) {
  const field = encryption.field(name, member);
  return { field, place: placeOf(field, member) };
}

/** A member that cannot be decrypted has no number. */
function placeOf(field: string, member = ''): string {
  const [, number] = NUMBERED.exec(member) ?? [];
  return `${number?.padStart(NUMBER_DIGITS, '0') ?? ''}${field}`;
}

const MAX_ORDERINGS = 2;

type SetParts = { bytes: ByteStore; decrypter: MemberDecrypter; withTimeout: WithTimeout };

/**
 * Orders the set first if it has just become large. What is added meanwhile may be left out. Reads the whole set if the database refuses to store
 * the order, as when it is full.
 */
async function readPage(parts: SetParts, name: string, range: PlaceRange): Promise<ListedMember[]> {
  const { bytes, decrypter, withTimeout } = parts;
  for (let orderings = 0; ; orderings += 1) {
    const incomplete = orderings === MAX_ORDERINGS;
    const page = await withTimeout(bytes.page(name, { ...range, incomplete }, decrypter.isKnown));
    if (page) return 'all' in page ? pageOf(decrypter, page, range) : page;
    if (incomplete) return [];
    try {
      await orderMembers(parts, name);
    } catch (error) {
      if (!(error instanceof StoreUnavailable)) throw error;
      const all = new Map<string, Buffer | undefined>();
      await readMembers(parts, name, (field, encrypted) => all.set(field, encrypted));
      return pageOf(decrypter, { all: [...all] }, range);
    }
  }
}

/** The same page of a whole set. */
function pageOf(
  decrypter: MemberDecrypter,
  { all }: AllMembers,
  { after, limit, newestFirst = false }: PlaceRange,
): ListedMember[] {
  const placed = all.map(([field, bytes]) => {
    return { field, bytes, place: placeOf(field, decrypter.decrypt(field, bytes)) };
  });
  const inOrder = placed.toSorted((a, b) => (a.place < b.place === newestFirst ? 1 : -1));
  const isBehind = ({ place }: ListedMember) =>
    after === undefined || (newestFirst ? place < after : place > after);
  return inOrder.filter(isBehind).slice(0, limit);
}

async function orderMembers(
  { bytes, decrypter, withTimeout }: SetParts,
  name: string,
): Promise<void> {
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const page: MemberPage = await withTimeout(bytes.members(name, cursor, decrypter.isKnown));
    const placed = page.members.map(([field, encrypted]) => ({
      field,
      place: placeOf(field, decrypter.decrypt(field, encrypted)),
    }));
    await withTimeout(bytes.setPlaces(name, placed));
    cursor = page.next;
  }
}

type AddMember = (field: string, encrypted: Buffer | undefined) => unknown;

/** Returns the number of members at the start, or 0 if the database does not report it. */
async function readMembers(
  { bytes, decrypter, withTimeout }: SetParts,
  name: string,
  add: AddMember,
): Promise<number> {
  let total = 0;
  for (let cursor: string | undefined = ''; cursor !== undefined;) {
    const page: MemberPage = await withTimeout(bytes.members(name, cursor, decrypter.isKnown));
    for (const [field, encrypted] of page.members) add(field, encrypted);
    total = page.total ?? total;
    cursor = page.next;
  }
  return total;
}

type Streams = Pick<Store, 'append' | 'range'>;

function streams(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Streams {
  return {
    async append(key, value, ttl) {
      const name = encryption.name(key);
      await withTimeout(bytes.append(name, encryption.encrypt(name, value), validTtl(ttl)));
    },
    async range<T>(key: string, range: Range) {
      if (range.after !== undefined && !ENTRY_ID.test(range.after)) {
        throw new RangeError('`after` is not an entry id');
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

type Logs = Pick<
  Store,
  | 'appendLog'
  | 'tokenMs'
  | 'appendMarked'
  | 'logMark'
  | 'replaceLogEntries'
  | 'readLog'
  | 'readLogEntries'
  | 'lastInLog'
  | 'beginLogEpoch'
  | 'readLogBlocks'
  | 'logTerm'
  | 'trimLog'
>;

/** Hashing a term takes longer than the rest of a row. */
const MAX_CACHED_TERMS = 10_000;

function logs(bytes: ByteStore, encryption: Encryption, withTimeout: WithTimeout): Logs {
  const terms = lruCache<number>(MAX_CACHED_TERMS);
  const hashOf = (name: string, term: string | undefined): number => {
    if (term === undefined) return 0;
    const known = terms.get(term);
    if (known !== undefined) return known;
    const hash = Buffer.from(encryption.field(name, term), 'base64url').readUInt32BE(0) || 1;
    terms.set(term, hash);
    return hash;
  };
  const opened = <T>(name: string, found: readonly NumberedBytes[]) =>
    found.map(([number, stored]): LogEntry<T> => ({
      number,
      epoch: stored.toString('latin1', 0, EPOCH_LENGTH),
      value: encryption.decrypt<T>(name, stored.subarray(EPOCH_LENGTH)),
    }));
  const append = async <T>(
    key: string,
    entries: readonly NewLogEntry<T>[],
    sent: { token: string; mark?: LogMark },
  ) => {
    const name = encryption.name(key);
    const encrypted = entries.map(({ value, part, time, terms: found, completes }) => ({
      bytes: encryption.encrypt(name, value),
      part,
      row: rowWithoutNumber(
        time,
        found.slice(0, LOG_TERMS).map((term) => hashOf(name, term)),
      ),
      completes: completes && { ...completes, term: hashOf(name, completes.term) },
    }));
    const appended = await withTimeout(
      bytes.appendLog(name, encrypted, { ...sent, epoch: randomId() }),
    );
    // The disk has time of its own, because a busy process may take all of the first to write.
    if (appended && bytes.waitForLog)
      await withTimeout(bytes.waitForLog(name, appended.first + entries.length - 1));
    return appended;
  };
  return {
    tokenMs: bytes.tokenMs ?? Infinity,
    async appendLog(key, entries, token = randomId()) {
      const appended = await append(key, entries, { token });
      if (!appended) throw new Error('the database requires a mark');
      return appended;
    },
    appendMarked: (key, entries, mark) => append(key, entries, { token: randomId(), mark }),
    logMark: (key) => withTimeout(bytes.logMark(encryption.name(key))),
    async replaceLogEntries(key, entries) {
      if (entries.length === 0) return;
      const name = encryption.name(key);
      const encrypted = entries.map(({ number, value }): NumberedBytes => [
        number,
        encryption.encrypt(name, value),
      ]);
      await withTimeout(bytes.replaceLogEntries(name, encrypted));
    },
    async readLog<T>(key: string, range: { after: number; limit: number }) {
      const name = encryption.name(key);
      return opened<T>(name, await withTimeout(bytes.readLog(name, range)));
    },
    async readLogEntries<T>(key: string, numbers: readonly number[]) {
      if (numbers.length === 0) return [];
      const name = encryption.name(key);
      return opened<T>(name, await withTimeout(bytes.readLogEntries(name, numbers)));
    },
    lastInLog: (key) => withTimeout(bytes.lastInLog(encryption.name(key))),
    async beginLogEpoch(key) {
      const epoch = randomId();
      await withTimeout(bytes.beginLogEpoch(encryption.name(key), epoch));
      return epoch;
    },
    readLogBlocks: (key, range) => withTimeout(bytes.readLogBlocks(encryption.name(key), range)),
    logTerm: (key, term) => hashOf(encryption.name(key), term),
    trimLog: (key, trimming) => withTimeout(bytes.trimLog(encryption.name(key), trimming)),
  };
}

/** EPOCH_LENGTH characters. */
function randomId(): string {
  return randomBytes((EPOCH_LENGTH * 3) / 4).toString('base64url');
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
      return withTimeout(
        bytes.subscribe(name, (encrypted) => {
          const message = encryption.decrypt<string>(name, encrypted);
          if (message !== undefined) listener(message);
        }),
      );
    },
  };
}
