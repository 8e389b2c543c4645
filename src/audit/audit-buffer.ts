// Items that nobody waits for, such as calls of levels that are not recorded: written in batches, at most a second later.
import type { Logger } from 'pino';
import type { DropReason } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import { type LogPart, StoreFull } from '../store/store.ts';
import { type AuditItem, type AuditServices, newItemId, storeAudit } from './audit.ts';
import type { LateWrite, NewAuditItem, StoredPlace } from './audit-log.ts';
import { noteReach } from './audit-reach.ts';

/** An item of the time `at` (seconds since the epoch). It gets its id and its time when it is written, and is not copied: it belongs to the buffer. */
export type WaitingItem = {
  at: number;
  item: Omit<AuditItem, 'id' | 'time'>;
  part: LogPart;
  /** The call that it ends. Such an item is never dropped: there are no more than open calls. */
  completes?: StoredPlace | undefined;
};

export type AuditBuffer = {
  /** Only adds to a list: the path of a call waits for nothing here. */
  add(item: WaitingItem): void;
  /** Of refused calls with the same key in a minute, the first is an item, and the others are one more with their number. */
  addRefused(key: string, item: WaitingItem): void;
  /** Counts one more, and returns false if the first of this minute is missing. */
  countRefused(key: string): boolean;
  /** Resolves when everything was written, or could not be. Never rejects. */
  close(): Promise<void>;
};

const FLUSH_MS = 500;
const RETRY_MS = 1000;
/** Each batch waits for the disk, and keeps the process from other work for some milliseconds. */
const BATCH_ITEMS = 500;
const MAX_WAITING = 10_000;
const MINUTE_MS = 60_000;
/** Of connections and reasons within a minute. */
const MAX_GROUPS = 10_000;

export type AuditBufferOptions = {
  services: AuditServices & { metrics: Pick<Metrics, 'auditDropped'>; logger: Logger };
  /** Whether the store has room for more than what must be in the log. */
  hasRoom: () => boolean;
  /** How long calls are kept, in seconds. */
  keepTime: () => number;
};

export function openAuditBuffer({ services, hasRoom, keepTime }: AuditBufferOptions): AuditBuffer {
  const { store, now, logger, metrics } = services;
  let waiting: WaitingItem[] = [];
  /** The front of `waiting`. After a failure, the same items are written again, so that they are not stored twice. */
  let batch: NewAuditItem[] = [];
  /** Of its first attempt that may have stored it. */
  let batchBegan: number | undefined;
  let late: LateWrite = { searched: 0 };
  /** Calls up to this time are missing, and the log does not say so yet. */
  let incompleteUntil = 0;
  let timer: NodeJS.Timeout | undefined;
  /** Resolves to whether it succeeded. Never rejects. */
  let writing: Promise<boolean> | undefined;
  /** Items of the front that are written without a pause. The others have a timer. */
  let due = 0;
  let refused = new Map<string, { item: WaitingItem; more: number }>();
  const dropped = new Map<DropReason, number>();

  const drop = (reason: DropReason, count = 1) => {
    dropped.set(reason, (dropped.get(reason) ?? 0) + count);
    metrics.auditDropped(reason, count);
  };
  const schedule = (milliseconds = FLUSH_MS) => {
    timer ??= setTimeout(flush, milliseconds).unref();
  };
  const unschedule = () => {
    clearTimeout(timer);
    timer = undefined;
  };
  const push = (item: WaitingItem) => {
    waiting.push(item);
    schedule();
  };
  const add = (item: WaitingItem) => {
    if (item.completes === undefined) {
      const { count } = item.item;
      if (waiting.length >= MAX_WAITING) return drop('buffer_full', count);
      if (item.part === 'bulk' && !hasRoom()) return drop('store_full', count);
    }
    push(item);
  };
  /** Keeps what could not be written for the next attempt. */
  const writeDue = async () => {
    // Of what comes meanwhile, a few items have to wait for more: they would cost as much as a batch.
    while (due > 0 || waiting.length >= BATCH_ITEMS) {
      const isAgain = batch.length > 0;
      if (!isAgain) {
        batch = waiting.slice(0, BATCH_ITEMS).map(identified);
        batchBegan = undefined;
        late = { searched: 0 };
      }
      const began = performance.now();
      const isLate = batchBegan !== undefined && began - batchBegan > store.tokenMs;
      const again = { token: batch[0]?.item.id, isAgain, late: isLate ? late : undefined };
      await storeAudit(services, batch, again).catch((error: unknown) => {
        // A full store has stored nothing.
        if (!(error instanceof StoreFull)) batchBegan ??= began;
        throw error;
      });
      waiting = waiting.slice(batch.length);
      due = Math.max(0, due - batch.length);
      batch = [];
    }
    if (incompleteUntil === 0) return;
    const until = incompleteUntil;
    await noteReach(services, until, keepTime());
    if (incompleteUntil === until) incompleteUntil = 0;
    // Some became due meanwhile.
    await writeDue();
  };
  const tryWriting = async () => {
    let isWritten = false;
    try {
      await writeDue();
      isWritten = true;
    } catch (error) {
      logger.warn({ err: error, waiting: waiting.length }, 'the audit log is behind');
    }
    writing = undefined;
    if (waiting.length > 0 || incompleteUntil > 0) schedule(isWritten ? FLUSH_MS : RETRY_MS);
    return isWritten;
  };
  const flush = () => {
    unschedule();
    due = waiting.length;
    writing ??= tryWriting();
    return writing;
  };
  const endMinute = () => {
    const groups = refused;
    refused = new Map();
    for (const { item, more } of groups.values())
      if (more > 0) {
        const { epoch: _epoch, number: _number, ...same } = item.item;
        add({ ...item, at: now(), item: { ...same, count: more } });
      }
    for (const [reason, count] of dropped) {
      logger.warn({ reason, count }, 'calls are missing in the audit log');
      const item = { event: 'audit_dropped', reason, count, outcome: 'dropped' };
      push({ at: now(), item, part: 'lasting' });
    }
    // Without room, the keeping notes it.
    if (dropped.has('buffer_full')) incompleteUntil = now();
    dropped.clear();
  };
  const minutes = setInterval(endMinute, MINUTE_MS).unref();
  const countRefused = (key: string) => {
    const group = refused.get(key);
    if (group) group.more += 1;
    return group !== undefined;
  };
  return {
    add,
    countRefused,
    addRefused(key, item) {
      if (countRefused(key)) return;
      if (refused.size >= MAX_GROUPS) return drop('buffer_full');
      refused.set(key, { item, more: 0 });
      add(item);
    },
    async close() {
      clearInterval(minutes);
      endMinute();
      // A write that runs may fail: one more attempt follows. What comes during a write needs another one.
      await writing;
      let isWritten: boolean;
      do isWritten = await flush();
      while (isWritten && waiting.length > 0);
      unschedule();
      if (waiting.length > 0) drop('buffer_full', waiting.length);
      [waiting, batch, due] = [[], [], 0];
    },
  };
}

function identified({ at, item, part, completes }: WaitingItem): NewAuditItem {
  const time = new Date(at * 1000).toISOString();
  return { item: Object.assign(item, { id: newItemId(), time }), part, completes };
}
