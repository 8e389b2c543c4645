// A SQLite file: made with its tables, changed in transactions, its values read as bytes.
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';

// SQLite holds up the whole process while it waits for a lock, so it waits only as long as another process takes for a write.
const HELD_UP_MS = 10;
const BUSY_TIMEOUT_MS = 1000;
const BETWEEN_TRIES_MS = 20;
const SQLITE_BUSY = 5;

// WAL with FULL: what was answered is on the disk. A value that never expires has `expires` Infinity.
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
    field TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (name, field)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS stream (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, value BLOB NOT NULL, expires REAL NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS stream_name ON stream (name, id);
  CREATE INDEX IF NOT EXISTS stream_expires ON stream (expires);
  CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY AUTOINCREMENT, channel TEXT NOT NULL, body BLOB NOT NULL, expires REAL NOT NULL
  ) STRICT;`;

/** Makes the file (mode 0600) and its folder (mode 0700) when they are missing. */
export function openDatabase(file: string): DatabaseSync {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  // SQLite gives the files beside it (-wal, -shm) the mode of this one, so it has to be right before SQLite opens it.
  closeSync(openSync(file, 'a', 0o600));
  chmodSync(file, 0o600);
  const db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  db.exec(SCHEMA);
  db.exec(`PRAGMA busy_timeout = ${HELD_UP_MS}`);
  return db;
}

/** Each is tried again, up to a second, while another process holds the file locked; everything else goes on meanwhile. */
export function waitingForLocks<Verbs extends Record<string, Verb>>(verbs: Verbs): Verbs {
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
    await delay(BETWEEN_TRIES_MS);
  }
}

/** The lowest byte of a result code of SQLite is the primary one. */
export function isBusy(error: unknown): boolean {
  return (
    error instanceof Error && 'errcode' in error && (Number(error.errcode) & 0xff) === SQLITE_BUSY
  );
}

export function transaction<Result>(db: DatabaseSync, work: () => Result): Result {
  db.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    db.exec('COMMIT');
    return result;
  } catch (error) {
    // SQLite has ended it already when the disk was full.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

export function bufferOf(value: SQLOutputValue | undefined): Buffer {
  if (!(value instanceof Uint8Array))
    throw new TypeError('a value in the SQLite file is not bytes');
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
