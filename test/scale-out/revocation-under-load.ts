// Under constant load on every path at all processes, nothing succeeds that began a second after a revocation: a claim for processes that hear messages.
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { mint, revoke } from '../minted-tokens/minting.ts';
import { until } from '../store/condition.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import {
  type AccessPaths,
  prepareAccessPaths,
  type Outcome,
  type AccessPath,
  ACCESS_PATHS,
} from '../support/access-paths.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const TRIES = 30;
const PAUSE_MS = 60;
const IN_TIME_MS = 1000;

type Noted = Outcome & { path: AccessPath; begun: number };

export function revocationHoldsUnderLoad(processes: () => Processes): void {
  it('CNX-01 nothing that begins a second after a revocation succeeds, under constant load on every path', async () => {
    const connector = await createConnector(processes());
    const minted = await mint(processes());
    const every = await prepareAccessPaths(processes(), connector, minted.token, TRIES);
    const load = startLoad(every);
    await load.reaches('every path succeeds', 0, ({ isSuccess }) => isSuccess);
    await Promise.all([revokeConnector(processes(), connector.id), revoke(processes(), minted.id)]);
    const over = performance.now() + IN_TIME_MS;
    await load.reaches('every path was tried later', over, () => true);
    await load.stop();
    const late = load.noted.filter(({ isSuccess, begun }) => isSuccess && begun > over);
    expect(late).to.deep.equal([]);
    const odd = load.noted.filter(({ isSuccess, status }) => !isSuccess && status >= 500);
    expect(odd).to.deep.equal([]);
  }).timeout(60_000);
}

/** Each path is tried again and again, beside the others. */
function startLoad(every: AccessPaths) {
  const noted: Noted[] = [];
  const stopped = new AbortController();
  const work = async (path: AccessPath) => {
    for (let n = 0; n < TRIES && !stopped.signal.aborted; n += 1) {
      const begun = performance.now();
      noted.push({ path, begun, ...(await every[path]()) });
      await delay(PAUSE_MS);
    }
  };
  const working = Promise.all(ACCESS_PATHS.map(work));
  working.catch(() => undefined);
  const reached = (after: number, isIt: (noted: Noted) => boolean) =>
    ACCESS_PATHS.every((path) =>
      noted.some((each) => each.path === path && each.begun > after && isIt(each)),
    );
  return {
    noted,
    reaches: (what: string, after: number, isIt: (noted: Noted) => boolean) =>
      until(what, () => reached(after, isIt)),
    async stop() {
      stopped.abort();
      await working;
    },
  };
}
