import { expect } from 'chai';
import { acquireLock } from '../../src/store/lock.ts';
import { openStore } from '../../src/store/open.ts';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

describe('A lock in the store', () => {
  const { now } = performance;
  afterEach(() => {
    performance.now = now;
  });

  it('APL-03 a process that did not run for longer than the lock lives holds it no longer', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'lock-'));
    const options = { secret: 'a root secret for the test of the lock', dataDir };
    const store = await openStore({ kind: 'sqlite', file: 'store.sqlite' }, options);
    const lock = await acquireLock(store, 'a-lock:1');
    expect(lock?.isHeld()).to.equal(true);
    performance.now = () => now.call(performance) + 10_000;
    expect(lock?.isHeld()).to.equal(false);
    await lock?.release();
    await store.close();
    await rm(dataDir, { recursive: true, force: true });
  });
});
