// Several Gatehouse processes with one store, secret and set of public addresses, behind balancers.
import { setTimeout as delay } from 'node:timers/promises';
import { SOAK } from '../soak.ts';
import { createDeployment, type System, type SystemOptions } from '../system.ts';
import {
  type GatehouseProcess,
  HOSTS,
  type HostName,
  PATIENT_STORE,
  startGatehouseProcess,
} from './gatehouse-process.ts';
import { startGatehouseInstance } from './gatehouse-instance.ts';
import { waitForStore } from './patient-timeouts.ts';
import type { ClockChange } from './process-clock.ts';
import { type BalancedResponse, type Balancer, startBalancer } from './round-robin.ts';

export type Processes = System & {
  running(): GatehouseProcess[];
  /** Resolves when requests also go to a new process, which may have its own settings. */
  add(settings?: Record<string, string>): Promise<GatehouseProcess>;
  /** The ports of ready processes for this host, or of all running ones if none is ready. */
  readyPorts(host: HostName): readonly number[];
  /** Sets the clock of every process. */
  setClocks(change: ClockChange): Promise<void>;
  /** Every response through the balancers, oldest first. */
  responses: readonly (BalancedResponse & { host: HostName })[];
  output(): string;
};

export type ProcessesOptions = SystemOptions & {
  /** The number of processes of each kind. */
  count?: number;
  /** The additional settings of each kind; one kind without any by default. */
  kinds?: readonly Record<string, string>[];
  /** Keeps the timeouts of the store. Without it a slow machine is never an outage. */
  keepsStoreTimeouts?: boolean;
  /** What the processes load first, in place of a patient store. */
  imports?: readonly string[];
  /** Starts instances in the process of the test. The long run starts processes always. */
  inThisProcess?: boolean;
};

export const SECRET = 'a root secret that all processes of the tests share';
const PROBE_INTERVAL_MS = 150;
const START_TIMEOUT_MS = 120_000;

/**
 * Resolves when all processes are ready. Each process has every role, including the development identity provider, unless its kind sets
 * others, on its own ports behind a balancer. Hosts for which `settings` set a listener have no balancer.
 */
export async function startProcesses(options: ProcessesOptions = {}): Promise<Processes> {
  const { count = 3, settings = {}, kinds = [{}], keepsStoreTimeouts = false } = options;
  const place = await createDeployment(options);
  const environment: Record<string, string> = {
    ...place.environment,
    GATEHOUSE_SECRET: SECRET,
    GATEHOUSE_LOG_LEVEL: 'warn',
    ...settings,
  };
  const inThisProcess = options.inThisProcess === true && !SOAK;
  const restoreTimeouts = inThisProcess && !keepsStoreTimeouts ? waitForStore() : () => undefined;
  const imports = options.imports ?? (keepsStoreTimeouts ? [] : [PATIENT_STORE]);
  const { started, add, readyPorts } = startingProcesses(environment, (own) =>
    inThisProcess ? startGatehouseInstance(own) : startGatehouseProcess(own, imports),
  );
  const responses: (BalancedResponse & { host: HostName })[] = [];
  const balancers: Balancer[] = [];
  const stop = async () => {
    await Promise.all(balancers.map((balancer) => balancer.close()));
    await Promise.all(started.map((each) => each.kill()));
    restoreTimeouts();
    await place.release();
  };
  try {
    for (const host of HOSTS.filter((name) => !(`GATEHOUSE_${name}_LISTEN` in settings))) {
      const address = environment[`GATEHOUSE_${host}_URL`];
      if (!address) continue;
      const note = (answered: BalancedResponse) => responses.push({ host, ...answered });
      const { port } = new URL(address);
      balancers.push(await startBalancer(Number(port), () => readyPorts(host), note));
    }
    await Promise.all(kinds.flatMap((kind) => Array.from({ length: count }, () => add(kind))));
  } catch (error) {
    await stop();
    throw error;
  }
  const running = () => started.filter((each) => each.isRunning());
  const setClocks = async (change: ClockChange) =>
    void (await Promise.all(
      // Instances in this process have one clock.
      (inThisProcess ? running().slice(0, 1) : running()).map((each) => each.setClock(change)),
    ));
  const output = () => started.map((each) => each.output()).join('\n');
  const { facts, signalStore } = place;
  return { ...facts, signalStore, running, add, readyPorts, setClocks, responses, output, stop };
}

function startingProcesses(
  environment: Record<string, string>,
  start: (environment: Record<string, string>) => Promise<GatehouseProcess>,
) {
  const started: GatehouseProcess[] = [];
  const ready = new Set<GatehouseProcess>();
  const probe = async (each: GatehouseProcess) => {
    while (each.isRunning()) {
      await delay(PROBE_INTERVAL_MS);
      if (await each.isReady()) ready.add(each);
      else ready.delete(each);
    }
    ready.delete(each);
  };
  return {
    started,
    async add(settings: Record<string, string> = {}) {
      const each = await start({ ...environment, ...settings });
      started.push(each);
      ready.add(each);
      void probe(each);
      return each;
    },
    readyPorts(host: HostName) {
      const running = started.filter((each) => each.isRunning() && each.hosts.includes(host));
      const willing = running.filter((each) => ready.has(each));
      return (willing.length > 0 ? willing : running).map(({ ports }) => ports[host]);
    },
  };
}

/** One system for all tests of the surrounding `describe`. Prints the log of the processes if a test fails. */
export function useProcesses(
  open: () => Promise<ProcessesOptions> | ProcessesOptions,
): () => Processes {
  let processes: Processes | undefined;
  before(async function start() {
    this.timeout(START_TIMEOUT_MS);
    processes = await startProcesses(await open());
  });
  afterEach(function showOutput() {
    if (this.currentTest?.isFailed()) console.error(processes?.output());
  });
  after(() => processes?.stop());
  return () => {
    if (!processes) throw new Error('the processes run only during tests');
    return processes;
  };
}
