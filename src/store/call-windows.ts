// Counts calls against limits that must hold exactly, in all processes together and across restarts.
import type { RateLimiterAbstract } from 'rate-limiter-flexible';
import { lruCache } from '../lru-cache.ts';
import type { ByteStore } from './byte-store.ts';
import type { WindowCount } from './counters.ts';
import type { Encryption } from './encryption.ts';
import { createTimeout } from './timeout.ts';

/** At most `count` calls in a window of `seconds`, which starts with the first call. `name` says whose calls these are. */
export type CallWindow = { name: string; count: number; seconds: number };

/** `isOwn`: of this process alone, because the store could not be reached. */
export type AddedCalls = WindowCount & { isOwn?: true };

export type Addition = { window: CallWindow; times: number };

/** While the store cannot be reached, a process counts for itself, from zero. Nothing rejects. */
export type CallWindows = {
  /** Side by side, with one wait. Resolves to the counts with these calls, which may be above the limit. */
  add(additions: readonly Addition[]): Promise<AddedCalls[]>;
  /** Removes calls that were added and not made, if their window goes on. `added` is what `add` returned. */
  giveBack(window: CallWindow, times: number, added: AddedCalls): Promise<void>;
  /** Resolves to undefined if no window has begun. */
  read(window: CallWindow): Promise<WindowCount | undefined>;
  /** The next call begins a window. */
  reset(window: CallWindow): Promise<void>;
  /** Call before the store is closed. */
  close(): Promise<void>;
};

type Options = { bytes: ByteStore; encryption: Encryption; now: () => number };

const windowOf = ({ name, seconds }: CallWindow) => `${seconds} ${name}`;

export function callWindows(options: Options): CallWindows {
  const { openLimiter, addToCounts } = options.bytes;
  if (!openLimiter || !addToCounts) return storedWindows(options);
  const limiter = openLimiter({ keyPrefix: '', points: 1, duration: 1 });
  return sharedWindows({ limiter, addToCounts }, options);
}

/** Of several processes, in Redis. */
function sharedWindows(
  {
    limiter,
    addToCounts,
  }: { limiter: RateLimiterAbstract } & Required<Pick<ByteStore, 'addToCounts'>>,
  { encryption, now }: Omit<Options, 'bytes'>,
): CallWindows {
  const withTimeout = createTimeout();
  const own = windowsInMemory(now);
  const names = lruCache<string>(MAX_IN_MEMORY);
  const nameOf = (window: CallWindow) => {
    const key = windowOf(window);
    const known = names.get(key);
    if (known !== undefined) return known;
    const name = encryption.name(`limit:calls ${key}`);
    names.set(key, name);
    return name;
  };
  const durationOf = ({ seconds }: CallWindow) => ({ customDuration: seconds });
  return {
    async add(additions) {
      const adding = addToCounts(
        additions.map(({ window, times }) => ({
          name: nameOf(window),
          times,
          seconds: window.seconds,
        })),
      );
      const added = await withTimeout(adding).catch(() => undefined);
      return additions.map(({ window, times }, n) => {
        const { count, left } = added?.[n] ?? {};
        return count === undefined || left === undefined
          ? { ...own.add(window, times), isOwn: true }
          : { count, secondsLeft: left / 1000 };
      });
    },
    async giveBack(window, times, { isOwn }) {
      if (isOwn) return own.giveBack(window, times);
      const giving = limiter.reward(nameOf(window), times, durationOf(window));
      await withTimeout(giving).catch(() => undefined);
    },
    async read(window) {
      const reading = limiter.get(nameOf(window));
      const read = await withTimeout(reading).catch(() => undefined);
      if (read === undefined) return own.read(window);
      return read ? countIn(read) : undefined;
    },
    async reset(window) {
      own.reset(window);
      await withTimeout(limiter.delete(nameOf(window))).catch(() => undefined);
    },
    close: async () => undefined,
  };
}

function countIn({
  consumedPoints,
  msBeforeNext,
}: {
  consumedPoints: number;
  msBeforeNext: number;
}) {
  return { count: consumedPoints, secondsLeft: msBeforeNext / 1000 };
}

