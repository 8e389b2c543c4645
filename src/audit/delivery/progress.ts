// How far each target has the audit log, in one record that every process can read. The functions that change it are pure.
import { randomBytes } from 'node:crypto';
import type { Store } from '../../store/store.ts';

export const MAX_BATCH_ITEMS = 500;

/** Some successive items. Its limits are stored before it is sent, so that a retry has the same id and body in every process. */
export type Batch = {
  /** Contains no full stop (Standard Webhooks). */
  id: string;
  /** Numbers of items, inclusive. */
  first: number;
  last: number;
  withoutArguments?: true;
  /** What the body was rendered with at the first attempt. If it cannot be rendered again, for example after arguments were forgotten, the batch gets another id. */
  rendered?: Rendering & { sha256: string };
};

/** Seconds since the epoch. */
export type Rendering = {
  at: number;
  /** The newest time in the records that the receiver has. Some receivers refuse records that are older. */
  notBefore: number;
};

export const DELIVERY_STATES = ['delivering', 'retrying', 'refused'] as const;

/** The receiver has the items up to the number `delivered`, which has the `epoch` and the `id`, or they were given up. */
export type Place = { delivered: number; epoch: string; id?: string };

/** The last item of a batch. */
export type Delivered = { number: number; id: string };

/** Times are seconds since the epoch. */
export type DeliveryProgress = Place & {
  /** The highest that `delivered` ever was: items are sent again below it. */
  reached: number;
  /** The ends of the last batches, oldest first: a failover may give their numbers to other items. Earlier versions did not store them. */
  trail?: readonly Delivered[];
  /** Batches in progress, in order: several after one was halved. */
  batches: readonly Batch[];
  /** Single items that the receiver refused in a row. */
  refusals: number;
  /** `refused`: the receiver refuses everything until somebody changes something. */
  state: (typeof DELIVERY_STATES)[number];
  /** Attempts that failed in a row. */
  failures: number;
  retryAt?: number;
  /** Why the last attempt failed, without control characters and secrets. */
  reason?: string;
  failedAt?: number;
  deliveredAt?: number;
  /** The newest time in the records that the receiver has. */
  newest: number;
  /** Since the target exists. */
  rejected: number;
  lost: number;
};

export const progressKey = (target: string) => `audit-delivery:${target}`;

/** A target that returns to the settings continues at its place. */
export const PROGRESS_TTL = Infinity;

export async function findProgress(
  store: Store,
  target: string,
): Promise<DeliveryProgress | undefined> {
  return (await store.get<DeliveryProgress>(progressKey(target)))?.value;
}

export function newProgress(place: Place): DeliveryProgress {
  return {
    ...place,
    reached: place.delivered,
    batches: [],
    refusals: 0,
    state: 'delivering',
    failures: 0,
    newest: 0,
    rejected: 0,
    lost: 0,
  };
}

export function newBatch(batch: Omit<Batch, 'id'>): Batch {
  return { id: `msg_${randomBytes(18).toString('base64url')}`, ...batch };
}

const MAX_TRAIL = 20;

/** The batch in progress has arrived, or was given up. */
export function advance(
  progress: DeliveryProgress,
  { delivered, epoch, id }: Place,
): DeliveryProgress {
  const { trail = [] } = progress;
  const added = id === undefined ? [] : [{ number: delivered, id }];
  return {
    ...progress,
    delivered,
    epoch,
    trail: [...trail, ...added].slice(-MAX_TRAIL),
    reached: Math.max(progress.reached, delivered),
    batches: progress.batches.slice(1),
  };
}

export function accepted(
  progress: DeliveryProgress,
  place: Place,
  { now, newest }: { now: number; newest: number },
): DeliveryProgress {
  const { retryAt: _retryAt, reason: _reason, ...others } = advance(progress, place);
  return {
    ...others,
    refusals: 0,
    state: 'delivering',
    failures: 0,
    deliveredAt: now,
    newest: Math.max(progress.newest, newest),
  };
}

const HOLD_SECONDS = 300;
const MAX_RETRY_SECONDS = 300;

/** `random` is from 0 to 1. Processes and targets do not retry at the same moment. */
function jittered(seconds: number, random: number): number {
  return seconds * (0.8 + 0.4 * random);
}

export type Failure = { reason: string; now: number; random: number };

/** Until the receiver or the settings change, everything would be refused. */
export function held(
  progress: DeliveryProgress,
  { reason, now, random }: Failure,
): DeliveryProgress {
  return {
    ...progress,
    state: 'refused',
    failures: progress.failures + 1,
    failedAt: now,
    reason,
    retryAt: now + jittered(HOLD_SECONDS, random),
  };
}

/** `wait` is what the receiver asks for, in seconds. */
export function failed(
  progress: DeliveryProgress,
  { reason, now, random, wait }: Failure & { wait: number | undefined },
): DeliveryProgress {
  const growing = Math.min(2 ** Math.min(progress.failures, 20), MAX_RETRY_SECONDS);
  return {
    ...progress,
    state: 'retrying',
    failures: progress.failures + 1,
    failedAt: now,
    reason,
    retryAt: now + (wait ?? jittered(growing, random)),
  };
}

/** Halves the batch after an item in it. Both halves are new messages. */
export function halved(progress: DeliveryProgress, batch: Batch, middle: number): DeliveryProgress {
  const { first, last } = batch;
  const halves = [newBatch({ first, last: middle }), newBatch({ first: middle + 1, last })];
  return { ...progress, batches: [...halves, ...progress.batches.slice(1)] };
}

export function withoutArguments(
  progress: DeliveryProgress,
  { first, last }: Batch,
): DeliveryProgress {
  const batch = newBatch({ first, last, withoutArguments: true });
  return { ...progress, batches: [batch, ...progress.batches.slice(1)] };
}

/** Above, the receiver seems to refuse everything, so that no more items are given up. */
const MAX_REFUSALS = 10;

export function isRefusingAll({ refusals }: DeliveryProgress): boolean {
  return refusals >= MAX_REFUSALS;
}

/** Gives up a single item. */
export function rejected(
  progress: DeliveryProgress,
  place: Place,
  failure: Failure,
): DeliveryProgress {
  const next = {
    ...advance(progress, place),
    refusals: progress.refusals + 1,
    rejected: progress.rejected + 1,
  };
  return isRefusingAll(next) ? held(next, failure) : next;
}

/** Goes back to a place, from where the items are sent again as new batches. */
export function resent(progress: DeliveryProgress, { delivered, epoch }: Place): DeliveryProgress {
  const { retryAt: _retryAt, trail = [], ...others } = progress;
  const left = trail.filter(({ number }) => number <= delivered);
  return { ...others, delivered, epoch, trail: left, batches: [] };
}

/** As `resent`, after the numbers above the place were given again. */
export function rolledBack(progress: DeliveryProgress, place: Place): DeliveryProgress {
  return { ...resent(progress, place), reached: place.delivered };
}
