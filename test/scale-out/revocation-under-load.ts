import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { mint, revoke } from '../minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import {
  type AccessPaths,
  prepareAccessPaths,
  type Outcome,
  type AccessPath,
  ACCESS_PATHS,
} from '../support/access-paths.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const ATTEMPTS = 30;
const PAUSE_MS = 60;
const MAX_DELAY_MS = 1000;

type Attempt = Outcome & { path: AccessPath; startedMs: number };

export function testRevocationUnderLoad(processes: () => Processes): void {
  it('CNX-01 under load no request on any path succeeds that starts a second after a revocation', async () => {
    const connector = await createConnector(processes());
    const minted = await mint(processes());
    const every = await prepareAccessPaths(processes(), connector, minted.token, ATTEMPTS);
    const load = startLoad(every);
    await load.reaches('every path to succeed', 0, ({ isSuccess }) => isSuccess);
    await Promise.all([revokeConnector(processes(), connector.id), revoke(processes(), minted.id)]);
    const deadline = performance.now() + MAX_DELAY_MS;
    await load.reaches('an attempt on every path after the limit', deadline, () => true);
    await load.stop();
    const late = load.attempts.filter(
      ({ isSuccess, startedMs }) => isSuccess && startedMs > deadline,
    );
    expect(late).to.deep.equal([]);
    const errors = load.attempts.filter(({ isSuccess, status }) => !isSuccess && status >= 500);
    expect(errors).to.deep.equal([]);
  }).timeout(60_000);
}

/** Tries every path repeatedly and concurrently. */
function startLoad(every: AccessPaths) {
  const attempts: Attempt[] = [];
  const stopped = new AbortController();
  const work = async (path: AccessPath) => {
    for (let n = 0; n < ATTEMPTS && !stopped.signal.aborted; n += 1) {
      const startedMs = performance.now();
      attempts.push({ path, startedMs, ...(await every[path]()) });
      await delay(PAUSE_MS);
    }
  };
  const working = Promise.all(ACCESS_PATHS.map(work));
  working.catch(() => undefined);
  const reached = (after: number, isIt: (attempts: Attempt) => boolean) =>
    ACCESS_PATHS.every((path) =>
      attempts.some((each) => each.path === path && each.startedMs > after && isIt(each)),
    );
  return {
    attempts,
    reaches: (what: string, after: number, isIt: (attempts: Attempt) => boolean) =>
      until(what, () => reached(after, isIt)),
    async stop() {
      stopped.abort();
      await working;
    },
  };
}
