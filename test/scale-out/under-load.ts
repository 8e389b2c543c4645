// Something happens while connected clients are at work, and what they noticed of it.
import { until } from '../store/condition.ts';
import { createConnector } from '../support/management-api.ts';
import { connect } from '../support/connection.ts';
import { type LoadResponse, startLoad } from '../support/scale-out/load.ts';
import type { Processes } from '../support/scale-out/processes.ts';

const CLIENTS = 6;
const WAITED_FOR_SECONDS = 30;

export type Struck = {
  noted: readonly LoadResponse[];
  /** Seconds from the beginning of the strike to the last request that was not granted; 0 when all were. */
  healedAfter: number;
};

/** Resolves when every client and every process goes on after `strike`; throws when one never does. */
export async function underLoad(
  processes: Processes,
  strike: () => Promise<unknown>,
): Promise<Struck> {
  const connector = await createConnector(processes);
  const connecting = Array.from({ length: CLIENTS }, () => connect(processes, connector));
  const load = startLoad(await Promise.all(connecting));
  await load.waitForProgress();
  const struck = performance.now();
  await strike();
  await load.waitForProgress(WAITED_FOR_SECONDS);
  await load.stop();
  // The balancer would hide one that never comes back.
  await until('every process is ready', async () => {
    const ready = await Promise.all(processes.running().map((each) => each.isReady()));
    return ready.every(Boolean);
  });
  const last = load.responses.findLast(({ status }) => status !== 200)?.startedMs ?? struck;
  return { noted: load.responses, healedAfter: (last - struck) / 1000 };
}
