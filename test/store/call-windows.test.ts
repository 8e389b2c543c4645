import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { AddedCalls, CallWindow, CallWindows } from '../../src/store/call-windows.ts';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { until } from '../support/until.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const SECRET = 'a root secret of more than 32 characters';

async function add(windows: CallWindows, window: CallWindow, times: number): Promise<AddedCalls> {
  const [added] = await windows.add([{ window, times }]);
  if (!added) throw new Error('nothing was counted');
  return added;
}

describe('Windows of limits on calls', () => {
  const directories: string[] = [];
  let opened: OpenedStore[] = [];
  let redis: RedisServer;
  /** Seconds since the epoch, of SQLite and of what is in memory. */
  let now = 1_800_000_000;

  before(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    await Promise.all(opened.map((store) => store.close()));
    opened = [];
  });
  after(async () => {
    await redis.stop();
    for (const directory of directories) rmSync(directory, { recursive: true });
  });

  const newDirectory = () => {
    const directory = mkdtempSync(join(tmpdir(), 'gatehouse-windows-'));
    directories.push(directory);
    return directory;
  };
  async function open(kind: 'redis' | 'sqlite', dataDir = newDirectory()): Promise<OpenedStore> {
    const address = kind === 'redis' ? { kind, url: redis.url } : { kind, file: 'test.sqlite' };
    const store = await openStore(address, {
      secret: SECRET,
      dataDir,
      now: () => now,
      timeouts: PATIENT_TIMEOUTS,
    });
    opened.push(store);
    return store;
  }
  async function reopened(store: OpenedStore, dataDir: string): Promise<OpenedStore> {
    opened = opened.filter((each) => each !== store);
    await store.close();
    return open('sqlite', dataDir);
  }

  for (const kind of ['redis', 'sqlite'] as const) {
    it(`counts side by side, gives back and begins anew, on ${kind}`, async () => {
      const { callWindows } = await open(kind);
      const window = { name: `connection of ${kind}`, count: 10, seconds: 60 };
      expect(await callWindows.read(window)).to.equal(undefined);
      const counts = await Promise.all([3, 1, 2].map((times) => add(callWindows, window, times)));
      expect(counts.map(({ count }) => count)).to.have.members([3, 4, 6]);
      for (const { secondsLeft } of counts) expect(secondsLeft).to.be.within(59, 60);
      const [added] = counts;
      if (!added) throw new Error('nothing was counted');
      await callWindows.giveBack(window, 2, added);
      expect((await callWindows.read(window))?.count).to.equal(4);
      expect((await add(callWindows, { ...window, seconds: 30 }, 1)).count).to.equal(1);
      await callWindows.reset(window);
      expect(await callWindows.read(window)).to.equal(undefined);
      await callWindows.giveBack(window, 5, added);
      expect((await add(callWindows, window, 1)).count).to.equal(1);
    });
  }

  it('a window in SQLite goes on after a restart, until it ends', async () => {
    const dataDir = newDirectory();
    const first = await open('sqlite', dataDir);
    const window = { name: 'restarted', count: 600, seconds: 60 };
    for (let n = 0; n < 7; n += 1) await add(first.callWindows, window, 1);
    now += 10;
    const second = await reopened(first, dataDir);
    expect(await second.callWindows.read(window)).to.deep.equal({ count: 7, secondsLeft: 50 });
    expect((await add(second.callWindows, window, 1)).count).to.equal(8);
    now += 50;
    expect((await add(second.callWindows, window, 1)).count).to.equal(1);
  });

  it('after a process died, a window in SQLite ends at most a twentieth of its limit early, and never late', async () => {
    const dataDir = newDirectory();
    const died = await open('sqlite', dataDir);
    const window = { name: 'died', count: 600, seconds: 60 };
    for (let n = 0; n < 100; n += 1) await add(died.callWindows, window, 1);
    // The file as it is, without what closing writes.
    const next = await open('sqlite', dataDir);
    expect((await next.callWindows.read(window))?.count).to.be.within(100, 130);
    for (let n = 0; n < 600; n += 1) await add(next.callWindows, window, 1);
    const last = await open('sqlite', dataDir);
    expect((await last.callWindows.read(window))?.count).to.be.at.least(600);
  });

  it('a clock that jumps back makes no window longer than its time, and one that jumps ahead ends it', async () => {
    const { callWindows } = await open('sqlite');
    const window = { name: 'jumping', count: 5, seconds: 60 };
    for (let n = 0; n < 6; n += 1) await add(callWindows, window, 1);
    now -= 86_400;
    expect(await callWindows.read(window)).to.deep.equal({ count: 6, secondsLeft: 60 });
    now += 61;
    expect((await add(callWindows, window, 1)).count).to.equal(1);
    now += 86_400;
    expect(await callWindows.read(window)).to.equal(undefined);
  });

  it('while Redis is stalled, a process counts for itself from zero, and afterwards with the others again', async () => {
    const [one, other] = [await open('redis'), await open('redis')];
    const window = { name: 'stalled', count: 5, seconds: 600 };
    await add(one.callWindows, window, 4);
    redis.kill('SIGSTOP');
    const counts: number[] = [];
    try {
      for (let n = 0; n < 3; n += 1) counts.push((await add(one.callWindows, window, 1)).count);
      expect((await one.callWindows.read(window))?.count).to.equal(3);
      const added = await add(one.callWindows, window, 4);
      await one.callWindows.giveBack(window, 4, added);
      expect((await one.callWindows.read(window))?.count).to.equal(3);
    } finally {
      redis.kill('SIGCONT');
    }
    expect(counts).to.deep.equal([1, 2, 3]);
    await until('both to count together', async () => {
      const { count } = await add(one.callWindows, window, 1);
      return (await add(other.callWindows, window, 1)).count === count + 1;
    });
  });
});