/** Evicts the least recently counted when it is full. */
const MAX_IN_MEMORY = 50_000;

/** `saved` is the count in the store. It is never less than the count that was returned. */
type Counted = { count: number; until: number; saved: number };

function windowsInMemory(now: () => number) {
  const windows = lruCache<Counted>(MAX_IN_MEMORY);
  const find = (window: CallWindow): Counted | undefined => {
    const found = windows.get(windowOf(window));
    // A clock that was set back must not make a window longer.
    if (found) found.until = Math.min(found.until, now() + window.seconds);
    return found && found.until > now() ? found : undefined;
  };
  return {
    windows,
    find,
    begin(window: CallWindow, counted: Partial<Counted> = {}): Counted {
      const begun = { count: 0, saved: 0, until: now() + window.seconds, ...counted };
      windows.set(windowOf(window), begun);
      return begun;
    },
    add(window: CallWindow, times: number): WindowCount {
      const counted = find(window) ?? this.begin(window);
      counted.count += times;
      return countOf(counted, now());
    },
    read(window: CallWindow): WindowCount | undefined {
      const counted = find(window);
      return counted && countOf(counted, now());
    },
    giveBack(window: CallWindow, times: number): void {
      const counted = find(window);
      if (counted) counted.count = Math.max(0, counted.count - times);
    },
    reset: (window: CallWindow) => void windows.delete(windowOf(window)),
  };
}

function countOf({ count, until }: Counted, now: number): WindowCount {
  return { count, secondsLeft: until - now };
}

/** The store has a count that is higher by so many parts of the limit, so that only some calls wait for the disk. */
const SAVED_AHEAD = 20;

type Saved = Pick<Counted, 'count' | 'until'>;

/** Not `limit`: counts of that kind are plain numbers, which nobody encrypts again. */
const storedKey = (window: string) => `call-window:${window}`;

/**
 * Of the only process, with SQLite: in memory, and saved ahead. After a process died, a window may therefore end up to a twentieth of its
 * limit early, and never late.
 */
function storedWindows({ bytes, encryption, now }: Options): CallWindows {
  const own = windowsInMemory(now);
  const save = async (key: string, counted: Counted, count: number) => {
    counted.saved = count;
    const name = encryption.name(storedKey(key));
    const value = encryption.encrypt(name, { count, until: counted.until } satisfies Saved);
    await bytes.set(name, value, counted.until - now()).catch(() => undefined);
  };
  const load = async (window: CallWindow) => {
    const name = encryption.name(storedKey(windowOf(window)));
    const found = await bytes.get(name).catch(() => undefined);
    const saved = found && encryption.decrypt<Saved>(name, found);
    if (own.windows.has(windowOf(window)) || !saved) return;
    own.begin(window, { ...saved, saved: saved.count });
  };
  const addOne = async ({ window, times }: Addition) => {
    const key = windowOf(window);
    if (!own.windows.has(key)) await load(window);
    const added = own.add(window, times);
    const counted = own.find(window);
    if (counted && counted.saved < Math.min(added.count, window.count)) {
      const ahead = counted.count + Math.floor(window.count / SAVED_AHEAD);
      await save(key, counted, Math.max(counted.count, Math.min(ahead, window.count)));
    }
    return added;
  };
  return {
    add: (additions) => Promise.all(additions.map(addOne)),
    giveBack: async (window, times) => own.giveBack(window, times),
    async read(window) {
      if (!own.windows.has(windowOf(window))) await load(window);
      return own.read(window);
    },
    async reset(window) {
      own.reset(window);
      await bytes.delete(encryption.name(storedKey(windowOf(window)))).catch(() => undefined);
    },
    async close() {
      const ahead = [...own.windows.entries()].filter(
        ([, { count, saved, until }]) => saved !== count && until > now(),
      );
      await Promise.all(ahead.map(([key, counted]) => save(key, counted, counted.count)));
    },
  };
}
