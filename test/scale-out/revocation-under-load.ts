import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { mint, revoke } from '../links/minted-tokens/minting.ts';
import { until } from '../support/until.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import {
  type AccessPaths,
  prepareAccessPaths,
  type Outcome,
  type AccessPath,
  ACCESS_PATHS,
} from '../support/access-paths.ts';
import { connect } from '../support/connection.ts';
import { statusesAt } from '../support/scale-out/direct-call.ts';
import type { Processes } from '../support/scale-out/processes.ts';
import { recordSoak, SOAK } from '../support/soak.ts';

/** Each try of these needs a page or a code that was prepared. */
const PREPARED: readonly AccessPath[] = ['approve', 'exchange'];
const REPEATED: readonly AccessPath[] = ['authorize', 'refresh', 'call', 'minted'];
const TRIES = { before: 1, during: 2, after: 3 };
const PAUSE_MS = 60;
const MAX_DELAY_MS = 1000;

type Attempt = Outcome & { path: AccessPath; startedMs: number };

export function testRevocationUnderLoad(processes: () => Processes): void {
  const limit = SOAK
    ? 'that starts a second after a revocation'
    : 'after every instance refused it';

  describe('while their clocks stand still', () => {
    // Cached records do not expire, so only notifications can end them.
    before(() => processes().setClocks({ freezeAt: Date.now() / 1000 }));
    after(() => processes().setClocks('restore'));

    it(`CNX-01 under load no request on any path of a revoked link succeeds ${limit}`, async () => {
      const connector = await createConnector(processes());
      const { link, accessToken } = await connect(processes(), connector);
      const minted = await mint(processes());
      const { before, during, after } = TRIES;
      const tries = before + during + after;
      const every = await prepareAccessPaths(processes(), connector, minted.token, tries);
      const load = startLoad(every);
      for (const path of PREPARED) await load.attempt(path, before);
      await load.reaches('every path to succeed', 0, 1, ({ isSuccess }) => isSuccess);
      await Promise.all([
        revokeConnector(processes(), connector.id),
        revoke(processes(), minted.id),
        ...PREPARED.map((path) => load.attempt(path, during)),
      ]);
      if (SOAK) await delay(MAX_DELAY_MS);
      else {
        await untilRefused(processes(), link, accessToken, 410);
        await untilRefused(processes(), `${processes().resource}/mcp`, minted.token, 401);
      }
      const limitMs = performance.now();
      await Promise.all(PREPARED.map((path) => load.attempt(path, after)));
      await load.reaches('attempts on every path after the limit', limitMs, after, () => true);
      await load.stop();
      const late = load.attempts.filter(
        ({ isSuccess, startedMs }) => isSuccess && startedMs > limitMs,
      );
      expect(late).to.deep.equal([]);
      const errors = load.attempts.filter(({ isSuccess, status }) => !isSuccess && status >= 500);
      expect(errors).to.deep.equal([]);
      recordSoak({
        what: 'six ways to use a link that is revoked under load',
        held: `${load.attempts.length} requests, none succeeded a second later`,
      });
    });
  });
}

async function untilRefused(system: Processes, link: string, token: string, status: number) {
  await until(`every process to return ${status}`, async () => {
    const statuses = await statusesAt(system.running(), link, token);
    return statuses.every((each) => each === status);
  });
}

/** Tries the paths that need no preparation repeatedly and concurrently. */
function startLoad(every: AccessPaths) {
  const attempts: Attempt[] = [];
  const stopped = new AbortController();
  const attempt = async (path: AccessPath, times = 1) => {
    for (let n = 0; n < times; n += 1) {
      const startedMs = performance.now();
      attempts.push({ path, startedMs, ...(await every[path]()) });
    }
  };
  const work = async (path: AccessPath) => {
    while (!stopped.signal.aborted) {
      await attempt(path);
      await delay(PAUSE_MS);
    }
  };
  const working = Promise.all(REPEATED.map(work));
  working.catch(() => undefined);
  return {
    attempts,
    attempt,
    /** Resolves when every path had `times` such attempts that started later than `afterMs`. */
    reaches: (what: string, afterMs: number, times: number, isIt: (tried: Attempt) => boolean) =>
      until(what, () =>
        ACCESS_PATHS.every((path) => {
          const tried = attempts.filter((each) => each.path === path && each.startedMs > afterMs);
          return tried.filter(isIt).length >= times;
        }),
      ),
    async stop() {
      stopped.abort();
      await working;
    },
  };
}
