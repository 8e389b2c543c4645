// A SQLite file: made with its tables, changed in transactions, its values read as bytes.
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';

const BUSY_TIMEOUT_MS = 1000;

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
  return db;
}

export function transaction(db: DatabaseSync, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    work();
    db.exec('COMMIT');
  } catch (error) {
    db.exec('ROLLBACK');
    throw error;
  }
}

export function bufferOf(value: SQLOutputValue | undefined): Buffer {
  if (!(value instanceof Uint8Array))
    throw new TypeError('a value in the SQLite file is not bytes');
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}
