import { randomBytes } from 'node:crypto';
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

  it('a command without a reply is rejected as unavailable', async () => {
    const result = createTimeout()(new Promise(() => undefined), TIMEOUT_MS);
    const error = await result.catch((reason: unknown) => reason);
    expect(error).to.be.instanceOf(StoreUnavailable);
  });
});
