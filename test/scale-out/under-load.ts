import { until } from '../support/until.ts';
import { createConnector } from '../support/management-api.ts';
import { connectClients, type LoadResponse, startLoad } from '../support/scale-out/load.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const CLIENTS = 3;

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
  const load = startLoad(await connectClients(processes, connector, CLIENTS));
  await load.waitForProgress();
  const disrupted = performance.now();
  await disrupt();
  await load.waitForProgress();
  await load.stop();
  // The balancer hides a process that does not recover.
  await until('every process to be ready', async () => {
    const ready = await Promise.all(processes.running().map((each) => each.isReady()));
    return ready.every(Boolean);
  });
  const last = load.responses.findLast(({ status }) => status !== 200)?.startedMs ?? disrupted;
  return { responses: load.responses, recoveredAfter: (last - disrupted) / 1000 };
}
