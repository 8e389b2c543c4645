// What a database does for the store: the store's verbs on names and encrypted bytes, without knowing what they mean.
import type { IRateLimiterOptions, RateLimiterAbstract } from 'rate-limiter-flexible';
import type { Range } from './store.ts';

/** Any error means the database could not do it; `encrypted-store.ts` turns it into `StoreUnavailable`. Times are seconds. */
export interface ByteStore {
  get(name: string): Promise<Buffer | undefined>;
  set(name: string, bytes: Buffer, ttl: number): Promise<void>;
  /**
   * Puts `next` where `before` is (undefined: nothing). True when that is so now, also when `next` was there already,
   * because a command sent again over a new connection finds its own work; otherwise what is there instead.
   */
  compareAndSwap(
    name: string,
    before: Buffer | undefined,
    next: Buffer | undefined,
    ttl: number,
  ): Promise<true | Buffer | undefined>;
  getAndDelete(name: string): Promise<Buffer | undefined>;
  delete(name: string): Promise<void>;

  addMember(name: string, field: string, bytes: Buffer, ttl: number): Promise<void>;
  removeMember(name: string, field: string): Promise<void>;
  /** A page of a set; `from` is empty, or the `next` of the page before. A member may come twice; one that comes and goes meanwhile may be missed. */
  members(name: string, from: string): Promise<MemberPage>;

  append(name: string, bytes: Buffer, ttl: number): Promise<void>;
  /** Ids are 32 digits: they sort by age as text. */
  range(name: string, range: Range): Promise<[id: string, bytes: Buffer][]>;

  /** Of databases with replicas: resolves when one has what was written under the name, or when the time is over. */
  replicated?(name: string, milliseconds: number): Promise<void>;

  /**
   * Goes through all values and all members of sets, a few at a time, and puts what `rewriting` makes of the bytes in their
   * place, unless something newer is there by then. Lifetimes go on. Yields after every few how many it replaced, so that the
   * caller sets the pace. Streams cannot be rewritten.
   */
  rewrite(rewriting: Rewriting): AsyncGenerator<number>;

  /** Of databases that several machines share: counts for all of them. Rejects at once while there is no connection. */
  openLimiter?(options: IRateLimiterOptions): RateLimiterAbstract;

  publish(channel: string, message: Buffer): Promise<void>;
  subscribe(channel: string, listener: (message: Buffer) => void): Promise<void>;
  ping(): Promise<void>;
  close(): Promise<void>;
}

/**
 * `next` is where the next page begins; the last one has none. `total`: how many there are, with the first of several pieces, where another
 * server may take over between two of them, for which `next` is nothing.
 */
export type MemberPage = {
  members: [field: string, bytes: Buffer][];
  next?: string;
  total?: number;
};

/** How many members are read at once: the database does nothing else meanwhile. */
export const MEMBERS_PER_PAGE = 1000;

/** Pure and synchronous; undefined leaves the bytes as they are. `field`: of a member of the set `name`. */
export type Rewriting = (bytes: Buffer, name: string, field?: string) => Buffer | undefined;
