/** A value and the stored bytes. Pass both to `update` to save its first read. */
export type Found<T> = { value: T; raw: Buffer };

/** The result of a change: a value that expires after `ttl` seconds (Infinity: never), undefined to delete, or KEEP to leave it unchanged. */
export type Next<T> = { value: T; ttl: number } | undefined | typeof KEEP;

export const KEEP: unique symbol = Symbol('keep');

/** Must be pure and synchronous. Called again with the new value if another writer was faster. */
export type Change<T> = (current: T | undefined) => Next<T>;

/** One entry of a stream. `id` is opaque, sorts by age and continues a `range`. `value` is undefined if this process cannot decrypt it. */
export type Entry<T> = { id: string; value: T | undefined };

/** At most `limit` entries that follow the entry `after` in reading order, which is oldest first unless `newestFirst`. */
export type Range = { after?: string; limit: number; newestFirst?: boolean };

/**
 * A new entry of a log. `time` (seconds) and `terms` are what it is found and trimmed by, in a part of the log with a life of its own. An entry
 * that `completes` an earlier one of the part is found as that one: its first term replaces that of the earlier one.
 */
export type NewLogEntry<T> = {
  value: T;
  part: LogPart;
  time: number;
  /** In an order that is the same for all entries of a log; undefined for what it does not have. */
  terms: readonly (string | undefined)[];
  completes?: LogCompletion | undefined;
};

/** The entry with the number, if it still has the epoch and the first term: a failover may have given its number to another one. */
export type LogCompletion = { number: number; epoch: string; term: string };

/** `lasting` entries are trimmed by their age only, `bulk` entries by their number too. */
export const LOG_PARTS = ['lasting', 'bulk'] as const;
export type LogPart = (typeof LOG_PARTS)[number];

/** `value` is undefined if this process cannot decrypt it. `epoch` tells the numbers of a restored log from those that it lost. */
export type LogEntry<T> = { number: number; epoch: string; value: T | undefined };

/** A part of the index of a log: `rows` are read with log-rows.ts, and begin with the entry `first`. */
export type LogBlock = { first: number; rows: Buffer };

/** So many blocks that begin below the number `before`, the newest of them first. */
export type LogBlockRun = { before: number; limit: number };

/** Blocks of a part: those of runs, or so many from the number `after` on, the oldest first. */
export type LogBlockRange = { part: LogPart } & (
  LogBlockRun | { after: number; limit: number } | { runs: readonly LogBlockRun[] }
);

export function runsIn(
  range: LogBlockRun | { runs: readonly LogBlockRun[] },
): readonly LogBlockRun[] {
  return 'runs' in range ? range.runs : [range];
}

/** The marks of a log before and after entries are appended. */
export type LogMark = { before: string; after: string };

/** Entries to delete, and the blocks of the index without their rows. */
export type LogTrimming = {
  part: LogPart;
  ranges: readonly (readonly [first: number, last: number])[];
  blocks: readonly { before: LogBlock; after: Buffer }[];
};

/**
 * At most `limit` members that follow the member `after`, which need not be in the set any more. Members that begin with digits and a point
 * are sorted by this number, which is readable in the database; the others have an order of no meaning that does not change.
 */
export type MemberRange = { after?: string | undefined; limit: number; newestFirst?: boolean };

/** What `addMember` gets. */
export type NewMember = { key: string; member: string; ttl: number };

/**
 * One interface for single Redis, Sentinel, Cluster and SQLite. Each verb touches one key, but for `getMany`, `sizes` and the members of `add`.
 *
 * Keys are `<kind>:<id>`. The kind is readable in the database, the id is hidden by an HMAC. Values are JSON, encrypted with AES-256-GCM.
 * A value that this process cannot decrypt counts as absent, except for `add` and `update`, which do not overwrite it, and `range`.
 * Times are in seconds. A TTL of zero or less expires at once. Every verb throws StoreUnavailable if the database does not answer within
 * 1.5 s; the command may still be executed.
 */
export interface Store {
  get<T>(key: string): Promise<Found<T> | undefined>;
  /**
   * Returns the values of keys of one kind. `seen`: values of an earlier call. Those that have not changed are not decrypted again. Replaced with
   * what this call found.
   */
  getMany<T>(keys: readonly string[], seen?: Map<string, Found<T>>): Promise<(T | undefined)[]>;
  set<T>(key: string, value: T, ttl: number): Promise<void>;
  /**
   * Writes only if the key is free. Returns true for exactly one of concurrent callers, also if its command was sent twice after a lost connection.
   * Before that, adds the members to their sets as `addMember` does, so that the value never exists without them.
   */
  add<T>(key: string, value: T, ttl: number, members?: readonly NewMember[]): Promise<boolean>;
  /** Reads and deletes. Exactly one of concurrent callers gets the value. */
  take<T>(key: string): Promise<T | undefined>;
  /** Deletes a value, a set or a stream. */
  delete(key: string): Promise<void>;
  /**
   * Compare-and-set with retries. Returns what is stored afterwards; with KEEP, what `change` was called with. Throws what `change` throws,
   * and an error if the stored value cannot be decrypted. Concurrent callers that delete a value cannot tell which of them deleted it.
   */
  update<T>(key: string, change: Change<T>, seen?: Found<T>): Promise<Found<T> | undefined>;

