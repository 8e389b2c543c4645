// Several Gatehouse processes that are one system: one store, one secret, one set of public addresses, requests taken in turn.
import { setTimeout as delay } from 'node:timers/promises';
import { createDeployment, type System, type SystemOptions } from '../system.ts';
import {
  type GatehouseProcess,
  HOSTS,
  type HostName,
  startGatehouseProcess,
} from './gatehouse-process.ts';
import { type BalancedResponse, type Balancer, startBalancer } from './round-robin.ts';

export type Processes = System & {
  running(): GatehouseProcess[];
  /** Resolves when requests go to one more process, which may be told something else than the others. */
  add(settings?: Record<string, string>): Promise<GatehouseProcess>;
  /** Where a host listens at those that say they are ready; when none does at all, because somebody has to answer. */
  readyPorts(host: HostName): readonly number[];
  /** Every answer that went through the balancers, oldest first. */
  responses: readonly (BalancedResponse & { host: HostName })[];
  output(): string;
};

export type ProcessesOptions = SystemOptions & {
  /** Of each kind. */
  count?: number;
  /** What the processes of each kind are told besides: one kind, which is told nothing, unless there are others. */
  kinds?: readonly Record<string, string>[];
};

const SECRET = 'a root secret that all processes of the tests share';
const PROBE_INTERVAL_MS = 100;
const START_TIMEOUT_MS = 120_000;

/**
 * Resolves when all are ready. Each one plays every role, the development identity provider included, unless its kind says otherwise, on
 * ports of its own behind a balancer, but for hosts for which `settings` say where to listen.
 */
export async function startProcesses(options: ProcessesOptions = {}): Promise<Processes> {
  const { count = 3, settings = {}, kinds = [{}] } = options;
  const place = await createDeployment(options);
  const environment: Record<string, string> = {
    ...place.environment,
    GATEHOUSE_SECRET: SECRET,
    GATEHOUSE_LOG_LEVEL: 'warn',
    ...settings,
  };
  const { started, add, readyPorts } = startingProcesses(environment);
  const responses: (BalancedResponse & { host: HostName })[] = [];
  const balancers: Balancer[] = [];
  const stop = async () => {
    await Promise.all(balancers.map((balancer) => balancer.close()));
    await Promise.all(started.map((each) => each.kill()));
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
  const output = () => started.map((each) => each.output()).join('\n');
  const { facts, signalStore } = place;
  return { ...facts, signalStore, running, add, readyPorts, responses, output, stop };
}

function startingProcesses(environment: Record<string, string>) {
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
      const each = await startGatehouseProcess({ ...environment, ...settings });
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

/** One system for all claims of the `describe` around it. What the processes logged is shown when a claim fails. */
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
    if (!processes) throw new Error('the processes run only while a claim does');
    return processes;
  };
}
