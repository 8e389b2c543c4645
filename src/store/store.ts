// The store: a dozen verbs, each touching one key, with the same promises on single Redis, Sentinel, Cluster and SQLite.

/** A value as it was read, with the stored bytes: hand it back to `update` to save the first read. */
export type Found<T> = { value: T; raw: Buffer };

/** What `update` leaves behind: a value that lives `ttl` seconds (Infinity: for ever), nothing, or what is there already. */
export type Next<T> = { value: T; ttl: number } | undefined | typeof KEEP;

export const KEEP: unique symbol = Symbol('keep');

/** Must be pure and synchronous: it runs again, on a fresh value, whenever another writer was faster. */
export type Change<T> = (current: T | undefined) => Next<T>;

/** One entry of a stream; `id` is opaque, sorts by age, and continues a `range`. `value` is undefined when this process cannot open it. */
export type Entry<T> = { id: string; value: T | undefined };

/** At most `limit` entries: those after the entry `after` in the order of reading, the oldest first unless `newestFirst`. */
export type Range = { after?: string; limit: number; newestFirst?: boolean };

/**
 * Keys are `<kind>:<id>`: the kind stays readable in the store, the id is hidden by an HMAC. Values are JSON, encrypted (AES-256-GCM);
 * bytes that this process cannot open count as absent for every verb but `add` and `update`, which leave them alone, and `range`.
 * Times are seconds; a lifetime of zero or less ends at once. Every verb throws `StoreUnavailable` when the store does not answer
 * within 1.5 s; what was asked may have happened all the same, or may happen a moment later.
 */
export interface Store {
  get<T>(key: string): Promise<Found<T> | undefined>;
  set<T>(key: string, value: T, ttl: number): Promise<void>;
  /** Writes only where nothing is. True for exactly one of many callers, and for a call that was sent twice over a cut connection. */
  add<T>(key: string, value: T, ttl: number): Promise<boolean>;
  /** Reads and deletes; of many callers exactly one gets the value. */
  take<T>(key: string): Promise<T | undefined>;
  /** Removes a value, a set or a stream. */
  delete(key: string): Promise<void>;
  /**
   * Compare and set, retried. Resolves to what is stored afterwards, or with KEEP to what the change was given. Throws what
   * `change` throws, and an error when what is stored cannot be opened. Of many callers that remove a value none learns who did it.
   */
  update<T>(key: string, change: Change<T>, seen?: Found<T>): Promise<Found<T> | undefined>;

  /**
   * Resolves when a replica has what this process wrote under the key, so that it outlives the server that took it; after 0.3 s when none
   * says so, at once where there is none. Never rejects. For what must not be undone by a failover.
   */
  replicated(key: string): Promise<void>;

  /** A set of strings under one key; the whole set disappears `ttl` seconds after the last `addMember` (Infinity: never). */
  addMember(key: string, member: string, ttl: number): Promise<void>;
  removeMember(key: string, member: string): Promise<void>;
  members(key: string): Promise<string[]>;

  /**
   * Adds to the end of a stream and resolves when it is stored; entries older than `ttl` seconds may disappear.
   * Twice, when the call was sent twice over a cut connection.
   */
  append<T>(key: string, value: T, ttl: number): Promise<void>;
  /** Fewer than `limit` only at the end. Throws a RangeError when `after` is no id of an entry. */
  range<T>(key: string, range: Range): Promise<Entry<T>[]>;

  /** Tells every process that subscribed. Delivery is prompt and not promised: whoever listens also reads again now and then. */
  publish(channel: string, message: string): Promise<void>;
  subscribe(channel: string, listener: (message: string) => void): Promise<void>;
  /** Throws also when the database would drop records under memory pressure. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** The store did not answer in time, refused the command, or cannot be reached. The cause is for the log. */
export class StoreUnavailable extends Error {
  constructor(cause: unknown) {
    super('the store cannot be reached', { cause });
    this.name = 'StoreUnavailable';
  }
}

/** The store has no room for what was to be written; reading and deleting go on. */
export class StoreFull extends StoreUnavailable {}
