import type { IRateLimiterOptions, RateLimiterAbstract } from 'rate-limiter-flexible';
import type { LogBlock, LogBlockRange, LogMark, LogPart, LogTrimming, Range } from './store.ts';

/** One database: stores encrypted bytes under names it cannot interpret. Times are in seconds. The encrypted store turns any error into StoreUnavailable. */
export interface ByteStore extends ByteLogs {
  get(name: string): Promise<Buffer | undefined>;
  /** Returns the bytes in the order of the names. `known`: bytes of an earlier call, in the same order, which may be returned if they are still stored. */
  getMany(
    names: readonly string[],
    known?: readonly (Buffer | undefined)[],
  ): Promise<(Buffer | undefined)[]>;
  set(name: string, bytes: Buffer, ttl: number): Promise<void>;
  /**
   * Replaces `before` with `next`; undefined means absent. Returns true if `next` is stored now, also if it already was, because a command
   * may be sent twice after a lost connection. Otherwise returns what is stored.
   */
  compareAndSwap(
    name: string,
    before: Buffer | undefined,
    next: Buffer | undefined,
    ttl: number,
  ): Promise<true | Buffer | undefined>;
  /**
   * Present if all names are on one server that others share. Adds the members, and then as `compareAndSwap` without `before`, with one wait. True if
   * `bytes` are stored now.
   */
  addWithMembers?(
    name: string,
    bytes: Buffer,
    ttl: number,
    members: readonly { name: string; member: PlacedMember; ttl: number }[],
  ): Promise<boolean>;
  getAndDelete(name: string): Promise<Buffer | undefined>;
  delete(name: string): Promise<void>;

  addMember(name: string, member: PlacedMember, ttl: number): Promise<void>;
  removeMember(name: string, member: Omit<PlacedMember, 'bytes'>): Promise<void>;
  /**
   * Returns one page of a set. `cursor` is empty, or `next` of the previous page. A member may be returned twice. A member added and removed
   * between two pages may be missed. Those that are known may be without their bytes, which take most of the time in SQLite.
   */
  members(name: string, cursor: string, isKnown?: IsKnown): Promise<MemberPage>;
  /** In the order of the names, each at most `limit`. */
  sizes(names: readonly string[], limit: number): Promise<number[]>;
  /** Returns those of `fields` that are in the set. */
  includes(name: string, fields: readonly string[]): Promise<Set<string>>;
  /**
   * Returns members by place, at most `limit` after the place `after`. Undefined if members have no place, because the set has just become
   * large, unless `incomplete`: then these are left out. As in `members`, known ones may be without bytes.
   */
  page(
    name: string,
    range: PlaceRange,
    isKnown?: IsKnown,
  ): Promise<ListedMember[] | AllMembers | undefined>;
  /** Gives places to members that are in the set. */
  setPlaces(name: string, members: readonly Omit<PlacedMember, 'bytes'>[]): Promise<void>;

  append(name: string, bytes: Buffer, ttl: number): Promise<void>;
  /** Ids have 32 digits, so that they sort by age as text. */
  range(name: string, range: Range): Promise<[id: string, bytes: Buffer][]>;

  /** Present if the database has replicas. Resolves when one of them has everything written under the name, or after the timeout. */
  replicated?(name: string, milliseconds: number): Promise<void>;

  /**
   * Replaces the bytes of every value, member of a set and entry of a log or stream with the result of `transform`, unless they were changed
   * meanwhile. Keeps TTLs, numbers and ids. Yields the number of replacements after each batch, so that the caller can pause.
   */
  rewrite(transform: Transform): AsyncGenerator<number>;

  /** Present if several machines share the database. The limiter rejects at once while there is no connection. */
  openLimiter?(options: IRateLimiterOptions): RateLimiterAbstract;

  /**
   * Present with `openLimiter`, and adds to the same counters. If all counters are on one server, the additions of one turn of the event loop
   * share a command. Resolves to the counts and the milliseconds left.
   */
  addToCounts?(
    additions: readonly { name: string; times: number; seconds: number }[],
  ): Promise<{ count: number; left: number }[]>;

  publish(channel: string, message: Buffer): Promise<void>;
  /** Resolves to the function that ends the subscription. */
  subscribe(channel: string, listener: (message: Buffer) => void): Promise<() => void>;
  freeBytes(): Promise<number>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** The verbs of logs. */
export interface ByteLogs {
  /**
   * As in the store, with a mark or without. `token` tells a command that is sent twice from two commands, and `epoch` is that of a new log.
   */
  appendLog(
    name: string,
    entries: readonly LogBytes[],
    sent: { token: string; epoch: string; mark?: LogMark },
  ): Promise<{ first: number; epoch: string } | undefined>;
  /** Present if the database forgets tokens, as in the store. */
  readonly tokenMs?: number;
  /** Present if `appendLog` resolves before the entries are on disk. Resolves when those up to this number are. */
  waitForLog?(name: string, number: number): Promise<void>;
  logMark(name: string): Promise<string>;
  /** The bytes are without an epoch. */
  replaceLogEntries(name: string, entries: readonly NumberedBytes[]): Promise<void>;
  readLog(name: string, range: { after: number; limit: number }): Promise<NumberedBytes[]>;
  readLogEntries(name: string, numbers: readonly number[]): Promise<NumberedBytes[]>;
  lastInLog(name: string): Promise<number>;
  beginLogEpoch(name: string, epoch: string): Promise<void>;
  readLogBlocks(name: string, range: LogBlockRange): Promise<LogBlock[]>;
  trimLog(name: string, trimming: LogTrimming): Promise<boolean>;
}

/** `row` is without its number (log-rows.ts). `completes` is the entry that this one completes, with the hash of its first term. */
export type LogBytes = {
  bytes: Buffer;
  part: LogPart;
  row: Buffer;
  completes: { number: number; epoch: string; term: number } | undefined;
};
/** The bytes begin with the epoch. */
export type NumberedBytes = [number: number, bytes: Buffer];
export const EPOCH_LENGTH = 12;

/**
 * `next` is the cursor of the next page; the last page has none. The first of several pages has `total` if the cursor is valid on one server
 * only, so that the caller can detect a failover.
 */
export type MemberPage = {
  members: [field: string, bytes: Buffer | undefined][];
  next?: string;
  total?: number;
};

/** `place` sorts as text and ends in `field`, which has FIELD_LENGTH characters. */
export type PlacedMember = { field: string; place: string; bytes: Buffer };
export type ListedMember = Omit<PlacedMember, 'bytes'> & { bytes: Buffer | undefined };
/** Whether the caller knows what the bytes of a field decrypt to. */
export type IsKnown = (field: string) => boolean;
export type PlaceRange = {
  after?: string | undefined;
  limit: number;
  newestFirst?: boolean | undefined;
  incomplete?: boolean;
};
/** A whole set that is so small that its members have no places. */
export type AllMembers = { all: MemberPage['members'] };
/** Of an HMAC with SHA-256 in Base64url. */
export const FIELD_LENGTH = 43;

/** Bounded, because reading a page blocks the database. */
export const MEMBERS_PER_PAGE = 1000;

/** Where bytes are: `field` for a member of the set `name`, `entry` for an entry of the log or stream. */
export type StoredPlace = { name: string; field?: string; entry?: string };

/** Must be synchronous. Undefined keeps the bytes. */
export type Transform = (bytes: Buffer, place: StoredPlace) => Buffer | undefined;
