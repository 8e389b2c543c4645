// Delivers the audit log to the targets in the settings, each at its own pace, while this process holds the lease.
import { type BackgroundLoop, startLoop } from '../../background-loop.ts';
import type { Network } from '../../http/guarded-request.ts';
import type { DeliveryBacklog, Metrics } from '../../observability/metrics.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { ForwardProxy } from '../../settings/forward-proxy.ts';
import { type Lease, openLease } from '../lease.ts';
import { MAX_WAIT_SECONDS, verdictOnAnswer, verdictOnError, wordsOf } from './answer.ts';
import { nextItems, prepareBatch, type PreparedBatch } from './batch.ts';
import { type LedgerServices, openLedger, type Outcome } from './ledger.ts';
import { openRenderer, type Renderer } from './render.ts';
import { rolledBackTo } from './rollback.ts';
import { sendToReceiver } from './send.ts';
import { deliveryStatus } from './status.ts';

export type DeliveryServices = LedgerServices & {
  metrics: Pick<Metrics, 'watchDelivery'>;
  version: string;
};

export type DeliveryOptions = {
  targets: readonly DeliveryTarget[];
  forwardProxy?: ForwardProxy;
  /** Only tests set these. */
  network?: Partial<Network>;
  attemptMs?: number;
  pollMs?: number;
};

const POLL_MS = 1000;
const ATTEMPT_MS = 15_000;

/** Does nothing in processes that do not hold the lease. `stop` ends attempts; another process then sends their batches again. */
export function startAuditDelivery(
  services: DeliveryServices,
  options: DeliveryOptions,
): BackgroundLoop {
  const { store, metrics, logger } = services;
  const { targets, pollMs = POLL_MS } = options;
  metrics.watchDelivery(
    targets.map(({ id }) => id),
    () => Promise.all(targets.map((target) => backlogOf(services, target))),
  );
  if (targets.length === 0) return { stop: () => Promise.resolve() };
  const lease = openLease(store, 'audit-delivery-lease:all');
  // The store reports its own failures.
  const keep = () => lease.keep().catch(() => POLL_MS);
  const first = keep();
  const loops = [
    startLoop(keep),
    ...targets.map((target) => {
      const deliverNext = deliverer(services, options, target, lease);
      return startLoop(async (signal) => {
        await first;
        return deliverNext(signal).catch((error: unknown) => {
          logger.warn({ err: error, target: target.id }, 'the audit log could not be delivered');
          return pollMs;
        });
      });
    }),
  ];
  return {
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()));
      await lease.release();
    },
  };
}

async function backlogOf(
  { store, now }: Pick<DeliveryServices, 'store' | 'now'>,
  target: DeliveryTarget,
): Promise<DeliveryBacklog> {
  const { id, backlog, oldestAt, state, reason } = await deliveryStatus(store, target);
  return {
    id,
    backlog,
    oldest: ageOf(backlog, oldestAt, now()),
    ...(state === 'refused' ? { refused: reason ?? '' } : {}),
  };
}

/** Infinity for items that nobody knows the age of, so that the alert fires. */
function ageOf(backlog: number, oldestAt: number | undefined, now: number): number {
  if (oldestAt === undefined) return backlog > 0 ? Infinity : 0;
  return Math.max(0, now - oldestAt);
}

/** Returns a function that sends at most one batch, and resolves to the milliseconds before its next call. */
function deliverer(
  services: DeliveryServices,
  options: DeliveryOptions,
  target: DeliveryTarget,
  lease: Lease,
): (signal: AbortSignal) => Promise<number> {
  const { store, now, version } = services;
  const { pollMs = POLL_MS } = options;
  const ledger = openLedger(services, target);
  let renderer: Renderer | undefined;
  /** A process that begins to deliver tries at once what was refused, because its settings may be other ones. */
  let hasTried = false;

  return async function deliverNext(signal) {
    if (!lease.isHeld()) {
      hasTried = false;
      return pollMs;
    }
    const progress = await ledger.read();
    const seconds = (progress.retryAt ?? -Infinity) - now();
    // A later time is of a clock that was ahead.
    const isEarly = seconds > 0 && seconds <= MAX_WAIT_SECONDS;
    const isHeldBack = progress.state !== 'refused' || hasTried;
    if (isEarly && isHeldBack) return Math.min(pollMs, seconds * 1000);
    const place = await rolledBackTo(store, progress);
    if (place) {
      await ledger.rollBack(progress, place);
      return pollMs;
    }
    const next = await nextItems(store, target, progress);
    if (!next) return pollMs;
    if (next.items.length === 0) {
      await ledger.skip(progress, next);
      return 0;
    }
    renderer ??= await openRenderer(target, version);
    const prepared = prepareBatch(renderer, progress, next, now());
    const begun = await ledger.begin(progress, prepared.batch, next.lost);
    if (!begun || !lease.isHeld()) return 0;
    hasTried = true;
    const outcome = await attempt(renderer, prepared, signal);
    if (!signal.aborted) await ledger.settle(begun, prepared, outcome);
    return 0;
  };

  async function attempt(
    { headers, rejectedIn }: Renderer,
    { batch, body }: PreparedBatch,
    stopping: AbortSignal,
  ): Promise<Outcome> {
    const { forwardProxy, network, attemptMs = ATTEMPT_MS } = options;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(attemptMs)]);
    try {
      const request = { body, headers: headers(batch.id, body, now()) };
      const answer = await sendToReceiver(target, request, {
        signal,
        ...(forwardProxy ? { forwardProxy } : {}),
        ...(network ? { network } : {}),
      });
      const verdict = verdictOnAnswer(target, answer, now());
      const partly = verdict.kind === 'accept' ? rejectedIn(answer) : undefined;
      if (!partly) return verdict;
      return { ...verdict, partly: { ...partly, reason: wordsOf(target, partly.reason) } };
    } catch (error) {
      return verdictOnError(target, error);
    }
  }
}
