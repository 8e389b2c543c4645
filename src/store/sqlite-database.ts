import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { StoreInUse } from './store.ts';

// SQLite blocks the event loop while it waits for a lock, so it waits briefly and we retry.
const BLOCKING_TIMEOUT_MS = 10;
/** Less than `operation` in timeout.ts, which ends every wait. */
const BUSY_TIMEOUT_MS = 1000;
const RETRY_DELAY_MS = 20;
const SQLITE_BUSY = 5;

// WAL with FULL: a committed transaction is on disk, and so are those before it. A value that never expires has `expires` Infinity.
const SCHEMA = `
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS entry (
    name TEXT PRIMARY KEY, value BLOB NOT NULL, expires REAL NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS entry_expires ON entry (expires);
  CREATE TABLE IF NOT EXISTS member_set (name TEXT PRIMARY KEY, expires REAL NOT NULL) STRICT;
  CREATE INDEX IF NOT EXISTS member_set_expires ON member_set (expires);
  CREATE TABLE IF NOT EXISTS member (
    name TEXT NOT NULL REFERENCES member_set (name) ON DELETE CASCADE,
    field TEXT NOT NULL, value BLOB NOT NULL, place TEXT, PRIMARY KEY (name, field)
  ) STRICT;
  CREATE INDEX IF NOT EXISTS member_place ON member (name, place);
  CREATE TABLE IF NOT EXISTS stream (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, value BLOB NOT NULL, expires REAL NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS stream_name ON stream (name, id);
  CREATE INDEX IF NOT EXISTS stream_expires ON stream (expires);
  CREATE TABLE IF NOT EXISTS log (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, last INTEGER NOT NULL, epoch TEXT NOT NULL,
    mark TEXT NOT NULL DEFAULT ''
  ) STRICT;
  CREATE TABLE IF NOT EXISTS log_entry (
    log INTEGER NOT NULL, number INTEGER NOT NULL, value BLOB NOT NULL, PRIMARY KEY (log, number)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS log_block (
    log INTEGER NOT NULL, part TEXT NOT NULL, first INTEGER NOT NULL, rows BLOB NOT NULL, PRIMARY KEY (log, part, first)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, body BLOB NOT NULL, expires REAL NOT NULL
  ) STRICT;`;

/** Reads one entry of the file of another process. Null if there is none. */
export function readEntry(file: string, name: string): Buffer | null {
  const db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  try {
    const row = db.prepare('SELECT value FROM entry WHERE name = ?').get(name);
    return row ? bufferOf(row['value']) : null;
  } finally {
    db.close();
  }
}

/** Creates the file (mode 0600) and its directory (mode 0700) if they do not exist. */
export function openDatabase(
  file: string,
  { isExclusive = false }: { isExclusive?: boolean } = {},
): DatabaseSync {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // SQLite creates the -wal and -shm files with the mode of this file, so set it before SQLite opens it.
  closeSync(openSync(file, 'a', 0o600));
  chmodSync(file, 0o600);
  const db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  if (isExclusive) lockOut(db);
  prepareFile(db);
  db.exec(`PRAGMA busy_timeout = ${BLOCKING_TIMEOUT_MS}`);
  return db;
}

/** Of several processes that open a new file at the same time, SQLite refuses some at once, whatever the timeout. */
function prepareFile(db: DatabaseSync): void {
  const end = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      return db.exec(SCHEMA);
    } catch (error) {
      if (!isBusy(error) || performance.now() > end) {
        db.close();
        throw error;
      }
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_DELAY_MS);
  }
}

/** With a write-ahead log, an exclusive lock is held as long as the file is open, and no other connection may be open. */
function lockOut(db: DatabaseSync): void {
  try {
    db.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT');
  } catch (error) {
    db.close();
    if (!isBusy(error)) throw error;
    throw new StoreInUse('another process has the SQLite file open', { cause: error });
  }
}

