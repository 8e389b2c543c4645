import { assert, expect } from 'chai';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { createInterface } from 'node:readline';
import { Worker } from 'node:worker_threads';
import { MEMBERS_PER_PAGE } from '../../src/store/byte-store.ts';
import { openStore } from '../../src/store/open.ts';
import { openSqlite } from '../../src/store/sqlite.ts';
import { StoreUnavailable } from '../../src/store/store.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';
import { until } from '../support/until.ts';
import { storeContract } from './contract.ts';

const secret = 'a root secret for the tests of the store';
const address = { kind: 'sqlite', file: 'nested/store.sqlite' } as const;
const folders: string[] = [];

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), 'store-'));
  folders.push(dir);
  return dir;
}

function bytesIn(dir: string): Buffer {
  const names = readdirSync(join(dir, 'nested'));
  return Buffer.concat(names.map((name) => readFileSync(join(dir, 'nested', name))));
}

function withDatabase<R>(dir: string, work: (db: DatabaseSync) => R): R {
  const db = new DatabaseSync(join(dir, address.file), { timeout: 1000 });
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Starts a process that increments `count:shared` `times` times and prints each result. */
function countingProcess(dataDir: string, times: number) {
  const script = join(import.meta.dirname, 'counting-process.ts');
  const child = spawn(process.execPath, [script, dataDir, address.file, secret, String(times)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return { child, answers: createInterface({ input: child.stdout }) };
}

describe('The store on SQLite', () => {
  after(() => folders.forEach((dir) => rmSync(dir, { recursive: true, force: true })));

  storeContract(async () => {
    const dataDir = folder();
    const patient = { secret, dataDir, timeouts: PATIENT_TIMEOUTS };
    const store = await openStore(address, patient);
    const second = await openStore(address, patient);
    return {
      store,
      second,
      dump: async () => bytesIn(dataDir),
      async overwrite(from, to) {
        withDatabase(dataDir, (db) =>
          db
            .prepare(
              `UPDATE entry SET value = (SELECT value FROM entry WHERE name LIKE ? || ':%')
               WHERE name LIKE ? || ':%'`,
            )
            .run(from, to),
        );
      },
      openWithSecret: (other) => openStore(address, { secret: other, dataDir }),
      async close() {
        await store.close();
        await second.close();
      },
    };
  });

  it('the SQLite file and its directory are accessible only to their owner', async () => {
    const dataDir = folder();
    const store = await openStore(address, { secret, dataDir });
    await store.set('thing:1', 1, 60);
    const modes = readdirSync(join(dataDir, 'nested')).map(
      (name) => statSync(join(dataDir, 'nested', name)).mode & 0o777,
    );
    assert.isAtLeast(modes.length, 2);
    assert.deepEqual(new Set(modes), new Set([0o600]));
    assert.equal(statSync(join(dataDir, 'nested')).mode & 0o777, 0o700);
    await store.close();
  });

  it('opening removes the permissions of others from an existing file', async () => {
    const dataDir = folder();
    const file = join(dataDir, 'open.sqlite');
    writeFileSync(file, '', { mode: 0o644 });
    const store = await openStore({ kind: 'sqlite', file }, { secret, dataDir: '/nowhere' });
    assert.equal(statSync(file).mode & 0o777, 0o600);
    await store.close();
  });

  it('a value expires exactly at the end of its TTL', async () => {
    let time = 1_000_000;
    const store = await openStore(address, { secret, dataDir: folder(), now: () => time });
    await store.set('thing:1', 'value', 30);
    await store.addMember('set:1', 'member', 30);
    await store.append('stream:1', 'entry', 30);
    time += 29.9;
    assert.equal((await store.get('thing:1'))?.value, 'value');
    assert.lengthOf(await store.members('set:1'), 1);
    assert.lengthOf(await store.range('stream:1', { limit: 9 }), 1);
    assert.isFalse(await store.add('thing:1', 'other', 30));
    time += 0.1;
    assert.isUndefined(await store.get('thing:1'));
    assert.isUndefined(await store.take('thing:1'));
    assert.isEmpty(await store.members('set:1'));
    assert.isEmpty(await store.range('stream:1', { limit: 9 }));
    assert.isTrue(await store.add('thing:1', 'other', 30));
    await store.close();
  });

  it('a member that was read is not a member of another set into which its row is copied', async () => {
    const dataDir = folder();
    const store = await openStore(address, { secret, dataDir });
    await store.addMember('source:1', 'of the source', 1000);
    await store.addMember('target:1', 'of the target', 1000);
    assert.deepEqual(await store.members('source:1'), ['of the source']);
    withDatabase(dataDir, (db) =>
      db.exec(`
        INSERT INTO member (name, field, value, place)
        SELECT (SELECT name FROM member_set WHERE name LIKE 'target:%'), field, value, place
        FROM member WHERE name LIKE 'source:%'`),
    );
    assert.deepEqual(await store.members('target:1'), ['of the target']);
    assert.deepEqual(await store.page('target:1', { limit: 9 }), ['of the target']);
    await store.close();
  });

  it('an append of a process that is busy for longer than an operation may take is stored, and known to be', async () => {
    const timeouts = { operation: 200 };
    const store = await openStore(address, { secret, dataDir: folder(), timeouts });
    const entry = { value: 'entry', part: 'bulk', time: 1, terms: [] } as const;
    const appended = store.appendLog('audit:log', [entry]);
    for (const end = performance.now() + 400; performance.now() < end;);
    assert.equal((await appended).first, 1);
    assert.lengthOf(await store.readLog('audit:log', { after: 0, limit: 9 }), 1);
    await store.close();
  });

  it('expired rows are removed from the file, and no others', async () => {
    const dir = folder();
    let time = 1_000_000;
    const bytes = openSqlite(join(dir, address.file), { now: () => time, sweepEvery: 0.02 });
    const value = Buffer.from('encrypted');
    for (const ttl of [10, 1000]) {
      await bytes.set(`thing:${ttl}`, value, ttl);
      await bytes.addMember(`set:${ttl}`, { field: 'f', place: 'f', bytes: value }, ttl);
      await bytes.append(`stream:${ttl}`, value, ttl);
    }
    await bytes.publish('channel:1', value);
    time += 100;
    const rows = (table: string) =>
      withDatabase(dir, (db) => db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.['n']);
    await until('the sweep to reach messages, which it removes last', () => rows('message') === 0);
    const tables = ['entry', 'member_set', 'member', 'stream'];
    assert.deepEqual(tables.map(rows), [1, 1, 1, 1]);
    await bytes.close();
  });

  it('concurrent writes share one transaction', async () => {
    const dataDir = folder();
    const store = await openStore(address, { secret, dataDir });
    const log = () => statSync(join(dataDir, `${address.file}-wal`)).size;
    const keys = Array.from({ length: 50 }, (_, i) => `thing:${i}`);
    await store.set('thing:0', 0, 60);
    const before = log();
    await store.set('thing:0', 1, 60);
    const one = log() - before;
    await Promise.all(keys.map((key) => store.set(key, 1, 60)));
    assert.isBelow(log() - before - one, 10 * one);
    for (const key of keys) assert.equal((await store.get(key))?.value, 1);
    await store.close();
  });

  it('writes that fail together change nothing, and succeed when retried', async () => {
    const dataDir = folder();
    const store = await openStore(address, { secret, dataDir });
    await store.set('thing:1', 'before', 60);
    const writeAll = () =>
      Promise.allSettled([
        store.set('thing:1', 'after', 60),
        store.take('thing:1'),
        store.add('thing:2', 'after', 60),
        store.addMember('set:1', 'after', 60),
      ]);
    const stored = async () => [
      (await store.get('thing:1'))?.value,
      (await store.get('thing:2'))?.value,
      await store.members('set:1'),
    ];
    const other = new DatabaseSync(join(dataDir, address.file));
    other.exec('BEGIN IMMEDIATE');
    const refused = await writeAll();
    assert.deepEqual(await stored(), ['before', undefined, []]);
    other.exec('ROLLBACK');
    other.close();
    for (const each of refused)
      assert.instanceOf(each.status === 'rejected' && each.reason, StoreUnavailable);
    const answers = (await writeAll()).map((each) => each.status === 'fulfilled' && each.value);
    assert.deepEqual(answers, [undefined, 'after', true, undefined]);
    assert.deepEqual(await stored(), [undefined, 'after', ['after']]);
    await store.close();
  });

  it('a write that fails does not fail concurrent writes', async () => {
    const dataDir = folder();
    const store = await openStore(address, { secret, dataDir });
    await store.set('thing:1', 'before', 60);
    // Fails like a nearly full disk.
    withDatabase(dataDir, (db) =>
      db.exec(`CREATE TRIGGER full BEFORE INSERT ON entry WHEN length(new.value) > 100000
               BEGIN SELECT RAISE(ROLLBACK, 'database or disk is full'); END`),
    );
    const [big, taken, added] = await Promise.allSettled([
      store.set('thing:big', 'b'.repeat(200_000), 60),
      store.take('thing:1'),
      store.add('thing:2', 'after', 60),
    ]);
    assert.instanceOf(big.status === 'rejected' && big.reason, StoreUnavailable);
    assert.deepInclude(taken, { status: 'fulfilled', value: 'before' });
    assert.deepInclude(added, { status: 'fulfilled', value: true });
    assert.isUndefined(await store.get('thing:1'));
    assert.equal((await store.get('thing:2'))?.value, 'after');
    await store.close();
  });

  it('other work continues between two pages of a long list', async () => {
    const bytes = openSqlite(join(folder(), address.file));
    const fields = Array.from({ length: MEMBERS_PER_PAGE + 1 }, (_, i) => `field ${i}`);
    await Promise.all(
      fields.map((field) =>
        bytes.addMember('set:1', { field, place: field, bytes: Buffer.from(field) }, 60),
      ),
    );
    await bytes.append('stream:1', Buffer.from('entry'), 60);
    const { next = '' } = await bytes.members('set:1', '');
    for (const readNext of [
      () => bytes.members('set:1', next),
      () => bytes.range('stream:1', { after: '0', limit: 1 }),
    ]) {
      let continued = false;
      setImmediate(() => void (continued = true));
      await readNext();
      assert.isTrue(continued);
    }
    await bytes.close();
  });

  it('rewriting waits for a short lock of another process', async () => {
    const dir = folder();
    const bytes = openSqlite(join(dir, address.file));
    await bytes.set('thing:1', Buffer.from('before'), 60);
    const other = new DatabaseSync(join(dir, address.file));
    other.exec('BEGIN IMMEDIATE');
    setTimeout(() => other.exec('ROLLBACK'), 50);
    const counts = await Array.fromAsync(bytes.rewrite(() => Buffer.from('after')));
    assert.deepEqual(counts, [1]);
    assert.equal(String(await bytes.get('thing:1')), 'after');
    other.close();
    await bytes.close();
  });

  it('several processes can use the file at once', async () => {
    const dataDir = folder();
    const processes = [countingProcess(dataDir, 100), countingProcess(dataDir, 100)];
    const codes = await Promise.all(processes.map(({ child }) => once(child, 'exit')));
    assert.deepEqual(
      codes.map(([code]) => code),
      [0, 0],
    );
    const store = await openStore(address, { secret, dataDir });
    assert.equal((await store.get('count:shared'))?.value, 200);
    await store.close();
  });

  it('several processes can open a new file at the same moment', async () => {
    const script = join(import.meta.dirname, 'opening-thread.ts');
    const counters = new SharedArrayBuffer(8);
    const workerData = { folder: folder(), counters, threads: 4, files: 50 };
    const threads = Array.from({ length: workerData.threads }, () => {
      return new Worker(script, { workerData });
    });
    await Promise.all(threads.map((thread) => once(thread, 'exit')));
  });

  it('a completed write survives the process being killed', async () => {
    const dataDir = folder();
    const { child, answers } = countingProcess(dataDir, 1_000_000);
    let answered = 0;
    answers.on('line', (line) => {
      answered = Number(line);
      if (answered === 50) child.kill('SIGKILL');
    });
    await once(child, 'close');
    const store = await openStore(address, { secret, dataDir });
    assert.isAtLeast(answered, 50);
    assert.isAtLeast((await store.get<number>('count:shared'))?.value ?? 0, answered);
    await store.close();
  });

  it('opening fails with the path of the file', async () => {
    const dataDir = folder();
    writeFileSync(join(dataDir, 'text.sqlite'), 'this is not a database, and long enough to tell');
    const opening = openStore({ kind: 'sqlite', file: 'text.sqlite' }, { secret, dataDir });
    const message = await opening.then(
      () => '',
      (error: Error) => error.message,
    );
    expect(message).to.include(join(dataDir, 'text.sqlite')).and.include('GATEHOUSE_STORE');
  });
});