  /**
   * Resolves when a replica has what this process wrote under the key, so that a failover does not undo it. Resolves after 0.3 s if no replica
   * acknowledges, and at once if there is none. Never rejects.
   */
  replicated(key: string): Promise<void>;

  /** Adds to a set of strings. The whole set expires `ttl` seconds after the last `addMember` (Infinity: never). */
  addMember(key: string, member: string, ttl: number): Promise<void>;
  removeMember(key: string, member: string): Promise<void>;
  members(key: string): Promise<string[]>;
  /** How many members each of the sets has: at most `limit`, where it has more. */
  sizes(keys: readonly string[], limit: number): Promise<number[]>;
  /** Returns those of `members` that are in the set. */
  includes(key: string, members: readonly string[]): Promise<Set<string>>;
  /** Returns fewer than `limit` members only at the end. The first page of a set that has just become large may read all of it. */
  page(key: string, range: MemberRange): Promise<string[]>;

  /** Appends to a stream, as earlier versions did with the audit log. Entries older than `ttl` seconds may be deleted. Appends twice if the command is sent twice after a lost connection. */
  append<T>(key: string, value: T, ttl: number): Promise<void>;
  /** Returns fewer than `limit` entries only at the end. Throws a RangeError if `after` is not an entry id. */
  range<T>(key: string, range: Range): Promise<Entry<T>[]>;

  /**
   * Appends to a log, in one write, and returns the number of the first entry; each of the others has the next one. Numbers begin with 1, and no
   * number is given twice or left out. Appends once if the command is sent twice after a lost connection,
   * or if this process repeats it with the same `token` within a minute.
   */
  appendLog<T>(
    key: string,
    entries: readonly NewLogEntry<T>[],
    token?: string,
  ): Promise<{ first: number; epoch: string }>;
  /** How long such a repetition has no effect at least, in milliseconds; Infinity as long as the process runs. */
  readonly tokenMs: number;
  /**
   * As `appendLog`, and replaces the mark of the log (at first '') in the same write. Returns undefined, and appends nothing, if the mark is not
   * `before`: of several callers that have read the same mark, one appends.
   */
  appendMarked<T>(
    key: string,
    entries: readonly NewLogEntry<T>[],
    mark: LogMark,
  ): Promise<{ first: number; epoch: string } | undefined>;
  logMark(key: string): Promise<string>;
  /** Replaces the values of entries, except of those that were trimmed. Their numbers, epochs and rows stay. */
  replaceLogEntries<T>(
    key: string,
    entries: readonly { number: number; value: T }[],
  ): Promise<void>;
  /** Oldest first, at most `limit` entries with a number above `after`. Returns fewer only at the end. */
  readLog<T>(key: string, range: { after: number; limit: number }): Promise<LogEntry<T>[]>;
  /** Those of the entries that were not trimmed. */
  readLogEntries<T>(key: string, numbers: readonly number[]): Promise<LogEntry<T>[]>;
  /** The number of the last entry, also if it was trimmed; 0 if there was none. */
  lastInLog(key: string): Promise<number>;
  /** From now on, entries have a new epoch, which is returned. */
  beginLogEpoch(key: string): Promise<string>;
  readLogBlocks(key: string, range: LogBlockRange): Promise<LogBlock[]>;
  /** The hash of a term in rows. */
  logTerm(key: string, term: string): number;
  /**
   * Keeps rows that were added meanwhile, in a block of their own if no other row of the block is left. Returns false, and deletes nothing, if a
   * row was changed meanwhile.
   */
  trimLog(key: string, trimming: LogTrimming): Promise<boolean>;

  /** Notifies every subscribed process. Delivery is prompt but not guaranteed, so subscribers also read again periodically. */
  publish(channel: string, message: string): Promise<void>;
  /** Resolves to the function that ends the subscription. */
  subscribe(channel: string, listener: (message: string) => void): Promise<() => void>;
  /** How much can be stored before the database has little memory left (10 %), or the disk (1 GB): below, it is negative. Infinity if it does not tell. */
  freeBytes(): Promise<number>;
  /** Also throws if the database may evict records under memory pressure. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** The store did not answer in time, refused the command, or is unreachable. The cause is for the log. */
export class StoreUnavailable extends Error {
  constructor(cause: unknown) {
    super('the store cannot be reached', { cause });
    this.name = 'StoreUnavailable';
  }
}

/** Also if it is the cause of the error: the engine wraps the errors of its adapter. */
export function isStoreFault(error: unknown): boolean {
  return error instanceof StoreUnavailable || (error instanceof Error && isStoreFault(error.cause));
}

/** The store is out of memory for writes. Reads and deletes still work. */
export class StoreFull extends StoreUnavailable {}

/** The process cannot start with this store. The message says what to change. */
export class StoreNotOpened extends Error {
  override name = 'StoreNotOpened';
}

/** Another process has the file open. */
export class StoreInUse extends StoreNotOpened {}

/** The part of a pino logger that the store uses. */
export type StoreLogger = {
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
};
