import { expect } from 'chai';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { LogBytes } from '../../src/store/byte-store.ts';
import { diskSync } from '../../src/store/disk-sync.ts';
import { rowCount, rowWithoutNumber } from '../../src/store/log-rows.ts';
import { commitQueue, checkpointWal, openDatabase } from '../../src/store/sqlite-database.ts';
import { sqliteLogs } from '../../src/store/sqlite-logs.ts';

const LOG = 'audit:log';
const EPOCH = 'epoch-of-log';

let folder = '';
let opened: DatabaseSync[] = [];
let sent = 0;

/** A process that has the file open. Its disk keeps it waiting until `release`, if it is `slow`. */
function openProcess({ file = 'store.sqlite', slow = false } = {}) {
  const db = openDatabase(join(folder, file));
  opened.push(db);
  const disk = Promise.withResolvers<void>();
  if (!slow) disk.resolve();
  const queue = commitQueue(db);
  let waits = 0;
  const sync = () => {
    waits += 1;
    return disk.promise;
  };
  const logs = sqliteLogs(db, queue, { sync });
  return { db, logs, commit: queue.commit, release: disk.resolve, waits: () => waits };
}

type Logs = ReturnType<typeof openProcess>['logs'];

async function append(logs: Logs, count: number, token = `token ${(sent += 1)}`) {
  const entry = (n: number): LogBytes => ({
    bytes: Buffer.from(`entry ${n} of ${token}`),
    part: 'bulk',
    row: rowWithoutNumber(1_900_000_000, []),
    completes: undefined,
  });
  const appended = await logs.appendLog(
    LOG,
    Array.from({ length: count }, (_, n) => entry(n)),
    {
      token,
      epoch: EPOCH,
    },
  );
  await logs.waitForLog?.(LOG, (appended?.first ?? 1) + count - 1);
  return appended;
}

async function numbersIn(logs: Logs) {
  const [entries, blocks] = await Promise.all([
    logs.readLog(LOG, { after: 0, limit: 1000 }),
    logs.readLogBlocks(LOG, { part: 'bulk', after: 0, limit: 1000 }),
  ]);
  const rows = blocks.reduce((sum, block) => sum + rowCount(block.rows), 0);
  return { entries: entries.map(([number]) => number), rows, last: await logs.lastInLog(LOG) };
}

/** Says whether the promise is still pending after what is in the queues of the event loop. */
async function isWaiting(promise: Promise<unknown>): Promise<boolean> {
  let isPending = true;
  void promise.then(() => (isPending = false));
  for (let turns = 0; turns < 10; turns += 1) await nextTurn();
  return isPending;
}

const upTo = (last: number) => Array.from({ length: last }, (_, n) => n + 1);

