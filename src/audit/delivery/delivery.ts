// Delivers the audit log to the targets in the settings, each at its own pace, while this process holds the lease.
import { createHash } from 'node:crypto';
import type { Logger } from 'pino';
import { type BackgroundLoop, startLoop } from '../../background-loop.ts';
import type { Network } from '../../http/guarded-request.ts';
import type { DeliveryBacklog, Metrics } from '../../observability/metrics.ts';
import type { DeliveryTarget } from '../../settings/audit-delivery.ts';
import type { ForwardProxy } from '../../settings/forward-proxy.ts';
import { KEEP } from '../../store/store.ts';
import { type AuditServices, recordAudit } from '../audit.ts';
import { type Verdict, verdictOnAnswer, verdictOnError, wordsOf } from './answer.ts';
import { IS_GAPLESS, lastItemNumber, type NumberedItem, readItemsAfter } from './items.ts';
import { type Lease, openLease, RENEWAL_MS } from './lease.ts';
import {
  deliveredBytes,
  deliveredItem,
  hasArguments,
  openRenderer,
  type Renderer,
} from './render.ts';
import { sendToReceiver } from './send.ts';
import {
  accepted,
  advance,
  type Batch,
  type DeliveryProgress,
  failed,
  findProgress,
  halved,
  held,
  isRefusingAll,
  newBatch,
  newProgress,
  rejected,
  type Rendering,
  PROGRESS_TTL,
  progressKey,
  withoutArguments,
} from './progress.ts';
import { deliveryStatus } from './status.ts';

type DeliveryMetrics = Pick<
  Metrics,
  'deliveryFailure' | 'deliveryRejected' | 'deliveryLost' | 'watchDelivery' | 'auditEvent'
>;

export type DeliveryServices = Omit<AuditServices, 'metrics'> & {
  metrics: DeliveryMetrics;
  logger: Logger;
  version: string;
};

export type DeliveryOptions = {
  targets: readonly DeliveryTarget[];
  forwardProxy?: ForwardProxy;
  /** Only tests set these. */
  network?: Partial<Network>;
  attemptMs?: number;
};

const POLL_MS = 1000;
const ATTEMPT_MS = 15_000;
const MAX_ITEMS = 500;
const MAX_BYTES = 900_000;

