import { EventEmitter } from 'node:events';
import { realpathSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  type ByteStore,
  EPOCH_LENGTH,
  FIELD_LENGTH,
  type IsKnown,
  type MemberPage,
  MEMBERS_PER_PAGE,
  type StoredPlace,
  type Transform,
} from './byte-store.ts';
import { diskSync } from './disk-sync.ts';
import { TAG_BYTES } from './encryption.ts';
import {
  bufferOf,
  type Commit,
  commitQueue,
  checkpointWal,
  openDatabase,
  retriedWhileLocked,
} from './sqlite-database.ts';
import { sqliteLogs } from './sqlite-logs.ts';
import type { StoreLogger } from './store.ts';

const MAX_SWEPT_ROWS = 2000;
const ID_DIGITS = 32;

export type SqliteOptions = {
  /** Seconds since the epoch, with fractions. */
  now?: () => number;
  /** Seconds between removals of expired rows. */
  sweepEvery?: number;
  logger?: StoreLogger;
  /** Keeps other processes out. Throws StoreInUse if there are some. */
  isExclusive?: boolean | undefined;
};

/** Creates the file (mode 0600) and its directory (mode 0700) if they do not exist. Throws errors of SQLite and of the file system. */
export function openSqlite(
  file: string,
  {
    now = () => Date.now() / 1000,
    sweepEvery = 5,
    logger,
    isExclusive = false,
  }: SqliteOptions = {},
): ByteStore {
  const db = openDatabase(file, { isExclusive });
  const queue = commitQueue(db);
  const { commit, flush } = queue;
  const disk = diskSync(`${realpathSync(file)}-wal`, () => checkpointWal(db));
  const channels = openChannels(db, commit, now, logger);
  const sweep = sweeper(db, now, logger);
  const sweeping = setInterval(sweep, sweepEvery * 1000).unref();

  return {
    ...retriedWhileLocked({
      ...values(db, commit, now),
      ...sets(db, commit, now),
      ...streams(db, commit, now),
      ...sqliteLogs(db, queue, disk),
      publish: channels.publish,
      subscribe: channels.subscribe,
      delete: deleter(db, commit),
    }),
    rewrite: rewriter(db, retriedWhileLocked({ commit }).commit),
    freeBytes: () => freeBytes(file),
    async ping() {
      db.exec('SELECT 1 FROM entry LIMIT 1');
    },
    async close() {
      clearInterval(sweeping);
      channels.close();
      flush();
      try {
        await disk.sync();
      } finally {
        db.close();
        await disk.close();
      }
    },
  };
}

const RESERVED_BYTES = 1024 ** 3;

/** On the disk. */
async function freeBytes(file: string): Promise<number> {
  const { bavail, bsize } = await statfs(dirname(file));
  return bavail * bsize - RESERVED_BYTES;
}

type Values = Pick<ByteStore, 'get' | 'getMany' | 'set' | 'compareAndSwap' | 'getAndDelete'>;

