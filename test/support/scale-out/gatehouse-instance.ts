// One Gatehouse system of a larger one, in the process of the test. It shares nothing with the others but the store and the CPU.
import { startGatehouse } from '../../../src/server.ts';
import { createLogger } from '../../../src/observability/logger.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { advanceClock, freezeClockAt, restoreClock } from '../clock.ts';
import {
  answersReady,
  type GatehouseProcess,
  hostsOf,
  listenEnvironment,
} from './gatehouse-process.ts';

const MAX_LINES = 20;

/** As `startGatehouseProcess`, at a tenth of the cost. All instances have the clock of the test, and `kill` is an orderly stop. */
export async function startGatehouseInstance(
  given: Record<string, string>,
): Promise<GatehouseProcess> {
  const { ports, environment } = await listenEnvironment(given);
  const read = () => loadSettings(environment);
  const settings = read();
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const logger = createLogger(settings.logLevel, { write });
  const system = await startGatehouse(settings, {
    logger,
    source: { read, secretVariables: () => [] },
  });
  const hosts = hostsOf(environment.GATEHOUSE_ROLES);
  let isRunning = true;
  const end = async (drain: number) => {
    if (isRunning) await system.stop(drain);
    isRunning = false;
  };
  return {
    pid: process.pid,
    ports,
    hosts,
    output: () => lines.slice(-MAX_LINES).join(''),
    isRunning: () => isRunning,
    isReady: () => answersReady(ports[hosts[0] ?? 'AUTH']),
    async setClock(change) {
      if (change === 'restore') restoreClock();
      else if ('freezeAt' in change) freezeClockAt(change.freezeAt);
      else advanceClock(change.advanceBy);
    },
    heldMemory: () => Promise.reject(new Error('it shares its heap with the test')),
    async stop() {
      await end(settings.drain);
      return 0;
    },
    kill: () => end(0),
  };
}
