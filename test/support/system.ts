// A whole Gatehouse in this process, on free ports, with a store and a data directory of its own.
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { startGatehouse } from '../../src/server.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { restoreClock } from './clock.ts';
import { freePorts } from './free-ports.ts';
import { startRedis } from './redis-server.ts';

export const STORES = ['sqlite', 'redis'] as const;
export type StoreKind = (typeof STORES)[number];

export type SystemOptions = {
  store?: StoreKind;
  /** A store that is there already, as GATEHOUSE_STORE says it; nothing happens to it at the end. */
  storeAddress?: string;
  /** Environment variables beside those that say where everything is. */
  settings?: Record<string, string>;
  /** Replaces top-level settings of config/development.yaml. */
  file?: Record<string, unknown>;
  /** Gets what is logged, from `info` on. */
  log?: LogLine[];
};

export type LogLine = Record<string, unknown>;

/** Where a system is and how to get at it; the same however often it is stopped and started there. */
export type SystemInfo = {
  auth: string;
  resource: string;
  management: string;
  /** The origins a browser moves among: authorization server, resource server, identity provider. */
  origins: string[];
  managementKey: string;
  dataDir: string;
  /** Where the store is, as GATEHOUSE_STORE says it. */
  storeAddress: string;
};

export type System = SystemInfo & {
  /** Stalls the database, and lets it go on: connections stay, nothing answers. Only with Redis. */
  signalStore(signal: 'SIGSTOP' | 'SIGCONT'): void;
  stop(): Promise<void>;
};

/** Addresses, data directory and store of a system that does not run yet, or not any more. */
export type Deployment = {
  facts: SystemInfo;
  environment: Record<string, string>;
  /** Removes the data directory, and the store when it came with the place. */
  release(): Promise<void>;
  signalStore: System['signalStore'];
};

const DEVELOPMENT_FILE = join(import.meta.dirname, '../../config/development.yaml');
const MANAGEMENT_KEY = 'management-key-of-the-tests-0123456789';

export async function startSystem(options: SystemOptions = {}): Promise<System> {
  const place = await createDeployment(options);
  try {
    const system = await startDeployment(place, options.settings, options.log);
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

/** In this process; `stop` leaves data and store where they are. */
export async function startDeployment(
  { facts, environment, signalStore }: Deployment,
  settings: Record<string, string> = {},
  log?: LogLine[],
): Promise<System> {
  const write = (line: string) => void log?.push(JSON.parse(line));
  const { stop } = await startGatehouse(
    loadSettings({ ...environment, ...settings }),
    log ? { logger: createLogger('info', { write }) } : {},
  );
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
  const settings = { ...parse(readFileSync(DEVELOPMENT_FILE, 'utf8')), ...file };
  await writeFile(config, JSON.stringify(settings));
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

/** One system for all claims of the `describe` around it; hand the result to whatever needs it while a claim runs. */
export function useSystem(options: SystemOptions = {}): () => System {
  let system: System | undefined;
  before(async () => {
    system = await startSystem(options);
  });
  afterEach(restoreClock);
  after(() => system?.stop());
  return () => {
    if (!system) throw new Error('the system runs only while a claim does');
    return system;
  };
}

/** The same claims on every store. */
export function onEachStore(
  title: string,
  claims: (system: () => System) => void,
  options: Omit<SystemOptions, 'store'> = {},
): void {
  for (const store of STORES)
    describe(`${title}, on ${store}`, () => claims(useSystem({ ...options, store })));
}
