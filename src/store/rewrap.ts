// A pass over the store: encrypts what older keys encrypted with the newest one, counts what nobody can read, and ends the older keys.
import { setTimeout as delay } from 'node:timers/promises';
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import { type ByteStore, FIELD_LENGTH, type StoredPlace, type Transform } from './byte-store.ts';
import {
  type DataSecret,
  fingerprintOf,
  nameKeyOf,
  newDataSecret,
  newestOf,
  valueRing,
  wrap,
} from './data-keys.ts';
import { memberPlace } from './encrypted-store.ts';
import { createEncryption } from './encryption.ts';
import type { RootSecrets } from './key-derivation.ts';
import { EARLIER_SECRET, hasNewestSecret, type KeysState, type StoredKeys } from './stored-keys.ts';
import type { StoreLogger } from './store.ts';

export type RewrapLogger = StoreLogger & { info(details: object, message: string): void };

/** All in seconds. */
export type RewrapIntervals = {
  /** Between two batches that replaced something, to limit the load on the store. */
  pause: number;
  /** Between two log lines about progress. */
  report: number;
  /** Before a new attempt after the store failed. */
  retry: number;
  /** Between two readings of the keys. */
  follow: number;
  /** After this time, every process has read changed keys. */
  settle: number;
};

const INTERVALS: RewrapIntervals = { pause: 0.02, report: 30, retry: 10, follow: 5, settle: 20 };

/**
 * How much of the store is encrypted with the newest keys: records, and the record of the keys. `failed`: nobody can read them; `unreadable` names
 * some of them.
 */
export type RewrapProgress = {
  total: number;
  done: number;
  remaining: number;
  failed: number;
  unreadable: readonly string[];
};

/** The message says why this process does not do it. */
export class RewrapRefused extends Error {
  override name = 'RewrapRefused';
}

export type RewrapOptions = {
  /** Encrypts everything with new keys, and ends the earlier ones and what was signed with them. */
  newDataKeys?: boolean | undefined;
  /** Returns after this time, in milliseconds, while the pass goes on. */
  waitMs: number;
};

export type Rewrap = {
  /** Follows the keys, and runs passes that are needed, in the background. Stop it before closing the store. */
  start(logger: RewrapLogger, intervals?: Partial<RewrapIntervals>): BackgroundLoop;
  /** Runs a pass. Throws RewrapRefused. */
  run(options: RewrapOptions): Promise<RewrapProgress>;
};

const STARTED =
  'records that are encrypted with older keys are being re-encrypted with the newest one';
const INTERRUPTED = 're-encryption was interrupted and will be retried';
const IN_PROGRESS = 're-encryption in progress';
const DONE = 'no record is encrypted with older keys any more';
const UNREADABLE =
  'records cannot be read with any key of this store: gatehouse keys rewrap names them';

const MAX_NAMED = 20;