function values(db: DatabaseSync, commit: Commit, now: () => number): Values {
  const select = db.prepare('SELECT value FROM entry WHERE name = ? AND expires > ?');
  // Leaves out values that the caller knows, because reading them takes most of the time. Two encryptions never have the same tag.
  const selectChanged = db.prepare(`
    SELECT wanted.key AS name, entry.value AS value
    FROM json_each(?) AS wanted LEFT JOIN entry ON name = wanted.key AND expires > ?
    WHERE entry.value IS NULL OR hex(substr(entry.value, -${TAG_BYTES})) <> wanted.value`);
  const put = db.prepare('INSERT OR REPLACE INTO entry (name, value, expires) VALUES (?, ?, ?)');
  const insert = db.prepare(`
    INSERT INTO entry (name, value, expires) VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, expires = excluded.expires
    WHERE expires <= ?`);
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
    async getMany(names, known = []) {
      const tags = names.map((name, n) => [name, hexTag(known[n])]);
      const rows = selectChanged.all(JSON.stringify(Object.fromEntries(tags)), now());
      const changed = new Map(
        rows.map(({ name, value }) => [name, value === null ? undefined : bufferOf(value)]),
      );
      return names.map((name, n) => (changed.has(name) ? changed.get(name) : known[n]));
    },
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

/** The tag as `hex` of SQLite writes it. Empty without bytes. */
function hexTag(bytes: Buffer = Buffer.alloc(0)): string {
  return bytes.toString('hex', Math.max(0, bytes.length - TAG_BYTES)).toUpperCase();
}

/** Places consist of letters, digits, - and _. */
const AFTER_ALL_PLACES = '~';

type Sets = Pick<
  ByteStore,
  'addMember' | 'removeMember' | 'members' | 'sizes' | 'includes' | 'page' | 'setPlaces'
>;

function sets(db: DatabaseSync, commit: Commit, now: () => number): Sets {
  const removeExpired = db.prepare('DELETE FROM member_set WHERE name = ? AND expires <= ?');
  const extend = db.prepare(`
    INSERT INTO member_set (name, expires) VALUES (?, ?)
    ON CONFLICT (name) DO UPDATE SET expires = excluded.expires`);
  const add = db.prepare(
    'INSERT OR REPLACE INTO member (name, field, value, place) VALUES (?, ?, ?, ?)',
  );
  const remove = db.prepare('DELETE FROM member WHERE name = ? AND field = ?');
  // Fields and places are in indexes. Reading the values too takes eight times as long.
  const select = db.prepare(`
    SELECT field FROM member JOIN member_set USING (name)
    WHERE name = ? AND expires > ? AND field > ? ORDER BY field LIMIT ${MEMBERS_PER_PAGE}`);
  const selectValues = db.prepare(`
    SELECT field, value FROM member
    WHERE name = ? AND field IN (SELECT value FROM json_each(?))`);
  const selectOne = db.prepare(`
    SELECT 1 FROM member JOIN member_set USING (name)
    WHERE name = ? AND field = ? AND expires > ?`);
  // Counting all of a large set takes milliseconds.
  const count = db.prepare(`
    SELECT CASE WHEN expires > ?
      THEN (SELECT count(*) FROM (SELECT 1 FROM member WHERE name = wanted.value LIMIT ?))
      ELSE 0 END AS size
    FROM json_each(?) AS wanted LEFT JOIN member_set ON name = wanted.value ORDER BY wanted.key`);
  const selectPage = (which: string, order: string) =>
    db.prepare(`
      SELECT place FROM member JOIN member_set USING (name)
      WHERE name = ? AND expires > ? AND place ${which} ? ORDER BY place ${order} LIMIT ?`);
  const [oldest, newest] = [selectPage('>', 'ASC'), selectPage('<', 'DESC')];
  const valuesOf = (name: string, fields: readonly string[], isKnown: IsKnown) => {
    const unknown = fields.filter((field) => !isKnown(field));
    const rows = unknown.length === 0 ? [] : selectValues.all(name, JSON.stringify(unknown));
    return new Map(rows.map((row) => [String(row['field']), bufferOf(row['value'])]));
  };
  return {
    addMember: (name, { field, place, bytes }, ttl) =>
      commit(() => {
        removeExpired.run(name, now());
        extend.run(name, now() + ttl);
        add.run(name, field, bytes, place);
      }),
    removeMember: (name, { field }) => commit(() => void remove.run(name, field)),
    sizes: async (names, limit) =>
      count.all(now(), limit, JSON.stringify(names)).map(({ size }) => Number(size)),
    includes: async (name, fields) =>
      new Set(fields.filter((field) => selectOne.get(name, field, now()))),
    async page(name, { after, limit, newestFirst }, isKnown = () => false) {
      // As in `members`.
      if (after !== undefined) await nextTurn();
      const rows = (newestFirst ? newest : oldest).all(
        name,
        now(),
        after ?? (newestFirst ? AFTER_ALL_PLACES : ''),
        limit,
      );
      const places = rows.map((row) => String(row['place']));
      const fields = places.map((place) => place.slice(-FIELD_LENGTH));
      const bytes = valuesOf(name, fields, isKnown);
      return places.map((place, n) => {
        const field = fields[n] ?? '';
        return { field, place, bytes: bytes.get(field) };
      });
    },
    // Members have their places from the start.
    setPlaces: () => Promise.resolve(),
    async members(name, cursor, isKnown = () => false) {
      // node:sqlite is synchronous, so reading page after page would block the event loop.
      if (cursor !== '') await nextTurn();
      const fields = select.all(name, now(), cursor).map((row) => String(row['field']));
      const bytes = valuesOf(name, fields, isKnown);
      const members = fields.map((field): MemberPage['members'][number] => [
        field,
        bytes.get(field),
      ]);
      const last = fields.length < MEMBERS_PER_PAGE ? undefined : fields.at(-1);
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

/** Removes a bounded number of expired rows at a time, because node:sqlite blocks the event loop. */
function sweeper(db: DatabaseSync, now: () => number, logger: StoreLogger | undefined): () => void {
  const statements = ['entry', 'member_set', 'stream', 'message'].map((table) =>
    db.prepare(`
      DELETE FROM ${table} WHERE rowid IN (
        SELECT rowid FROM ${table} WHERE expires <= ? LIMIT ${MAX_SWEPT_ROWS})`),
  );
  return () => {
    try {
      statements.forEach((each) => each.run(now()));
    } catch (cause) {
      logger?.warn({ err: cause }, 'expired records could not be removed from the store');
    }
  };
}

const POLL_INTERVAL_MS = 100;
const MESSAGE_TTL_SECONDS = 60;

type Channels = Pick<ByteStore, 'publish' | 'subscribe'> & { close(): void };

/** Publishes through a table that every subscribed process polls. */
function openChannels(
  db: DatabaseSync,
  commit: Commit,
  now: () => number,
  logger: StoreLogger | undefined,
): Channels {
  const newest = db.prepare('SELECT coalesce(max(id), 0) AS id FROM message');
  const select = db.prepare('SELECT id, channel, body FROM message WHERE id > ? ORDER BY id');
  const insert = db.prepare('INSERT INTO message (channel, body, expires) VALUES (?, ?, ?)');
  const listeners = new EventEmitter().setMaxListeners(0);
  let lastId = 0;
  let polling: NodeJS.Timeout | undefined;

  const newMessages = () => {
    try {
      return db.isOpen ? select.all(lastId) : [];
    } catch (cause) {
      logger?.warn({ err: cause }, 'messages of other processes could not be read from the store');
      return [];
    }
  };
  const poll = () => {
    for (const { id, channel, body } of newMessages()) {
      lastId = Number(id);
      listeners.emit(String(channel), Buffer.from(body as Uint8Array));
    }
  };
  return {
    async publish(channel, message) {
      await commit(() => insert.run(channel, message, now() + MESSAGE_TTL_SECONDS));
      if (polling) setImmediate(poll);
    },
    async subscribe(channel, listener) {
      if (polling) poll();
      else lastId = Number(newest.get()?.['id']);
      listeners.on(channel, listener);
      polling ??= setInterval(poll, POLL_INTERVAL_MS).unref();
      return () => void listeners.off(channel, listener);
    },
    close() {
      clearInterval(polling);
    },
  };
}

// Small, because node:sqlite blocks the event loop until the rows are on disk.
const REWRITE_ROWS = 20;

type Rewritten = {
  table: string;
  key: readonly string[];
  /** Before the first row. */
  start: readonly (string | number)[];
  /** The name of the record, if it is in another table. */
  name?: string;
  placeOf: (name: string, key: readonly string[]) => StoredPlace;
  /** So many bytes at the beginning are not encrypted. */
  plain?: number;
};

const REWRITTEN: readonly Rewritten[] = [
  { table: 'entry', key: ['name'], start: [''], placeOf: (name) => ({ name }) },
  {
    table: 'member',
    key: ['name', 'field'],
    start: ['', ''],
    placeOf: (name, [, field = '']) => ({ name, field }),
  },
  { table: 'stream', key: ['id'], start: [0], name: 'name', placeOf: entryOf },
  {
    table: 'log_entry',
    key: ['log', 'number'],
    start: [0, 0],
    name: '(SELECT name FROM log WHERE id = log_entry.log)',
    placeOf: entryOf,
    plain: EPOCH_LENGTH,
  },
];

function entryOf(name: string, key: readonly string[]): StoredPlace {
  return { name, entry: key.at(-1) ?? '' };
}

function rewriter(db: DatabaseSync, commit: Commit): ByteStore['rewrite'] {
  return async function* rewrite(transform) {
    for (const rewritten of REWRITTEN) yield* rewriteTable(db, commit, rewritten, transform);
  };
}

/** In the order of the primary key, which transform does not change. */
async function* rewriteTable(
  db: DatabaseSync,
  commit: Commit,
  { table, key: columns, start, name: nameColumn = 'name', placeOf, plain = 0 }: Rewritten,
  transform: Transform,
): AsyncGenerator<number> {
  const key = columns.join(', ');
  const marks = columns.map(() => '?').join(', ');
  const select = db.prepare(
    `SELECT ${key}, ${nameColumn} AS record, value FROM ${table} WHERE (${key}) > (${marks}) ORDER BY ${key} LIMIT ${REWRITE_ROWS}`,
  );
  const replace = db.prepare(
    `UPDATE ${table} SET value = ? WHERE (${key}) = (${marks}) AND value = ?`,
  );
  const read = (after: readonly SQLInputValue[]) =>
    select.all(...after).map((row) => ({
      key: columns.map((column) => row[column] ?? null),
      name: String(row['record']),
      before: bufferOf(row['value']),
    }));
  let rows = read(start);
  while (rows.length > 0) {
    const replacements = rows.flatMap(({ key: at, name, before }) => {
      const next = transform(before.subarray(plain), placeOf(name, at.map(String)));
      return next ? [[Buffer.concat([before.subarray(0, plain), next]), ...at, before]] : [];
    });
    yield replacements.length === 0 ? 0 : await commit(() => runAll(replace, replacements));
    rows = read(rows.at(-1)?.key ?? []);
  }
}

/** Returns the number of changed rows. */
function runAll(statement: StatementSync, runs: SQLInputValue[][]): number {
  return runs.reduce((changes, values) => changes + Number(statement.run(...values).changes), 0);
}
