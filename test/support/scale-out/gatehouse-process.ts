// One Gatehouse process of a larger system.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { until } from '../until.ts';
import { freePorts } from '../free-ports.ts';
import { nodeArguments } from '../node-arguments.ts';
import type { ClockChange } from './process-clock.ts';
import { ASK_FOR_MEMORY, type HeldMemory } from './process-memory.ts';

/** The hosts of a process, as in the GATEHOUSE_…_LISTEN variables. */
export const HOSTS = ['AUTH', 'RESOURCE', 'MANAGEMENT', 'DEVELOPMENT_IDP'] as const;
export type HostName = (typeof HOSTS)[number];

export type GatehouseProcess = {
  pid: number;
  ports: Record<HostName, number>;
  /** The hosts of its roles. */
  hosts: readonly HostName[];
  /** The last lines of standard output and error. */
  output(): string;
  isRunning(): boolean;
  isReady(): Promise<boolean>;
  /** Timers are not affected. */
  setClock(change: ClockChange): Promise<void>;
  heldMemory(): Promise<HeldMemory>;
  /** Sends SIGTERM and resolves to the exit code, or null if the process was killed. */
  stop(): Promise<number | null>;
  /** Sends SIGKILL. */
  kill(): Promise<void>;
};

const ROLES: Record<string, readonly HostName[]> = {
  'authorization-server': ['AUTH', 'DEVELOPMENT_IDP'],
  'resource-server': ['RESOURCE'],
  management: ['MANAGEMENT'],
};
const CLOCK = join(import.meta.dirname, 'process-clock.ts');
const MEMORY = join(import.meta.dirname, 'process-memory.ts');
/** Raises the timeouts of the store. */
export const PATIENT_STORE = join(import.meta.dirname, 'patient-store.ts');
/** Doubles them. */
export const SLOWER_STORE = join(import.meta.dirname, 'slower-store.ts');
const START_TIMEOUT_SECONDS = 60;
const STARTED = / is running\.$/m;
const MAX_OUTPUT_CHARACTERS = 20_000;

/** Adds listeners on free ports, unless `environment` sets them. */
export async function listenEnvironment(environment: Record<string, string>) {
  const free = await freePorts(HOSTS.length);
  const ports = {} as GatehouseProcess['ports'];
  HOSTS.forEach((host, i) => {
    const given = environment[`GATEHOUSE_${host}_LISTEN`]?.split(':').at(-1);
    ports[host] = Number(given ?? free[i]);
  });
  const listen = HOSTS.map((host) => [`GATEHOUSE_${host}_LISTEN`, `127.0.0.1:${ports[host]}`]);
  return { ports, environment: { ...Object.fromEntries(listen), ...environment } };
}

/** Resolves when the process is ready. It listens on free ports, unless `given` sets them, and loads the `imports` first. */
export async function startGatehouseProcess(
  given: Record<string, string>,
  imports: readonly string[] = [],
): Promise<GatehouseProcess> {
  const { ports, environment } = await listenEnvironment(given);
  const imported = [CLOCK, MEMORY, ...imports].flatMap((file) => ['--import', file]);
  const child = spawn(process.execPath, nodeArguments(['start'], imported), {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  const killAtExit = () => child.kill('SIGKILL');
  process.once('exit', killAtExit);
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (text) => (output = (output + text).slice(-MAX_OUTPUT_CHARACTERS)));
  const exited = once(child, 'exit');
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const end = async (signal: NodeJS.Signals) => {
    if (isRunning()) child.kill(signal);
    await exited;
    process.off('exit', killAtExit);
    return child.exitCode;
  };
  const hosts = hostsOf(environment.GATEHOUSE_ROLES);
  const started: GatehouseProcess = {
    pid: child.pid ?? 0,
    ports,
    hosts,
    output: () => output,
    isRunning,
    isReady: () => answersReady(ports[hosts[0] ?? 'AUTH']),
    async setClock(change) {
      const answered = once(child, 'message');
      child.send(change);
      await answered;
    },
    async heldMemory() {
      const answered = once(child, 'message') as Promise<[HeldMemory]>;
      child.send(ASK_FOR_MEMORY);
      const [held] = await answered;
      return held;
    },
    stop: () => end('SIGTERM'),
    kill: async () => void (await end('SIGKILL')),
  };
  try {
    await until(
      'a process is ready',
      () => requireRunning(started) && STARTED.test(output) && started.isReady(),
      START_TIMEOUT_SECONDS,
    );
  } catch (cause) {
    await started.kill();
    throw new Error(`a process did not start:\n${output}`, { cause });
  }
  return started;
}

export function hostsOf(roles = 'all'): readonly HostName[] {
  return roles === 'all' ? HOSTS : roles.split(',').flatMap((role) => ROLES[role] ?? []);
}

function requireRunning(started: GatehouseProcess): GatehouseProcess {
  if (!started.isRunning()) throw new Error('it ended');
  return started;
}

export async function answersReady(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
    await answer.body?.cancel();
    return answer.status === 200;
  } catch {
    return false;
  }
}