export function rewrapStore(bytes: ByteStore, keys: StoredKeys, secrets: RootSecrets): Rewrap {
  let intervals = INTERVALS;
  let logger: RewrapLogger | undefined;
  let progress: RewrapProgress = { total: 1, done: 0, remaining: 1, failed: 0, unreadable: [] };
  let running: Promise<void> | undefined;
  /** What a call of `run` began. It ends the earlier root secrets, so later calls wait for it. */
  let begun: Promise<void> | undefined;
  /** When this process first saw the keys as they are. */
  let seen = { record: '', at: performance.now() };
  const settledAt = () => {
    const record = keys
      .state()
      .envelope.wrapped.map((each) => each.keys)
      .join(' ');
    if (record !== seen.record) seen = { record, at: performance.now() };
    return seen.at + intervals.settle * 1000;
  };

  /** Passes until one has found nothing to replace, because records may move within the store during a pass. */
  const passUntilDone = async (endsRootSecrets: boolean, signal?: AbortSignal) => {
    for (;;) {
      await keys.follow();
      if (hasNext(keys.state())) {
        await waitUntil(settledAt(), signal);
        await keys.change((state) => activated(state, secrets));
        continue;
      }
      const isSettled = !isLeaving(keys.state()) || performance.now() >= settledAt();
      const tally = await pass(signal);
      if (tally.older > 0) continue;
      if (!isSettled) {
        await waitUntil(settledAt(), signal);
        continue;
      }
      await keys.change((state) => finished(state, secrets, endsRootSecrets));
      const isOpen = keys.state().envelope.wrapped.length > 1 ? 1 : 0;
      const { total, failed, unreadable } = tally;
      progress = { total, done: total - failed - isOpen, remaining: isOpen, failed, unreadable };
      if (failed > 0) logger?.warn({ failed }, UNREADABLE);
      return;
    }
  };

  const pass = async (signal?: AbortSignal): Promise<Tally> => {
    const total = hasOlder(keys.state()) ? (await examine()).total : 0;
    const { tally, transform } = tallying(keys.state());
    let replaced = 0;
    let next = performance.now() + intervals.report * 1000;
    for await (const count of bytes.rewrite(transform)) {
      replaced += count;
      const known = Math.max(total, tally.total);
      const done = tally.done + replaced;
      const { failed, unreadable } = tally;
      const remaining = Math.max(1, known - done - failed);
      progress = { total: done + failed + remaining, done, remaining, failed, unreadable };
      if (replaced > 0 && performance.now() > next) {
        next = performance.now() + intervals.report * 1000;
        logger?.info({ reencrypted: replaced }, IN_PROGRESS);
      }
      signal?.throwIfAborted();
      if (count > 0) await delay(intervals.pause * 1000, undefined, { signal, ref: false });
    }
    if (replaced > 0) logger?.info({ reencrypted: replaced }, DONE);
    return tally;
  };

  const examine = async (): Promise<Tally> => {
    const { tally, transform } = tallying(keys.state());
    for await (const _count of bytes.rewrite((...each) => void transform(...each)));
    return tally;
  };

  const runOnce = (endsRootSecrets: boolean, signal?: AbortSignal): Promise<void> => {
    running ??= passUntilDone(endsRootSecrets, signal).finally(() => {
      running = undefined;
    });
    return running;
  };

  return {
    start(log, changed = {}) {
      logger = log;
      intervals = { ...INTERVALS, ...changed };
      let isInterrupted = false;
      let isAnnounced = false;
      return startLoop(async (signal) => {
        try {
          await keys.follow();
          settledAt();
          if (needsPass(keys.state(), secrets)) {
            if (!isAnnounced && hasOlder(keys.state())) log.info({}, STARTED);
            isAnnounced = true;
            await runOnce(false, signal);
          }
          isInterrupted = false;
          return intervals.follow * 1000;
        } catch (cause) {
          signal.throwIfAborted();
          if (!isInterrupted) log.warn({ err: cause }, INTERRUPTED);
          isInterrupted = true;
          return intervals.retry * 1000;
        }
      });
    },
    async run({ newDataKeys, waitMs }) {
      await keys.follow();
      if (!hasNewestSecret(keys.state(), secrets)) throw new RewrapRefused(EARLIER_SECRET);
      const work = async () => {
        // A pass in the background may not end the earlier root secrets.
        if (running) await running;
        if (newDataKeys) {
          // The keys cannot be encrypted with root secrets that this process does not know.
          if (keys.state().envelope.wrapped.length > 1) await runOnce(true);
          await keys.change((state) => withNext(state, secrets));
        }
        await runOnce(true);
      };
      const waited = newDataKeys || !begun ? work() : begun;
      begun = waited;
      const forget = () => {
        if (begun === waited) begun = undefined;
      };
      waited.then(forget, forget);
      progress = { ...progress, remaining: Math.max(1, progress.remaining) };
      await Promise.race([waited, delay(waitMs, undefined, { ref: false })]);
      return progress;
    },
  };
}

async function waitUntil(time: number, signal?: AbortSignal): Promise<void> {
  await delay(Math.max(0, time - performance.now()), undefined, { signal, ref: false });
}

function hasNext({ keys }: KeysState): boolean {
  return keys.secrets.some(({ use }) => use === 'next');
}

function hasOlder({ keys }: KeysState): boolean {
  return keys.secrets.some(({ use }) => use === 'old' || use === 'leaving');
}

function isLeaving({ keys }: KeysState): boolean {
  return keys.secrets.some(({ use }) => use === 'leaving');
}

function needsPass(state: KeysState, secrets: RootSecrets): boolean {
  if (!hasNewestSecret(state, secrets)) return false;
  return hasNext(state) || hasOlder(state) || mayEndRootSecrets(state, secrets);
}

/** A process with the newest root secret alone says that no other is in use. */
function mayEndRootSecrets(state: KeysState, secrets: RootSecrets): boolean {
  const isOther = state.envelope.wrapped.length > 1;
  return isOther && secrets.previousSecret === undefined && hasNewestSecret(state, secrets);
}

