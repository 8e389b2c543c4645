import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { type LoadResponse, startLoad } from '../support/scale-out/load.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const CLIENTS = 6;
const PROGRESS_SECONDS = 30;

export type LoadResult = {
  responses: readonly LoadResponse[];
  /** Seconds from the start of the disruption to the last failed request; 0 if none failed. */
  recoveredAfter: number;
};

/** Runs `disrupt` under load. Resolves when every client and process works again, and rejects if one does not. */
export async function underLoad(
  processes: Processes,
  disrupt: () => Promise<unknown>,
): Promise<LoadResult> {
  const connector = await createConnector(processes);
  const connecting = Array.from({ length: CLIENTS }, () => connect(processes, connector));
  const load = startLoad(await Promise.all(connecting));
  await load.waitForProgress();
  const disrupted = performance.now();
  await disrupt();
  await load.waitForProgress(PROGRESS_SECONDS);
  await load.stop();
  // The balancer hides a process that does not recover.
  await until('every process to be ready', async () => {
    const ready = await Promise.all(processes.running().map((each) => each.isReady()));
    return ready.every(Boolean);
  });
  const last = load.responses.findLast(({ status }) => status !== 200)?.startedMs ?? disrupted;
  return { responses: load.responses, recoveredAfter: (last - disrupted) / 1000 };
}
