// The database of a single machine: one SQLite file (node:sqlite), shared by any number of processes on it.
import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type ByteStore, MEMBERS_PER_PAGE } from './byte-store.ts';
import type { Logger } from './logger.ts';
import { openChannels } from './sqlite-channels.ts';
import { type Commit, openCommits } from './sqlite-commits.ts';
import { bufferOf, openDatabase, waitingForLocks } from './sqlite-file.ts';
import { rewriter } from './sqlite-rewrite.ts';

const SWEEP_ROWS = 2000;
const ID_DIGITS = 32;

export type SqliteOptions = {
  /** Seconds since 1970, fractions allowed. */
  now?: () => number;
  /** Seconds between removals of what has expired. */
  sweepEvery?: number;
  logger?: Logger;
};

/** Makes the file (mode 0600) and its folder (mode 0700) when they are missing. Throws what SQLite or the file system throws. */
export function openSqlite(
  file: string,
  { now = () => Date.now() / 1000, sweepEvery = 5, logger }: SqliteOptions = {},
): ByteStore {
  const db = openDatabase(file);
  const { commit, flush } = openCommits(db);
  const channels = openChannels(db, commit, now, logger);
  const sweep = sweeper(db, now, logger);
  const sweeping = setInterval(sweep, sweepEvery * 1000).unref();

  return {
    ...waitingForLocks({
      ...values(db, commit, now),
      ...sets(db, commit, now),
      ...streams(db, commit, now),
      publish: channels.publish,
      subscribe: channels.subscribe,
      delete: deleter(db, commit),
    }),
    rewrite: rewriter(db, waitingForLocks({ commit }).commit),
    async ping() {
      db.exec('SELECT 1 FROM entry LIMIT 1');
    },
    async close() {
      clearInterval(sweeping);
      channels.close();
      flush();
      db.close();
    },
  };
}

type Values = Pick<ByteStore, 'get' | 'set' | 'compareAndSwap' | 'getAndDelete'>;

function values(db: DatabaseSync, commit: Commit, now: () => number): Values {
  const select = db.prepare('SELECT value FROM entry WHERE name = ? AND expires > ?');
  const put = db.prepare('INSERT OR REPLACE INTO entry (name, value, expires) VALUES (?, ?, ?)');
  const insert = db.prepare(`
    INSERT INTO entry (name, value, expires) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET value = ?2, expires = ?3 WHERE expires <= ?4`);
  const replace = db.prepare(
    'UPDATE entry SET value = ?, expires = ? WHERE name = ? AND value = ? AND expires > ?',
  );
  const remove = db.prepare('DELETE FROM entry WHERE name = ? AND value = ? AND expires > ?');
  const take = db.prepare('DELETE FROM entry WHERE name = ? RETURNING value, expires');

  const read = (name: string) => {
    const row = select.get(name, now());
    return row && bufferOf(row['value']);
  };
  const change = (
    name: string,
    before: Buffer | undefined,
    next: Buffer | undefined,
    ttl: number,
  ) => {
    const at = now();
    if (before && next) return replace.run(next, at + ttl, name, before, at);
    if (before) return remove.run(name, before, at);
    return next ? insert.run(name, next, at + ttl, at) : { changes: 1 };
  };
  return {
    get: async (name) => read(name),
    set: (name, bytes, ttl) => commit(() => void put.run(name, bytes, now() + ttl)),
    compareAndSwap: (name, before, next, ttl) =>
      commit(() => change(name, before, next, ttl).changes === 1 || read(name)),
    getAndDelete: (name) =>
      commit(() => {
        const row = take.get(name);
        return row && Number(row['expires']) > now() ? bufferOf(row['value']) : undefined;
      }),
  };
}

type Member = [field: string, bytes: Buffer];
type Sets = Pick<ByteStore, 'addMember' | 'removeMember' | 'members'>;

function sets(db: DatabaseSync, commit: Commit, now: () => number): Sets {
  const forgetExpired = db.prepare('DELETE FROM member_set WHERE name = ? AND expires <= ?');
  const prolong = db.prepare(`
    INSERT INTO member_set (name, expires) VALUES (?1, ?2)
    ON CONFLICT (name) DO UPDATE SET expires = ?2`);
  const add = db.prepare('INSERT OR REPLACE INTO member (name, field, value) VALUES (?, ?, ?)');
  const remove = db.prepare('DELETE FROM member WHERE name = ? AND field = ?');
  const select = db.prepare(`
    SELECT field, value FROM member JOIN member_set USING (name)
    WHERE name = ? AND expires > ? AND field > ? ORDER BY field LIMIT ${MEMBERS_PER_PAGE}`);
  return {
    addMember: (name, field, bytes, ttl) =>
      commit(() => {
        forgetExpired.run(name, now());
        prolong.run(name, now() + ttl);
        add.run(name, field, bytes);
      }),
    removeMember: (name, field) => commit(() => void remove.run(name, field)),
    async members(name, from) {
      // SQLite answers at once: who reads on and on, page by piece, would leave no turn to anybody else.
      if (from !== '') await nextTurn();
      const rows = select.all(name, now(), from);
      const members = rows.map((row): Member => [String(row['field']), bufferOf(row['value'])]);
      const last = rows.length < MEMBERS_PER_PAGE ? undefined : members.at(-1)?.[0];
      return last === undefined ? { members } : { members, next: last };
    },
  };
}

type Streams = Pick<ByteStore, 'append' | 'range'>;

function streams(db: DatabaseSync, commit: Commit, now: () => number): Streams {
  const insert = db.prepare('INSERT INTO stream (name, value, expires) VALUES (?, ?, ?)');
  const select = (which: string, order: string) =>
    db.prepare(`
      SELECT id, value FROM stream WHERE name = ? AND id ${which} ? AND expires > ?
      ORDER BY id ${order} LIMIT ?`);
  const [oldest, newest] = [select('>', 'ASC'), select('<', 'DESC')];
  return {
    append: (name, bytes, ttl) => commit(() => void insert.run(name, bytes, now() + ttl)),
    async range(name, { after, limit, newestFirst }) {
      // As in `members`.
      if (after !== undefined) await nextTurn();
      return (newestFirst ? newest : oldest)
        .all(name, Number(after ?? (newestFirst ? Infinity : 0)), now(), limit)
        .map((row) => [String(row['id']).padStart(ID_DIGITS, '0'), bufferOf(row['value'])]);
    },
  };
}

function deleter(db: DatabaseSync, commit: Commit): ByteStore['delete'] {
  const statements = ['entry', 'member_set', 'stream'].map((table) =>
    db.prepare(`DELETE FROM ${table} WHERE name = ?`),
  );
  return (name) => commit(() => statements.forEach((each) => each.run(name)));
}

/** Removes a bounded number of expired rows, because SQLite holds up the whole process meanwhile. */
function sweeper(db: DatabaseSync, now: () => number, logger: Logger | undefined): () => void {
  const statements = ['entry', 'member_set', 'stream', 'message'].map((table) =>
    db.prepare(`
      DELETE FROM ${table} WHERE rowid IN (
        SELECT rowid FROM ${table} WHERE expires <= ? LIMIT ${SWEEP_ROWS})`),
  );
  return () => {
    try {
      statements.forEach((each) => each.run(now()));
    } catch (cause) {
      logger?.warn({ err: cause }, 'expired records could not be removed from the store');
    }
  };
}
