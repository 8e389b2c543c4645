// An audit log in a store of its own, at a time that the test controls, and the database behind it.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { Redis } from 'ioredis';
import { type AuditItem, auditItem, storeAudit } from '../../../src/audit/audit.ts';
import { readSealedAfter } from '../../../src/audit/audit-log.ts';
import type { Checkpoint } from '../../../src/audit/chain/checkpoint.ts';
import { makeCheckpoint } from '../../../src/audit/chain/make-checkpoint.ts';
import type { SealedItem } from '../../../src/audit/chain/sealed-item.ts';
import { verifyStore } from '../../../src/audit/chain/verify-store.ts';
import type { Verification } from '../../../src/audit/chain/verifier.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import type { StoreAddress } from '../../../src/settings/addresses.ts';
import { type OpenedStore, openStore } from '../../../src/store/open.ts';
import type { LogPart } from '../../../src/store/store.ts';
import { startRedis } from '../../support/redis-server.ts';
import type { StoreKind } from '../../support/system.ts';
import { PATIENT_TIMEOUTS } from '../../support/scale-out/patient-timeouts.ts';

/** The bytes of the log in the database, as somebody with access to it can change them. */
export type Database = {
  entry(number: number): Promise<Buffer>;
  put(number: number, bytes: Buffer): Promise<void>;
  remove(first: number, last: number): Promise<void>;
  /** Removes the log, and everything beside it. */
  removeLog(): Promise<void>;
  /** Changes what the log says about itself. */
  setHead(last: number, mark: string): Promise<void>;
};

export type ChainLog = {
  store: OpenedStore;
  database: Database;
  services: ReturnType<typeof servicesOf>;
  /** Lines of the log of the process. */
  told: Record<string, unknown>[];
  now(): number;
  advance(seconds: number): void;
  append(count: number, item?: Partial<AuditItem>, part?: LogPart): Promise<AuditItem[]>;
  /** Makes a checkpoint of what is not covered yet. */
  checkpoint(): Promise<Checkpoint>;
  items(): Promise<SealedItem[]>;
  verify(options?: { since?: number; kept?: Checkpoint }): Promise<Verification>;
  /** Copies of what is stored now; `restore` puts it back, as an older copy of the database would. */
  save(): Promise<{ restore(): Promise<void> }>;
  /** Another process with the same store. */
  second(): Promise<OpenedStore>;
  close(): Promise<void>;
};

function servicesOf(store: OpenedStore, now: () => number, log: Record<string, unknown>[]) {
  return {
    store,
    now,
    metrics: { auditEvent: () => undefined },
    auditLog: () => undefined,
    logger: createLogger('info', { write: (line: string) => void log.push(JSON.parse(line)) }),
  };
}