/** Does nothing in processes that do not hold the lease. `stop` ends attempts; another process then sends their batches again. */
export function startAuditDelivery(
  services: DeliveryServices,
  options: DeliveryOptions,
): BackgroundLoop {
  const { store, metrics, logger } = services;
  const { targets } = options;
  metrics.watchDelivery(
    targets.map(({ id }) => id),
    () => Promise.all(targets.map((target) => backlogOf(services, target))),
  );
  const lease = openLease(store);
  // The store reports its own failures.
  const keep = () => lease.keep().catch(() => undefined);
  const first = keep();
  const loops = [
    startLoop(async () => {
      await keep();
      return RENEWAL_MS;
    }),
    ...targets.map((target) => {
      const deliverNext = deliverer(services, options, target, lease);
      return startLoop(async (signal) => {
        await first;
        return deliverNext(signal).catch((error: unknown) => {
          logger.warn({ err: error, target: target.id }, 'the audit log could not be delivered');
          return POLL_MS;
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
    oldest: oldestAt === undefined ? 0 : Math.max(0, now() - oldestAt),
    ...(state === 'refused' ? { refused: reason ?? '' } : {}),
  };
}

/** Returns a function that sends at most one batch, and resolves to the milliseconds before its next call. */
function deliverer(
  services: DeliveryServices,
  options: DeliveryOptions,
  target: DeliveryTarget,
  lease: Lease,
): (signal: AbortSignal) => Promise<number> {
  const { store, now } = services;
  const ledger = openLedger(services, target);
  let renderer: Renderer | undefined;
  /** A process that begins to deliver tries at once what was refused, because its settings may have changed. */
  let hasTried = false;

  return async function deliverNext(signal) {
    if (!lease.isHeld()) {
      hasTried = false;
      return POLL_MS;
    }
    const progress = await ledger.read();
    const wait = progress.retryAt === undefined ? 0 : progress.retryAt - now();
    const mayTry = progress.state === 'refused' && !hasTried;
    if (wait > 0 && !mayTry) return Math.min(POLL_MS, wait * 1000);
    const items = await itemsToSend(store, target, progress);
    if (items.kind === 'none') return POLL_MS;
    if (items.kind === 'skip') {
      await ledger.skip(progress, items);
      return 0;
    }
    renderer ??= await openRenderer(target, services.version);
    const { batch, sent, body, newest } = prepare(renderer, progress, items, now());
    if (!(await ledger.begin(progress, batch, items.lost))) return 0;
    if (!lease.isHeld()) return POLL_MS;
    hasTried = true;
    const verdict = await attempt(renderer, batch, body, signal);
    if (signal.aborted) return 0;
    await ledger.settle(batch, sent, verdict, newest);
    return 0;
  };

  async function attempt(
    { headers, rejectedIn }: Renderer,
    { id }: Batch,
    body: Uint8Array<ArrayBuffer>,
    stopping: AbortSignal,
  ): Promise<Outcome> {
    const { forwardProxy, network, attemptMs = ATTEMPT_MS } = options;
    const signal = AbortSignal.any([stopping, AbortSignal.timeout(attemptMs)]);
    try {
      const answer = await sendToReceiver(
        target,
        { body, headers: headers(id, body, now()) },
        { signal, ...(forwardProxy ? { forwardProxy } : {}), ...(network ? { network } : {}) },
      );
      const verdict = verdictOnAnswer(target, answer, now());
      const partly = verdict.kind === 'accept' ? rejectedIn(answer) : undefined;
      if (!partly) return verdict;
      return { ...verdict, partly: { ...partly, reason: wordsOf(target, partly.reason) } };
    } catch (error) {
      return verdictOnError(target, error);
    }
  }
}

/** `partly`: what the receiver refused of an accepted batch. */
type Outcome = Verdict & { partly?: { count: number; reason: string } };

type Range = { first: number; last: number };

/** `lost`: numbers that were trimmed before the target had them. */
type ItemsToSend =
  | { kind: 'none' }
  | { kind: 'skip'; last: number; lost: readonly Range[] }
  | {
      kind: 'items';
      items: readonly NumberedItem[];
      first: number;
      last: number;
      lost: readonly Range[];
      /** Undefined for new items. */
      batch: Batch | undefined;
    };

/** Returns the items of the batch in progress, or the next ones. */
async function itemsToSend(
  store: DeliveryServices['store'],
  target: DeliveryTarget,
  { delivered, reached, batches }: DeliveryProgress,
): Promise<ItemsToSend> {
  const [batch] = batches;
  const first = batch?.first ?? delivered + 1;
  const { found, isAll } = await readBatch(store, first, batch?.last ?? Infinity);
  const last = batch && isAll ? batch.last : found.at(-1)?.number;
  if (last === undefined) return { kind: 'none' };
  const lost = batch || !IS_GAPLESS ? [] : missing(found, Math.max(first, reached + 1));
  const items = found.filter((item) => isSent(target, item));
  if (items.length === 0) return { kind: 'skip', last, lost };
  return { kind: 'items', items, first, last, lost, batch };
}

const PAGE_ITEMS = 100;

/** Returns the items from `first` to `last`, or about as many as a batch can have. `isAll`: there are no more. */
async function readBatch(
  store: DeliveryServices['store'],
  first: number,
  last: number,
): Promise<{ found: NumberedItem[]; isAll: boolean }> {
  const found: NumberedItem[] = [];
  let bytes = 0;
  while (found.length < MAX_ITEMS && bytes < MAX_BYTES) {
    const page = await readItemsAfter(store, found.at(-1)?.number ?? first - 1, PAGE_ITEMS);
    const wanted = page.filter(({ number }) => number <= last);
    found.push(...wanted);
    bytes += wanted.reduce((sum, item) => sum + deliveredBytes(item), 0);
    if (wanted.length < PAGE_ITEMS) return { found, isAll: true };
  }
  return { found, isAll: false };
}

/** Items about what the target refused are never sent to it: it may refuse them too. */
function isSent(
  { id, events }: DeliveryTarget,
  { event, arguments: details }: NumberedItem,
): boolean {
  if (event === 'delivery_rejected' && isAbout(details, id)) return false;
  return events === undefined || events.includes(event);
}

function isAbout(details: unknown, target: string): boolean {
  return (details as { target?: unknown } | undefined)?.target === target;
}

/** The numbers from `from` to the last item that have no item. */
function missing(items: readonly NumberedItem[], from: number): Range[] {
  const gaps: Range[] = [];
  let next = from;
  for (const { number } of items) {
    if (number > next) gaps.push({ first: next, last: number - 1 });
    next = Math.max(next, number + 1);
  }
  return gaps;
}

type Prepared = {
  batch: Batch;
  sent: readonly NumberedItem[];
  body: Uint8Array<ArrayBuffer>;
  newest: number;
};

/** Renders the batch as before, if it was rendered; otherwise a new one, with as many items as fit. */
function prepare(
  renderer: Renderer,
  { newest: notBefore }: DeliveryProgress,
  { items, first, last, batch }: Extract<ItemsToSend, { kind: 'items' }>,
  now: number,
): Prepared {
  const isBare = batch?.withoutArguments === true;
  const render = (some: readonly NumberedItem[], rendering: Rendering) =>
    renderer.render(
      some.map((item) => deliveredItem(item, isBare)),
      rendering,
    );
  if (batch?.rendered && !renderer.isOutdated(batch.rendered, now)) {
    const same = render(items, batch.rendered);
    if (sha256(same.body) === batch.rendered.sha256) return { batch, sent: items, ...same };
  }
  const rendering = { at: now, notBefore };
  let sent = items;
  let { body, newest } = render(sent, rendering);
  while (body.length > MAX_BYTES && sent.length > 1) {
    const share = (0.9 * MAX_BYTES) / body.length;
    sent = sent.slice(0, Math.max(1, Math.floor(sent.length * share)));
    ({ body, newest } = render(sent, rendering));
  }
  const end = sent.length === items.length ? last : (sent.at(-1)?.number ?? last);
  const isNew = batch === undefined || batch.rendered !== undefined || end !== batch.last;
  const limits = { first, last: end, ...(isBare ? { withoutArguments: true as const } : {}) };
  const rendered = { ...rendering, sha256: sha256(body) };
  const next = isNew ? newBatch({ ...limits, rendered }) : { ...batch, rendered };
  return { batch: next, sent, body, newest };
}

function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('base64url');
}

/** The stored state of a target, and what has to be told when it changes. */
function openLedger(services: DeliveryServices, target: DeliveryTarget) {
  const { store, metrics, logger, now } = services;
  const { id } = target;
  const key = progressKey(id);

  /** Saves a change unless the state was changed meanwhile by another process, or to send items again. */
  async function change(
    isExpected: (current: DeliveryProgress) => boolean,
    next: (current: DeliveryProgress) => DeliveryProgress,
  ): Promise<DeliveryProgress | undefined> {
    let isChanged = false;
    const found = await store.update<DeliveryProgress>(key, (current) => {
      isChanged = current !== undefined && isExpected(current);
      return current && isChanged ? { value: next(current), ttl: PROGRESS_TTL } : KEEP;
    });
    return isChanged ? found?.value : undefined;
  }

  const isUnchanged =
    ({ delivered, batches }: DeliveryProgress) =>
    (current: DeliveryProgress) =>
      current.delivered === delivered && current.batches[0]?.id === batches[0]?.id;
  const isInProgress =
    ({ id: wanted }: Batch) =>
    ({ batches }: DeliveryProgress) =>
      batches[0]?.id === wanted;

  async function reportLost(lost: readonly Range[]): Promise<void> {
    for (const { first, last } of lost) {
      const count = last - first + 1;
      const details = { target: id, first, last, count };
      await recordAudit(services, { event: 'delivery_lost', outcome: 'done', arguments: details });
      metrics.deliveryLost(id, count);
      logger.error(details, 'audit items were trimmed before a target had them');
    }
  }

  async function reportRejected(
    items: readonly NumberedItem[],
    count: number,
    answer: string,
  ): Promise<void> {
    metrics.deliveryRejected(id, count);
    // Two targets that refuse everything would produce such items for each other without end.
    if (items.every(({ event }) => event === 'delivery_rejected')) return;
    const [first] = items;
    const details = {
      target: id,
      ...(items.length === 1 && first ? { item: first.id } : {}),
      count,
      ...(answer === '' ? {} : { answer }),
    };
    const event = 'delivery_rejected';
    await recordAudit(services, { event, outcome: 'done', arguments: details });
  }

  const lostItems = (lost: readonly Range[]) =>
    lost.reduce((sum, { first, last }) => sum + last - first + 1, 0);

  return {
    async read(): Promise<DeliveryProgress> {
      const progress = await findProgress(store, id);
      if (progress) return progress;
      // A new target gets everything that is still stored.
      const [oldest] = await readItemsAfter(store, 0, 1);
      const delivered = oldest ? oldest.number - 1 : await lastItemNumber(store);
      const added = { value: newProgress(delivered), ttl: PROGRESS_TTL };
      const found = await store.update<DeliveryProgress>(key, (current) =>
        current ? KEEP : added,
      );
      return found?.value ?? added.value;
    },

    /** There was nothing to send up to `last`. */
    async skip(
      progress: DeliveryProgress,
      { last, lost }: { last: number; lost: readonly Range[] },
    ) {
      await reportLost(lost);
      await change(isUnchanged(progress), (current) => ({
        ...advance(current, last),
        lost: current.lost + lostItems(lost),
      }));
    },

    /** Stores the limits of a batch before it is sent. Returns whether it may be sent. */
    async begin(
      progress: DeliveryProgress,
      batch: Batch,
      lost: readonly Range[],
    ): Promise<boolean> {
      const [current] = progress.batches;
      if (current === batch) return true;
      await reportLost(lost);
      const rest = progress.batches.slice(1);
      if (current && batch.last < current.last)
        rest.unshift(newBatch({ first: batch.last + 1, last: current.last }));
      const begun = await change(isUnchanged(progress), (stored) => ({
        ...stored,
        batches: [batch, ...rest],
        lost: stored.lost + lostItems(lost),
        // What follows lost items is not lost again.
        reached: Math.max(stored.reached, batch.first - 1, ...lost.map(({ last }) => last)),
      }));
      return begun !== undefined;
    },

    /** `items` are those of the batch. */
    async settle(
      batch: Batch,
      items: readonly NumberedItem[],
      outcome: Outcome,
      newest: number,
    ): Promise<void> {
      if (outcome.kind === 'accept') {
        const { count = 0, reason = '' } = outcome.partly ?? {};
        if (count > 0) await reportRejected(items, count, reason);
        let wasFailing = false;
        await change(isInProgress(batch), (progress) => {
          wasFailing = progress.state !== 'delivering';
          const next = accepted(progress, batch, { now: now(), newest });
          return { ...next, rejected: next.rejected + count };
        });
        if (wasFailing) logger.info({ target: id }, 'the audit log is delivered again');
        return;
      }
      metrics.deliveryFailure(id);
      const progress = await findProgress(store, id);
      if (!progress || !isInProgress(batch)(progress)) return;
      const next = afterFailure(progress, batch, items, outcome, {
        now: now(),
        random: Math.random(),
      });
      if (next.rejected > progress.rejected) await reportRejected(items, 1, outcome.reason);
      await change(isInProgress(batch), () => next);
      if (progress.state === next.state) return;
      const details = { target: id, reason: outcome.reason };
      logger.warn(details, `the audit log is not delivered: ${next.state}`);
    },
  };
}

function afterFailure(
  progress: DeliveryProgress,
  batch: Batch,
  items: readonly NumberedItem[],
  outcome: Exclude<Outcome, { kind: 'accept' }>,
  at: { now: number; random: number },
): DeliveryProgress {
  const failure = { reason: outcome.reason, ...at };
  if (outcome.kind === 'hold') return held(progress, failure);
  if (outcome.kind === 'retry') return failed(progress, { ...failure, wait: outcome.wait });
  const middle = items[Math.floor((items.length - 1) / 2)];
  if (middle && items.length > 1) return halved(progress, batch, middle.number);
  if (!batch.withoutArguments && items.some(hasArguments)) return withoutArguments(progress, batch);
  return isRefusingAll(progress) ? held(progress, failure) : rejected(progress, batch, failure);
}
