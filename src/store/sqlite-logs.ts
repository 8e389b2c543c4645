// Logs in SQLite. Their entries are in one table and the blocks of their indexes in another.
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { lruCache } from '../lru-cache.ts';
import { type ByteLogs, EPOCH_LENGTH, type LogBytes, type NumberedBytes } from './byte-store.ts';
import {
  BLOCK_ROWS,
  completionOf,
  numberAt,
  numberBytes,
  rowCount,
  withCompleted,
} from './log-rows.ts';
import type { DiskSync } from './disk-sync.ts';
import { bufferOf, type CommitQueue } from './sqlite-database.ts';
import { type LogBlock, LOG_PARTS, type LogPart, runsIn } from './store.ts';

const MAX_SENT = 1000;

type Row = Record<string, SQLOutputValue>;

/**
 * Appending waits for the disk outside of the event loop. Meanwhile others could already read the entries, and a power failure would give
 * their numbers to others; so nobody gets an entry before it is on disk.
 */
export function sqliteLogs(
  db: DatabaseSync,
  { commit, commitUnsynced }: CommitQueue,
  { sync }: Pick<DiskSync, 'sync'>,
): Omit<ByteLogs, 'tokenMs'> {
  const advance = db.prepare(`
    INSERT INTO log (name, last, epoch) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET last = last + excluded.last
    RETURNING id AS log, last, epoch`);
  const begin = db.prepare(`
    INSERT INTO log (name, last, epoch) VALUES (?, 0, ?)
    ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch`);
  const head = db.prepare('SELECT id AS log, last, mark FROM log WHERE name = ?');
  const setMark = db.prepare('UPDATE log SET mark = ? WHERE id = ?');
  const insert = db.prepare('INSERT INTO log_entry (log, number, value) VALUES (?, ?, ?)');
  const after = db.prepare(
    'SELECT number, value FROM log_entry WHERE log = ? AND number > ? ORDER BY number LIMIT ?',
  );
  const one = db.prepare('SELECT number, value FROM log_entry WHERE log = ? AND number = ?');
  const replace = db.prepare('UPDATE log_entry SET value = ? WHERE log = ? AND number = ?');
  const remove = db.prepare('DELETE FROM log_entry WHERE log = ? AND number BETWEEN ? AND ?');
  const blocks = (which: string, order: string) =>
    db.prepare(
      `SELECT first, rows FROM log_block WHERE log = ? AND part = ? AND first ${which} ? ORDER BY first ${order} LIMIT ?`,
    );
  const [older, newer] = [blocks('<', 'DESC'), blocks('>=', 'ASC')];
  const putBlock = db.prepare(
    'INSERT OR REPLACE INTO log_block (log, part, first, rows) VALUES (?, ?, ?, ?)',
  );
  const removeBlock = db.prepare('DELETE FROM log_block WHERE log = ? AND part = ? AND first = ?');

  /** A write may succeed after its caller gave up. */
  const sent = lruCache<{ first: number; epoch: string }>(MAX_SENT);
  const logOf = (name: string) => Number(head.get(name)?.['log'] ?? 0);
  const markOf = (name: string) => String(head.get(name)?.['mark'] ?? '');
  const numbered = (row: Row): NumberedBytes => [Number(row['number']), bufferOf(row['value'])];
  /** The last number of each log that is known to be on disk. */
  const lastOnDisk = new Map<string, number>();
  const waitForSync = async (name: string, number: number) => {
    if (number <= (lastOnDisk.get(name) ?? 0)) return;
    // Of all that were committed, so that reading page after page waits once.
    const last = Number(head.get(name)?.['last'] ?? 0);
    await sync();
    lastOnDisk.set(name, Math.max(last, lastOnDisk.get(name) ?? 0));
  };
  const read = async (name: string, rows: readonly Row[]) => {
    const entries = rows.map(numbered);
    await waitForSync(name, Math.max(0, ...entries.map(([number]) => number)));
    return entries;
  };
  const blockOf = (row: Row): LogBlock => ({
    first: Number(row['first']),
    rows: bufferOf(row['rows']),
  });
  /** The newest block that begins below the number. */
  const blockBelow = (log: number, part: LogPart, number: number) => {
    const row = older.get(log, part, number, 1);
    return row && blockOf(row);
  };
  const complete = (log: number, number: number, { part, row, completes }: LogBytes) => {
    const completed = completes && one.get(log, completes.number);
    const epoch = completed && bufferOf(completed['value']).toString('latin1', 0, EPOCH_LENGTH);
    if (!completes || epoch !== completes.epoch) return;
    const block = blockBelow(log, part, completes.number + 1);
    const changed = block && withCompleted(block.rows, completes, completionOf(number, row));
    if (changed) putBlock.run(log, part, block.first, changed);
  };
  /** `first` is the number of the first entry. Those that complete others have no row. */
  const addRows = (log: number, part: LogPart, entries: readonly LogBytes[], first: number) => {
    const rows = entries.flatMap(({ row, completes, part: own }, index) =>
      own === part && !completes ? [{ number: first + index, row }] : [],
    );
    let block = rows.length > 0 ? blockBelow(log, part, Infinity) : undefined;
    while (rows.length > 0) {
      if (!block || rowCount(block.rows) >= BLOCK_ROWS)
        block = { first: rows[0]?.number ?? 0, rows: Buffer.alloc(0) };
      const added = rows.splice(0, BLOCK_ROWS - rowCount(block.rows));
      const bytes = added.flatMap(({ number, row }) => [numberBytes(number), row]);
      block = { first: block.first, rows: Buffer.concat([block.rows, ...bytes]) };
      putBlock.run(log, part, block.first, block.rows);
    }
  };
  return {
    async appendLog(name, entries, { token, epoch, mark }) {
      const appended = await commitUnsynced(() => {
        const before = sent.get(token);
        if (before) return before;
        if (mark && markOf(name) !== mark.before) return undefined;
        const advanced = advance.get(name, entries.length, epoch);
        const log = Number(advanced?.['log']);
        if (mark) setMark.run(mark.after, log);
        const first = Number(advanced?.['last']) - entries.length + 1;
        const current = String(advanced?.['epoch']);
        const prefix = Buffer.from(current, 'latin1');
        entries.forEach(({ bytes }, index) =>
          insert.run(log, first + index, Buffer.concat([prefix, bytes])),
        );
        for (const part of LOG_PARTS) addRows(log, part, entries, first);
        entries.forEach((entry, index) => {
          if (entry.completes) complete(log, first + index, entry);
        });
        return { first, epoch: current };
      });
      if (!appended) return undefined;
      sent.set(token, appended);
      return appended;
    },
    waitForLog: waitForSync,
    logMark: async (name) => markOf(name),
    replaceLogEntries: (name, entries) =>
      commit(() => {
        const log = logOf(name);
        for (const [number, bytes] of entries) {
          const before = one.get(log, number);
          if (!before) continue;
          const epoch = bufferOf(before['value']).subarray(0, EPOCH_LENGTH);
          replace.run(Buffer.concat([epoch, bytes]), log, number);
        }
      }),
    async readLog(name, { after: last, limit }) {
      return read(name, after.all(logOf(name), last, limit));
    },
    async readLogEntries(name, numbers) {
      const log = logOf(name);
      const rows = numbers.map((number) => one.get(log, number));
      return read(
        name,
        rows.filter((row) => row !== undefined),
      );
    },
    lastInLog: async (name) => Number(head.get(name)?.['last'] ?? 0),
    beginLogEpoch: (name, epoch) => commit(() => void begin.run(name, epoch)),
    async readLogBlocks(name, range) {
      // node:sqlite is synchronous, so reading page after page would block the event loop.
      await nextTurn();
      const log = logOf(name);
      const rows =
        'after' in range
          ? newer.all(log, range.part, range.after, range.limit)
          : runsIn(range).flatMap(({ before, limit }) => older.all(log, range.part, before, limit));
      return rows.map(blockOf);
    },
    trimLog: (name, { part, ranges, blocks: changes }) =>
      commit(() => {
        const log = logOf(name);
        const added = changes.map(({ before: { first, rows } }) => {
          const found = blockBelow(log, part, first + 1);
          const isThere = found?.rows.subarray(0, rows.length).equals(rows) === true;
          return isThere ? found.rows.subarray(rows.length) : undefined;
        });
        if (added.includes(undefined)) return false;
        for (const [index, { before, after: left }] of changes.entries()) {
          const rows = Buffer.concat([left, added[index] ?? Buffer.alloc(0)]);
          if (left.length === 0) removeBlock.run(log, part, before.first);
          // The rows before those that were added may be in an older block now.
          const first = left.length === 0 && rows.length > 0 ? numberAt(rows, 0) : before.first;
          if (rows.length > 0) putBlock.run(log, part, first, rows);
        }
        for (const [first, last] of ranges) remove.run(log, first, last);
        return true;
      }),
  };
}