export async function openChainLog(kind: StoreKind): Promise<ChainLog> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-chain-'));
  const server = kind === 'redis' ? await startRedis() : undefined;
  const file = join(dataDir, 'gatehouse.sqlite');
  const address: StoreAddress = server
    ? { kind: 'redis', url: server.url }
    : { kind: 'sqlite', file };
  let ahead = 0;
  const now = () => Date.now() / 1000 + ahead;
  const secret = 'root-secret-of-the-chain-tests-0123456789';
  const opened: OpenedStore[] = [];
  const open = async () => {
    const one = await openStore(address, { secret, dataDir, now, timeouts: PATIENT_TIMEOUTS });
    opened.push(one);
    return one;
  };
  const store = await open();
  const { database, save, close } = server ? await redisDatabase(server.url) : sqliteDatabase(file);
  const told: Record<string, unknown>[] = [];
  const services = servicesOf(store, now, told);
  const append = async (
    count: number,
    item: Partial<AuditItem> = {},
    part: LogPart = 'lasting',
  ) => {
    const stored: AuditItem[] = [];
    for (let left = count; left > 0; left -= 200) {
      const added = Array.from({ length: Math.min(left, 200) }, () => ({
        item: auditItem(services, { event: 'call', outcome: 'answered', ...item }),
        part,
      }));
      stored.push(...(await storeAudit(services, added)));
    }
    return stored;
  };
  return {
    store,
    database,
    services,
    told,
    now,
    advance: (seconds) => void (ahead += seconds),
    append,
    async checkpoint() {
      const made = await makeCheckpoint(services);
      if (!made) throw new Error('there was nothing to cover');
      return made;
    },
    items: async () => (await readSealedAfter(store, 0, 100_000)).flatMap(({ item }) => item ?? []),
    verify: (options = {}) => verifyStore(store, { now: now(), ...options }),
    save,
    second: open,
    async close() {
      await close();
      await Promise.all(opened.map((one) => one.close()));
      await server?.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

type OpenedDatabase = {
  database: Database;
  save: ChainLog['save'];
  close(): Promise<void>;
};

function sqliteDatabase(file: string): OpenedDatabase {
  const db = new DatabaseSync(file, { timeout: 5000 });
  const tables = ['entry', 'log', 'log_entry', 'log_block'];
  return {
    close: async () => db.close(),
    async save() {
      for (const table of tables) {
        db.exec(`DROP TABLE IF EXISTS saved_${table}`);
        db.exec(`CREATE TABLE saved_${table} AS SELECT * FROM ${table}`);
      }
      return {
        async restore() {
          for (const table of tables) {
            db.exec(`DELETE FROM ${table}`);
            db.exec(`INSERT INTO ${table} SELECT * FROM saved_${table}`);
          }
        },
      };
    },
    database: {
      async entry(number) {
        const row = db.prepare('SELECT value FROM log_entry WHERE number = ?').get(number);
        return Buffer.from(row?.['value'] as Uint8Array);
      },
      async put(number, bytes) {
        const log = Number(db.prepare('SELECT id FROM log').get()?.['id']);
        db.prepare('INSERT OR REPLACE INTO log_entry (log, number, value) VALUES (?, ?, ?)').run(
          log,
          number,
          bytes,
        );
      },
      async remove(first, last) {
        db.prepare('DELETE FROM log_entry WHERE number BETWEEN ? AND ?').run(first, last);
      },
      async removeLog() {
        for (const table of ['log', 'log_entry', 'log_block']) db.exec(`DELETE FROM ${table}`);
        db.exec("DELETE FROM entry WHERE name LIKE 'audit-checkpoint:%'");
      },
      async setHead(last, mark) {
        db.prepare('UPDATE log SET last = ?, mark = ?').run(last, mark);
      },
    },
  };
}

async function redisDatabase(url: string): Promise<OpenedDatabase> {
  const redis = new Redis(url);
  const nameOf = async (pattern: string) => {
    const [name] = await redis.keys(pattern);
    if (name === undefined) throw new Error(`there is no ${pattern}`);
    return name;
  };
  const entries = () => nameOf('entries:{audit:*');
  const head = async () => (await entries()).replace(/^entries:\{(.*)\}$/, '$1');
  const removeKeys = async (pattern: string) => {
    const names = await redis.keys(pattern);
    if (names.length > 0) await redis.del(names);
  };
  return {
    close: async () => redis.disconnect(),
    async save() {
      const names = await redis.keys('*');
      const saved = await Promise.all(
        names.map(async (name) => ({ name, dump: await redis.dumpBuffer(name) })),
      );
      return {
        async restore() {
          await redis.flushall();
          for (const { name, dump } of saved) if (dump) await redis.restore(name, 0, dump);
        },
      };
    },
    database: {
      async entry(number) {
        const [bytes] = await redis.zrangebyscoreBuffer(await entries(), number, number);
        if (!bytes) throw new Error('there is no such entry');
        return bytes;
      },
      async put(number, bytes) {
        const name = await entries();
        await redis.zremrangebyscore(name, number, number);
        await redis.zadd(name, number, bytes);
      },
      async remove(first, last) {
        await redis.zremrangebyscore(await entries(), first, last);
      },
      async removeLog() {
        const name = await head();
        for (const pattern of [name, `*{${name}}*`, 'audit-checkpoint:*'])
          await removeKeys(pattern);
      },
      async setHead(last, mark) {
        await redis.hset(await head(), { last, mark });
      },
    },
  };
}
