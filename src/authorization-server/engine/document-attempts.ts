// Fetching kept within bounds: one attempt at a document at a time, few at once, failures remembered and equally slow.
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { StoreUnavailable } from '../../store/store.ts';
import { DocumentUnreachable, TIME_LIMIT } from './guarded-fetch.ts';

/** Too many documents are being fetched, or too many from this host or for this person; then with the seconds to wait. */
export class TooManyAttempts extends DocumentUnreachable {
  readonly seconds: number | undefined;

  constructor(message: string, seconds?: number) {
    super(message);
    this.seconds = seconds;
  }
}

/** Who has us fetch a document that we have no copy of. */
export type Asker = {
  /** Counts an attempt at this host. How many seconds to wait, when that was one too many. */
  take: (host: string) => Promise<number | undefined>;
  /** An attempt came to nothing. */
  failed: (host: string) => Promise<void>;
};

export type AttemptLimits = {
  /** How many at once, in all and from one host. */
  inAll: number;
  perHost: number;
  /** How many in a minute from one host by this process, whoever asks: strangers decide what we ask it for. */
  perMinute: number;
  /** Seconds that a failure takes at least: how fast one came would tell what answers where. */
  failureTime: number;
  /** Seconds for which a failed document is not tried again. */
  remembered: number;
};

export const ATTEMPT_LIMITS: AttemptLimits = {
  inAll: 64,
  perHost: 4,
  perMinute: 300,
  failureTime: TIME_LIMIT,
  remembered: 60,
};

const MAX_REMEMBERED = 5000;

/** `attempt` as it may be made for strangers. Rejects with TooManyAttempts, or with what the attempt, maybe an earlier one, rejected with. */
export function limitedAttempts<T>(
  attempt: (url: string) => Promise<T>,
  limits: AttemptLimits,
  now: () => number,
): (url: string, asker?: Asker) => Promise<T> {
  const failures = new LRUCache<string, { error: unknown; at: number }>({ max: MAX_REMEMBERED });
  const underWay = new Map<string, Promise<T>>();
  const requireTurn = turns(limits.perMinute, now);

  const remember = (url: string, error: unknown) => failures.set(url, { error, at: now() });

  const begin = (url: string, asker?: Asker) => {
    const { host } = new URL(url);
    requireRoom(underWay, url, limits);
    requireTurn(host);
    const making = slowFailure(attempt(url), limits.failureTime, (error) => {
      remember(url, error);
      void asker?.failed(host);
    }).finally(() => underWay.delete(url));
    underWay.set(url, making);
    return making;
  };
  const requireNoFailure = (url: string) => {
    const failure = failures.get(url);
    if (failure && now() - failure.at < limits.remembered) throw failure.error;
  };

  return async (url, asker) => {
    requireNoFailure(url);
    const known = underWay.get(url);
    if (known) return known;
    const wait = await asker?.take(new URL(url).host);
    if (wait !== undefined) throw new TooManyAttempts('too many documents were asked for', wait);
    requireNoFailure(url);
    return underWay.get(url) ?? begin(url, asker);
  };
}

function requireRoom(
  underWay: ReadonlyMap<string, unknown>,
  url: string,
  { inAll, perHost }: AttemptLimits,
): void {
  const { host } = new URL(url);
  const sameHost = [...underWay.keys()].filter((other) => new URL(other).host === host);
  if (underWay.size >= inAll || sameHost.length >= perHost)
    throw new TooManyAttempts('too many documents are being fetched');
}

const MINUTE = 60;
const MAX_COUNTED = 5000;

/** Counts what is asked of each host, minute by minute. */
function turns(perMinute: number, now: () => number): (host: string) => void {
  const counts = new LRUCache<string, { since: number; count: number }>({ max: MAX_COUNTED });
  return (host) => {
    const last = counts.get(host);
    const current = last && now() - last.since < MINUTE ? last : { since: now(), count: 0 };
    if (current.count >= perMinute)
      throw new TooManyAttempts('too many documents were fetched from this host');
    counts.set(host, { ...current, count: current.count + 1 });
  };
}

/** A fault of the store is none of the document's, and is passed on as it comes. */
async function slowFailure<T>(
  attempt: Promise<T>,
  seconds: number,
  onFailure: (error: unknown) => void,
): Promise<T> {
  const startedAt = performance.now();
  try {
    return await attempt;
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    await delay(Math.max(0, seconds * 1000 - (performance.now() - startedAt)));
    onFailure(error);
    throw error;
  }
}
