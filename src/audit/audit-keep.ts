// Removes items when their time is over or when there are too many calls, and says how far back calls reach.
import type { Logger } from 'pino';
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Settings } from '../settings/settings.ts';
import {
  BLOCK_ROWS,
  completedBy,
  keptRows,
  numberAt,
  rowCount,
  termAt,
  timeAt,
} from '../store/log-rows.ts';
import {
  type LogBlock,
  LOG_PARTS,
  type LogPart,
  type LogTrimming,
  StoreUnavailable,
} from '../store/store.ts';
import { type AuditServices, recordAudit } from './audit.ts';
import { type KeptCalls, noteReach, readAuditReach } from './audit-reach.ts';
import { auditIndex, lastAuditNumber, OWNER_TERM } from './audit-log.ts';
import { finishForgetting } from './chain/forget.ts';
import type { ClockGuard } from './clock-leap.ts';
import { recordInterrupted } from './recorded-change.ts';
import { coverByCheckpoint } from './chain/make-checkpoint.ts';
import { type DueRow, openTrimmable, type TrimmableRows } from './trimmable.ts';

export type KeptAudit = Pick<Settings['audit'], 'keep' | 'keepUndelivered'> & {
  keepCalls: KeptCalls;
  /** The last numbers that targets have: what follows stays for them. */
  delivered: () => Promise<readonly number[]>;
};

type Services = AuditServices & { logger: Logger; metrics: Pick<Metrics, 'auditReach'> };

export type AuditKeeping = BackgroundLoop & {
  /** Whether the store has room for calls that need not be in the log. */
  hasRoom: () => boolean;
};

const INTERVAL_MS = 10_000;
/** One process at a time finishes what others have begun. */
const FINISHING_SECONDS = 25;
const BETWEEN_TRIMMINGS_SECONDS = 60;

/** `kept` returns what the settings in force say. */
export function keepAudit(
  services: Services,
  clock: ClockGuard,
  kept: () => KeptAudit,
): AuditKeeping {
  const { store, now, logger, metrics } = services;
  let hasRoom = true;
  const progress = { lasting: trimmingProgress(), bulk: trimmingProgress() };
  // Until the store was read.
  metrics.auditReach(kept().keepCalls.time);
  const run = async () => {
    const { keepCalls } = kept();
    hasRoom = (await store.freeBytes()) > 0;
    if (!hasRoom) await noteReach(services, now(), keepCalls.time);
    metrics.auditReach(await readAuditReach(services, keepCalls.time));
    if (await store.add('audit-finishing:all', true, FINISHING_SECONDS)) {
      await recordInterrupted(services);
      await finishForgetting(services);
    }
    if (await clock.hasLeapt(services)) return;
    for (const part of LOG_PARTS)
      if (await store.add(`audit-trimming:${part}`, true, BETWEEN_TRIMMINGS_SECONDS))
        await trimAudit(services, kept(), part, progress[part]);
  };
  const loop = startLoop(async () => {
    await run().catch((error: unknown) => {
      // The store reports its own failures, and the next run tries again.
      if (!(error instanceof StoreUnavailable))
        logger.error({ err: error }, 'old items of the audit log were not removed');
    });
    return INTERVAL_MS;
  });
  return { ...loop, hasRoom: () => hasRoom };
}

const BLOCKS_AT_A_TIME = 128;
/** Bounds what one item says. The rest follows a minute later. */
const MAX_RANGES = 4000;
/** Of due rows, also if they stay. */
const MAX_READ = 200_000;
const BETWEEN_REPORTS_SECONDS = 3600;
/** Trimmed below the limit, so that not every run has to. */
const SLACK = 0.02;

/** Of one process: the number from which on it goes on, and when it reported rows that stay. */
export type TrimmingProgress = { from: number; reported: number; maxRead: number };

export function trimmingProgress(maxRead = MAX_READ): TrimmingProgress {
  return { from: 0, reported: -Infinity, maxRead };
}

