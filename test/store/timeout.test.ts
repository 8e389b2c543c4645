import { randomBytes } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createTimeout } from '../../src/store/timeout.ts';
import { StoreUnavailable } from '../../src/store/store.ts';

const TIMEOUT_MS = 20;

describe('the timeout of a command to the store', () => {
  it('a reply that arrived while the process was busy counts, although its time is over', async () => {
    // Runs in another thread.
    const command = promisify(randomBytes)(8);
    const result = createTimeout()(command, TIMEOUT_MS);
    const busyUntil = performance.now() + 10 * TIMEOUT_MS;
    while (performance.now() < busyUntil);
    expect(await result).to.have.length(8);
  });

  it('a process that was held up waits once more, and no longer than that', async () => {
    const held = (command: Promise<unknown>) => {
      const result = createTimeout()(command, TIMEOUT_MS);
      const busyUntil = performance.now() + 10 * TIMEOUT_MS;
      while (performance.now() < busyUntil);
      return result;
    };
    expect(await held(setTimeout(12 * TIMEOUT_MS, 'late'))).to.equal('late');
    const error = await held(new Promise(() => undefined)).catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(StoreUnavailable);
  });

  it('a command without a reply is rejected as unavailable', async () => {
    const result = createTimeout()(new Promise(() => undefined), TIMEOUT_MS);
    const error = await result.catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(StoreUnavailable);
  });
});
