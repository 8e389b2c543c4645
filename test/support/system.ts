// A complete system in this process, on free ports, with its own store and data directory.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { startGatehouse, type StartOptions } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { restoreClock } from './clock.ts';
import { freePorts } from './free-ports.ts';
import { startRedis } from './redis-server.ts';
import { waitForStore } from './scale-out/patient-timeouts.ts';
import { until } from './until.ts';

export const STORES = ['sqlite', 'redis'] as const;
export type StoreKind = (typeof STORES)[number];

export type SystemOptions = {
  store?: StoreKind;
  /** An existing store in the form of GATEHOUSE_STORE; it is not removed at the end. */
  storeAddress?: string;
  /** Additional environment variables. */
  settings?: Record<string, string>;
  /** Replaces top-level settings of config/development.yaml. */
  file?: Record<string, unknown>;
  /** Receives log lines of level `info` and above. */
  log?: LogLine[];
  /** Replaces HTTP timeouts. */
  timeouts?: StartOptions['timeouts'];
};

export type LogLine = Record<string, unknown>;

/** Addresses and credentials of a system, which do not change when it restarts. */
export type SystemInfo = {
  auth: string;
  resource: string;
  management: string;
  /** The origins that a browser visits: authorization server, resource server, identity provider. */
  origins: string[];
  managementKey: string;
  dataDir: string;
  /** In the form of GATEHOUSE_STORE. */
  storeAddress: string;
};

export type System = SystemInfo & {
  /** Pauses and resumes the Redis process, keeping its connections open. */
  signalStore(signal: 'SIGSTOP' | 'SIGCONT'): void;
  stop(): Promise<void>;
};

/** Addresses, data directory and store of a system that is not running. */
export type Deployment = {
  facts: SystemInfo;
  environment: Record<string, string>;
  /** Removes the data directory, and the store if it was created with it. */
  release(): Promise<void>;
  signalStore: System['signalStore'];
};

const DEVELOPMENT_FILE = join(import.meta.dirname, '../../config/development.yaml');
const DEVELOPMENT = parse(readFileSync(DEVELOPMENT_FILE, 'utf8'));
const MANAGEMENT_KEY = 'management-key-of-the-tests-0123456789';

export async function startSystem(options: SystemOptions = {}): Promise<System> {
  const place = await createDeployment(options);
  try {
    const system = await startDeployment(place, options.settings, options);
    const stop = async () => {
      await system.stop();
      await place.release();
    };
    return { ...system, stop };
  } catch (error) {
    await place.release();
    throw error;
  }
}

export type RunOptions = Pick<SystemOptions, 'log' | 'timeouts'> &
  Pick<StartOptions, 'documentFetching' | 'newStore'>;

/** Starts the deployment in this process; `stop` keeps its data and store. */
export async function startDeployment(
  { facts, environment, signalStore }: Deployment,
  settings: Record<string, string> = {},
  { log, timeouts = {}, documentFetching, newStore }: RunOptions = {},
): Promise<System> {
  const write = (line: string) => void log?.push(JSON.parse(line));
  const read = () => loadSettings({ ...environment, ...settings });
  const { stop } = await startGatehouse(read(), {
    source: { read, secretVariables: () => [] },
    timeouts,
    ...(documentFetching ? { documentFetching } : {}),
    ...(newStore === undefined ? {} : { newStore }),
    ...(log ? { logger: createLogger('info', { write }) } : {}),
  });
  return { ...facts, signalStore, stop };
}

export async function createDeployment(
  options: Omit<SystemOptions, 'settings'> = {},
): Promise<Deployment> {
  const dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-test-'));
  const redis = options.store === 'redis' ? await startRedis() : undefined;
  const embedded = `sqlite:${join(dataDir, 'gatehouse.sqlite')}`;
  const storeAddress = options.storeAddress ?? redis?.url ?? embedded;
  const { environment, urls } = await addressesIn(dataDir, storeAddress, options.file ?? {});
  return {
    facts: { ...urls, managementKey: MANAGEMENT_KEY, dataDir, storeAddress },
    environment,
    signalStore(signal) {
      if (!redis) throw new Error('only Redis is a process of its own');
      redis.kill(signal);
    },
    async release() {
      await redis?.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function addressesIn(dataDir: string, store: string, file: Record<string, unknown>) {
  const [authPort, resourcePort, managementPort, idpPort] = await freePorts(4);
  const auth = `http://localhost:${authPort}`;
  const resource = `http://localhost:${resourcePort}`;
  const management = `http://127.0.0.1:${managementPort}`;
  const developmentIdp = `http://localhost:${idpPort}`;
  const config = join(dataDir, 'settings.yaml');
  await writeFile(config, JSON.stringify({ ...DEVELOPMENT, ...file }));
  const environment = {
    GATEHOUSE_CONFIG: config,
    GATEHOUSE_AUTH_URL: auth,
    GATEHOUSE_RESOURCE_URL: resource,
    GATEHOUSE_MANAGEMENT_URL: management,
    GATEHOUSE_DEVELOPMENT_IDP_URL: developmentIdp,
    GATEHOUSE_STORE: store,
    GATEHOUSE_DATA_DIR: dataDir,
    GATEHOUSE_LOG_LEVEL: process.env.GATEHOUSE_LOG_LEVEL ?? 'silent',
    GATEHOUSE_MANAGEMENT_KEY: MANAGEMENT_KEY,
  };
  const origins = [auth, resource, developmentIdp];
  return { environment, urls: { auth, resource, management, origins } };
}

/** One system for all tests of the surrounding `describe`; call the returned function while a test runs. */
export function useSystem(options: SystemOptions = {}): () => System {
  let system: System | undefined;
  before(async () => {
    system = await startSystem(options);
  });
  afterEach(restoreClock);
  after(() => system?.stop());
  return () => {
    if (!system) throw new Error('the system runs only during tests');
    return system;
  };
}

/** After its store was stopped. Until a command succeeds, each one has little time. */
export async function untilReady({ auth }: Pick<System, 'auth'>): Promise<void> {
  await until('the store to answer', async () => (await fetch(`${auth}/readyz`)).status === 200);
}

/** Runs the same tests on every store, which a busy machine may delay: tests of outages start their own system. */
export function onEachStore(
  title: string,
  claims: (system: () => System, store: StoreKind) => void,
  options: Omit<SystemOptions, 'store'> = {},
): void {
  for (const store of STORES)
    describe(`${title}, on ${store}`, () => {
      let restoreTimeouts: (() => void) | undefined;
      before(() => {
        restoreTimeouts = waitForStore();
      });
      after(() => restoreTimeouts?.());
      claims(useSystem({ ...options, store }), store);
    });
}