/** Retries each verb for up to a second while another process holds the lock, without blocking the event loop. */
export function retriedWhileLocked<Verbs extends Record<string, Verb>>(verbs: Verbs): Verbs {
  const waiting = Object.entries(verbs).map(([name, verb]) => [
    name,
    (...args: never[]) => retryWhileBusy(() => verb(...args)),
  ]);
  return Object.fromEntries(waiting) as Verbs;
}

type Verb = (...args: never[]) => Promise<unknown>;

async function retryWhileBusy<R>(work: () => Promise<R>): Promise<R> {
  const end = performance.now() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!isBusy(error) || performance.now() > end) throw error;
    }
    await delay(RETRY_DELAY_MS);
  }
}

/** The low byte of an extended result code is the primary result code. */
function isBusy(error: unknown): boolean {
  return (
    error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY
  );
}

/** `NORMAL` commits without waiting for the disk. A power failure may lose the newest commits, never an earlier one without the later ones. */
function transaction<Result>(
  db: DatabaseSync,
  work: () => Result,
  synchronous: 'FULL' | 'NORMAL',
): Result {
  // Before it begins: to set it back afterwards could fail although all is committed.
  db.exec(`PRAGMA synchronous = ${synchronous}; BEGIN IMMEDIATE`);
  try {
    const result = work();
    db.exec('COMMIT');
    return result;
  } catch (error) {
    // SQLite rolls back by itself when the disk is full.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Moves everything from the write-ahead log to the file, on disk. Throws if another process reads it meanwhile. */
export function checkpointWal(db: DatabaseSync): void {
  const result = db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get();
  if (result?.['busy'] !== 0) throw new Error('the write-ahead log could not be moved');
}

export function bufferOf(value: SQLOutputValue | undefined): Buffer {
  if (!(value instanceof Uint8Array))
    throw new TypeError('a value in the SQLite file is not bytes');
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/**
 * Resolves to the result of `write` once it is on disk, or rejects and writes nothing. Writes of one turn of the event loop share a
 * transaction, in order. If it fails, each write is called again in a transaction of its own.
 */
export type Commit = <Result>(write: () => Result) => Promise<Result>;

export type CommitQueue = {
  commit: Commit;
  /**
   * As `commit`, but resolves before the disk has it, so that the event loop need not wait for that. What is committed later is never on disk
   * without it.
   */
  commitUnsynced: Commit;
  /** Commits pending writes immediately. */
  flush: () => void;
};

type PendingWrite = {
  /** Returns a function to call once the write is committed. */
  write: () => () => void;
  reject: (error: unknown) => void;
  isUnsynced: boolean;
};

export function commitQueue(db: DatabaseSync): CommitQueue {
  let pending: PendingWrite[] = [];

  const flush = () => {
    const batch = pending;
    pending = [];
    writeAll(db, batch);
  };
  const add =
    (isUnsynced: boolean): Commit =>
    (write) => {
      if (pending.length === 0) setImmediate(flush);
      return new Promise((resolve, reject) => {
        const writeAndResolve = () => {
          const result = write();
          return () => resolve(result);
        };
        pending.push({ write: writeAndResolve, reject, isUnsynced });
      });
    };
  return { flush, commit: add(false), commitUnsynced: add(true) };
}

/** A write that fails, for example because the disk is full, does not fail the others. No write succeeds while the file is locked. */
function writeAll(db: DatabaseSync, batch: PendingWrite[]): void {
  const synchronous = batch.every(({ isUnsynced }) => isUnsynced) ? 'NORMAL' : 'FULL';
  try {
    const written = transaction(db, () => batch.map(({ write }) => write()), synchronous);
    for (const resolve of written) resolve();
  } catch (error) {
    if (batch.length > 1 && !isBusy(error)) for (const each of batch) writeAll(db, [each]);
    else for (const { reject } of batch) reject(error);
  }
}