describe('Logs on SQLite', () => {
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'logs-'));
  });
  afterEach(() => {
    for (const db of opened) db.close();
    opened = [];
    rmSync(folder, { recursive: true });
  });

  it('LOG-21 an entry is appended, and read by any process, only when it is on disk: its number is never seen with other contents', async () => {
    const [writer, reader] = [openProcess({ slow: true }), openProcess({ slow: true })];
    const appended = append(writer.logs, 3);
    expect(await isWaiting(appended)).to.equal(true);
    const reads = [writer, reader].flatMap(({ logs }) => [
      logs.readLog(LOG, { after: 0, limit: 10 }),
      logs.readLogEntries(LOG, [2]),
    ]);
    for (const read of reads) expect(await isWaiting(read)).to.equal(true);
    writer.release();
    reader.release();
    expect(await appended).to.deep.equal({ first: 1, epoch: EPOCH });
    expect((await Promise.all(reads)).map((entries) => entries.length)).to.deep.equal([3, 1, 3, 1]);
  });

  it('a process that reads page after page waits for the disk once, and for what it wrote itself not again', async () => {
    const [writer, reader] = [openProcess(), openProcess()];
    await append(writer.logs, 4);
    for (const { logs, waits } of [writer, reader]) {
      for (const after of [0, 2])
        expect(await logs.readLog(LOG, { after, limit: 2 })).to.have.lengthOf(2);
      expect(waits()).to.equal(1);
    }
  });

  it('a write that is repeated while the disk is waited for is stored once', async () => {
    const { logs, release } = openProcess({ slow: true });
    const first = append(logs, 2, 'a batch');
    expect(await isWaiting(first)).to.equal(true);
    const again = append(logs, 2, 'a batch');
    release();
    expect(await again).to.deep.equal(await first);
    expect(await logs.lastInLog(LOG)).to.equal(2);
  });

  it('LOG-21 whatever a power failure leaves of the newest writes, the log has whole writes without gaps and continues after them', async () => {
    const { logs, commit } = openProcess();
    const file = join(folder, 'store.sqlite');
    await append(logs, 100);
    await commit(() => undefined);
    const onDisk = statSync(`${file}-wal`).size;
    for (const count of [1, 100, 7]) await append(logs, count);
    const all = statSync(`${file}-wal`).size;
    const wal = readFileSync(`${file}-wal`);
    const failures = upTo(16).flatMap((part) => {
      const at = onDisk + Math.floor(((all - onDisk) * part) / 16);
      // Later pages may reach the disk before earlier ones.
      const withHole = Buffer.concat([
        wal.subarray(0, at),
        Buffer.alloc(512),
        wal.subarray(at + 512),
      ]);
      return [wal.subarray(0, at), withHole];
    });
    const left = new Set<number>();
    for (const [index, written] of [wal.subarray(0, onDisk), ...failures].entries()) {
      const copy = `copy-${index}.sqlite`;
      copyFileSync(file, join(folder, copy));
      writeFileSync(join(folder, `${copy}-wal`), written);
      const restarted = openProcess({ file: copy });
      const { entries, rows, last } = await numbersIn(restarted.logs);
      expect([entries, rows]).to.deep.equal([upTo(last), last]);
      expect(await append(restarted.logs, 1)).to.deep.equal({ first: last + 1, epoch: EPOCH });
      expect(restarted.db.prepare('PRAGMA integrity_check').get()).to.deep.include({
        integrity_check: 'ok',
      });
      left.add(last);
    }
    expect([...left].toSorted((one, other) => one - other)).to.deep.equal([100, 101, 201, 208]);
  });

  it('other writes of the same and of later turns wait for the disk in their commit', async () => {
    const { db, logs, commit } = openProcess();
    const levels: unknown[] = [];
    const note = () => levels.push(db.prepare('PRAGMA synchronous').get()?.['synchronous']);
    await Promise.all([append(logs, 1), commit(note)]);
    await append(logs, 1);
    await commit(note);
    const FULL = 2;
    expect(levels).to.deep.equal([FULL, FULL]);
  });
});

describe('Waiting for the disk', () => {
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'disk-'));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('a failed sync is followed by a checkpoint, and fails until that succeeds', async () => {
    let checkpoints = 0;
    // A device that cannot be synced.
    const disk = diskSync('/dev/null', () => {
      checkpoints += 1;
      if (checkpoints === 1) throw new Error('the disk is broken');
    });
    const message = await disk.sync().catch(String);
    expect(message).to.equal('Error: the disk is broken');
    await Promise.all([disk.sync(), disk.sync()]);
    expect(checkpoints).to.equal(2);
    await disk.close();
  });

  it('the write-ahead log is moved to the file as a whole, or not at all while another process reads it', () => {
    const file = join(folder, 'store.sqlite');
    const [db, other] = [openDatabase(file), openDatabase(file)];
    db.exec("INSERT INTO log (name, last, epoch) VALUES ('a', 1, 'e')");
    other.exec('BEGIN; SELECT * FROM log');
    db.exec("UPDATE log SET last = 2 WHERE name = 'a'");
    expect(() => checkpointWal(db)).to.throw('could not be moved');
    other.exec('COMMIT');
    checkpointWal(db);
    expect(statSync(`${file}-wal`).size).to.equal(0);
    other.close();
    db.close();
  });
});