// Changes of the record of the keys

/** The record with other data secrets, encrypted with the current root secret alone. */
function withSecrets(
  { envelope, keys }: KeysState,
  dataSecrets: readonly DataSecret[],
  { secret }: RootSecrets,
): KeysState {
  const next = { ...keys, secrets: dataSecrets };
  const own = fingerprintOf(secret);
  const replaced = envelope.wrapped.flatMap(({ by }) => (by === own ? [] : [by]));
  return {
    keys: next,
    envelope: {
      ...envelope,
      wrapped: [wrap(next, secret)],
      newest: newestOf(next),
      replaced: [...new Set([...envelope.replaced, ...replaced])],
    },
  };
}

function withNext(state: KeysState, secrets: RootSecrets): KeysState | undefined {
  if (hasNext(state) || isLeaving(state)) return undefined;
  const { keys } = state;
  const added: DataSecret = { secret: newDataSecret(), use: 'next' };
  return withSecrets(state, [...keys.secrets, added], secrets);
}

function activated(state: KeysState, secrets: RootSecrets): KeysState | undefined {
  const next = state.keys.secrets.find(({ use }) => use === 'next');
  if (!next) return undefined;
  const others = state.keys.secrets.filter((each) => each !== next);
  const leaving = others.map(({ secret }): DataSecret => ({ secret, use: 'leaving' }));
  return withSecrets(state, [{ ...next, use: 'newest' }, ...leaving], secrets);
}

function finished(
  state: KeysState,
  secrets: RootSecrets,
  endsRootSecrets: boolean,
): KeysState | undefined {
  const { envelope, keys } = state;
  const isChanged = hasOlder(state);
  const ends =
    envelope.wrapped.length > 1 && (endsRootSecrets || mayEndRootSecrets(state, secrets));
  if (!isChanged && !ends) return undefined;
  const kept = keys.secrets
    .filter(({ use }) => use !== 'leaving')
    .map((each): DataSecret => (each.use === 'old' ? { ...each, use: 'signatures' } : each));
  const own = fingerprintOf(secrets.secret);
  // The root secrets of version 0.1.0 encrypted values themselves.
  const earlier = keys.secrets.flatMap(({ secret, use }) =>
    use === 'old' && fingerprintOf(secret) !== own ? [fingerprintOf(secret)] : [],
  );
  const next = withSecrets(state, kept, secrets);
  const replaced = [...new Set([...next.envelope.replaced, ...earlier])];
  return { ...next, envelope: { ...next.envelope, replaced } };
}

// One record

/** `total` includes the record of the keys, which is read already. */
type Tally = { total: number; done: number; older: number; failed: number; unreadable: string[] };

function tallying({ keys }: KeysState): { tally: Tally; transform: Transform } {
  const nameKey = nameKeyOf(keys);
  const ring = valueRing(keys);
  const newest = createEncryption({ nameKey, ring: ring.slice(0, 1) });
  const all = createEncryption({ nameKey, ring });
  const tally: Tally = { total: 1, done: 1, older: 0, failed: 0, unreadable: [] };
  const transform: Transform = (encrypted, stored) => {
    if (!isOurs(stored)) return undefined;
    const { name, field } = stored;
    const place = field === undefined ? name : memberPlace(name, field);
    tally.total += 1;
    if (newest.decrypt(place, encrypted) !== undefined) {
      tally.done += 1;
      return undefined;
    }
    const value = all.decrypt(place, encrypted);
    if (value !== undefined) {
      tally.older += 1;
      return newest.encrypt(place, value);
    }
    tally.failed += 1;
    if (tally.unreadable.length < MAX_NAMED) tally.unreadable.push(nameOf(stored));
    return undefined;
  };
  return { tally, transform };
}

const NAME = new RegExp(`^([^:]+):[\\w-]{${FIELD_LENGTH}}$`);

/** The database may have keys of other programs. Counts of limits are numbers, and fields of other lengths belong to the head of a log. */
function isOurs({ name, field }: StoredPlace): boolean {
  const [, kind] = NAME.exec(name) ?? [];
  return (
    kind !== undefined && kind !== 'limit' && (field === undefined || field.length === FIELD_LENGTH)
  );
}

function nameOf({ name, field, entry }: StoredPlace): string {
  if (entry !== undefined) return `${name} entry ${entry}`;
  return field === undefined ? name : `${name} member ${field}`;
}