/** Removes what is too old, and calls above their number, and records that before. Reads what it removes, because nobody signs the index. */
export async function trimAudit(
  services: Services,
  { keep, keepCalls, keepUndelivered, delivered }: KeptAudit,
  part: LogPart,
  progress = trimmingProgress(),
): Promise<void> {
  const { store, now } = services;
  const isBulk = part === 'bulk';
  const bound = now() - (isBulk ? Math.min(keepCalls.time, keep) : keep);
  const last = await lastAuditNumber(store);
  // Nothing that a target lacks, but not more than the limit of these.
  const below = Math.max(Math.min(...(await delivered())), last - keepUndelivered) + 1;
  const quotas = isBulk
    ? await quotasOf(services, keepCalls.items, last)
    : new Map<number, number>();
  const trimmed: Trimmed[] = [];
  const differing: number[] = [];
  const trimmable = openTrimmable(store, part, now() - keep);
  let [read, ranges, newestByNumber, isAfterTrimmed] = [0, 0, 0, false];
  const { from } = progress;
  progress.from = 0;
  for await (const block of blocksOf(services, part, from)) {
    const isDue = (index: number): DueRow | undefined => {
      const number = Math.max(numberAt(block.rows, index), completedBy(block.rows, index));
      if (number >= below) return undefined;
      if (timeAt(block.rows, index) < bound) return { index, isByCount: false };
      const isByCount = quotas.has(termAt(block.rows, index, OWNER_TERM));
      return isByCount ? { index, isByCount } : undefined;
    };
    const found = Array.from({ length: rowCount(block.rows) }, (_, index) => isDue(index));
    const isPast = found.every((due, index) => due || timeAt(block.rows, index) > now());
    const due = found.filter((row) => row !== undefined);
    const { rows: going, differing: others } =
      due.length > 0 ? await trimmable(block, due) : NOTHING;
    differing.push(...others);
    const rows = going.filter(({ index, isByCount }) => {
      const owner = termAt(block.rows, index, OWNER_TERM);
      const quota = quotas.get(owner) ?? 0;
      if (isByCount && quota <= 1) quotas.delete(owner);
      else if (isByCount) quotas.set(owner, quota - 1);
      return !isByCount || quota > 0;
    });
    if (rows.length > 0) {
      const dropped = new Set(rows.map(({ index }) => index));
      const numbers = rows.flatMap((row) => row.numbers);
      const after = keptRows(block.rows, (index) => !dropped.has(index));
      trimmed.push({ before: block, after, numbers, isAfterTrimmed });
      ranges += rangesOf(numbers).length;
    }
    for (const { index, isByCount } of rows)
      if (isByCount) newestByNumber = Math.max(newestByNumber, timeAt(block.rows, index));
    read += due.length;
    isAfterTrimmed = rows.length > 0;
    if (quotas.size === 0 && !isPast) break;
    if (read >= progress.maxRead || ranges > MAX_RANGES) {
      progress.from = block.first + 1;
      break;
    }
  }
  if (differing.length > 0 && now() - progress.reported >= BETWEEN_REPORTS_SECONDS) {
    progress.reported = now();
    services.logger.error(
      { class: part, count: differing.length, first: differing[0] },
      'the index of the audit log is not that of its items, which are not removed',
    );
  }
  const numbers = trimmed.flatMap((one) => one.numbers);
  if (numbers.length > 0) {
    // Before they are gone: a gap that no checkpoint explains is a removal.
    const { number = 0 } = await recordAudit(services, {
      event: 'audit_trimmed',
      class: part,
      ranges: rangesOf(numbers),
      count: numbers.length,
      outcome: 'trimmed',
    });
    if (!(await coverByCheckpoint(services, number))) return;
    if (newestByNumber > 0) await noteReach(services, newestByNumber, keepCalls.time);
  }
  for (const trimming of trimmings(part, trimmed)) await auditIndex.trim(store, trimming);
}

const NOTHING: TrimmableRows = { rows: [], differing: [] };

type Trimmed = LogTrimming['blocks'][number] & {
  numbers: number[];
  /** The block before it is trimmed too. */
  isAfterTrimmed: boolean;
};

async function* blocksOf({ store }: Services, part: LogPart, from = 0): AsyncGenerator<LogBlock> {
  for (let after = from; ;) {
    const blocks = await auditIndex.blocks(store, { part, after, limit: BLOCKS_AT_A_TIME });
    yield* blocks;
    if (blocks.length < BLOCKS_AT_A_TIME) return;
    after = (blocks.at(-1)?.first ?? 0) + 1;
  }
}

/** How many calls each connection loses: the ones with the most first, until all together are below the limit. */
async function quotasOf(
  services: Services,
  items: number,
  last: number,
): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  let total = 0;
  for await (const { first, rows } of blocksOf(services, 'bulk')) {
    // No more entries than numbers.
    if (total === 0 && last - first < items) return new Map();
    for (let index = 0; index < rowCount(rows); index += 1) {
      const owner = termAt(rows, index, OWNER_TERM);
      counts.set(owner, (counts.get(owner) ?? 0) + 1);
    }
    total += rowCount(rows);
  }
  if (total <= items) return new Map();
  const allowed = allowedEach([...counts.values()], Math.floor(items * (1 - SLACK)));
  const above = [...counts].filter(([, count]) => count > allowed);
  return new Map(above.map(([owner, count]) => [owner, count - allowed]));
}

/** The highest number that each may have, so that all together have at most `total`. */
export function allowedEach(counts: readonly number[], total: number): number {
  let [left, sharing] = [total, counts.length];
  for (const count of counts.toSorted((one, other) => one - other)) {
    if (count * sharing > left) break;
    left -= count;
    sharing -= 1;
  }
  return sharing === 0 ? Infinity : Math.floor(left / sharing);
}

function rangesOf(numbers: readonly number[]): [number, number][] {
  const ranges: [number, number][] = [];
  for (const number of numbers.toSorted((one, other) => one - other)) {
    const range = ranges.at(-1);
    if (range && number === range[1] + 1) range[1] = number;
    else ranges.push([number, number]);
  }
  return ranges;
}

const BLOCKS_PER_TRIMMING = 20;

/** In portions, because a database is blocked by each. Joins blocks that have become small. */
function trimmings(part: LogPart, trimmed: readonly Trimmed[]): LogTrimming[] {
  const portions: LogTrimming[] = [];
  for (let from = 0; from < trimmed.length; from += BLOCKS_PER_TRIMMING) {
    const portion = trimmed.slice(from, from + BLOCKS_PER_TRIMMING);
    const blocks: { before: LogBlock; after: Buffer }[] = [];
    let previous: (typeof blocks)[number] | undefined;
    for (const { before, after, isAfterTrimmed } of portion) {
      if (!isAfterTrimmed) previous = undefined;
      if (previous && rowCount(previous.after) + rowCount(after) <= BLOCK_ROWS) {
        previous.after = Buffer.concat([previous.after, after]);
        blocks.push({ before, after: Buffer.alloc(0) });
        continue;
      }
      const block = { before, after };
      blocks.push(block);
      if (after.length > 0) previous = block;
    }
    portions.push({ part, ranges: rangesOf(portion.flatMap(({ numbers }) => numbers)), blocks });
  }
  return portions;
}
