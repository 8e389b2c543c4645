// A Redis, some Gatehouse processes and a load balancer that shares the public addresses among them.
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { childrenOf } from '../../support/child-processes.ts';
import { freePorts } from '../../support/free-ports.ts';
import { startRedis } from '../../support/redis-server.ts';
import { openClient, type BenchClient, type Family } from '../client.ts';
import {
  buildOnce,
  COMMAND,
  cpuTime,
  MAIN,
  PRODUCTION_ENVIRONMENT,
  type ServerProcess,
  startProcess,
  untilAnswered,
  untilPrinted,
} from '../server-process.ts';
import type { Subject } from '../subjects.ts';

/** Processes behind a load balancer, or workers of one, which need none. */
export type Shape = { count: number; kind: 'processes' | 'workers' };

export type System = {
  shape: Shape;
  subject: Pick<Subject, 'issuer' | 'origins' | 'resource'>;
  client: BenchClient;
  families: Family[];
  /** Processor time since the start, in milliseconds; that of Gatehouse is the sum over its processes. */
  spent(): Promise<Spent>;
  stop(): Promise<void>;
};

export type Spent = { gatehouse: number; redis: number; balancer: number };

const HOSTS = ['AUTH', 'RESOURCE', 'MANAGEMENT', 'DEVELOPMENT_IDP'] as const;
const SECRET = 'a root secret that all processes of a benchmark share';
const BALANCER = 'test/bench/processes/balancer.ts';
const FAMILIES = 64;

/** Resolves when people are connected. */
export async function openSystem(root: string, shape: Shape): Promise<System> {
  const redis = await startRedis();
  const raw = new Redis(redis.url);
  const servers: ServerProcess[] = [];
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
    raw.disconnect();
    await redis.stop();
  };
  try {
    const shared = await freePorts(HOSTS.length);
    const environment = environmentOf(shared, redis.url);
    const hasBalancer = shape.kind === 'processes';
    const listeners = hasBalancer ? await listenersOf(shape.count) : [shared];
    const balancer = hasBalancer ? await startBalancer(root, shared, listeners) : undefined;
    const gatehouse: ServerProcess[] = [];
    // The first process creates the connect link.
    const args = hasBalancer ? [] : ['--workers', String(shape.count)];
    for (const own of listeners) {
      gatehouse.push(await startOne(root, { environment, ports: own, args }));
      servers.push(...gatehouse.slice(-1));
    }
    if (balancer) servers.push(balancer);
    const [auth, resource, , idp] = addressesOf(shared);
    const link = await untilPrinted(gatehouse[0] as ServerProcess, /(http\S+\/connect\/\w+\/mcp)/);
    const subject = { issuer: auth, origins: [auth, resource, idp], resource: link };
    const client = await openClient(subject);
    const families: Family[] = [];
    while (families.length < FAMILIES) families.push(await client.openFamily());
    const pids = gatehouse.flatMap(({ pid }) => [pid, ...childrenOf(pid)]);
    const spent = async () => ({
      gatehouse: sum(pids.map(cpuTime)),
      redis: cpuTime(redis.pid),
      balancer: balancer ? cpuTime(balancer.pid) : 0,
    });
    return { shape, subject, client, families, spent, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function addressesOf(ports: readonly number[]): [string, string, string, string] {
  const [auth, resource, management, idp] = ports;
  return [
    `http://localhost:${auth}`,
    `http://localhost:${resource}`,
    `http://127.0.0.1:${management}`,
    `http://localhost:${idp}`,
  ];
}

function environmentOf(shared: readonly number[], store: string): Record<string, string> {
  const addresses = addressesOf(shared);
  const urls = HOSTS.map((host, i) => [`GATEHOUSE_${host}_URL`, addresses[i]]);
  return {
    ...Object.fromEntries(urls),
    GATEHOUSE_CONFIG: 'config/development.yaml',
    GATEHOUSE_STORE: store,
    GATEHOUSE_SECRET: SECRET,
    GATEHOUSE_LOG_LEVEL: 'warn',
  };
}

/** The ports of each process, in the order of `HOSTS`. */
async function listenersOf(count: number): Promise<number[][]> {
  const ports = await freePorts(count * HOSTS.length);
  return Array.from({ length: count }, (_, i) =>
    ports.slice(i * HOSTS.length, (i + 1) * HOSTS.length),
  );
}

async function startBalancer(
  root: string,
  shared: readonly number[],
  listeners: readonly number[][],
): Promise<ServerProcess> {
  const routes = shared.map((port, i) => [port, listeners.map((own) => own[i])]);
  const directory = await mkdtemp(join(root, 'balancer-'));
  return startProcess(BALANCER, { args: [JSON.stringify(routes)], directory, flags: [] });
}

type One = { environment: Record<string, string>; ports: readonly number[]; args: string[] };

async function startOne(root: string, { environment, ports, args }: One): Promise<ServerProcess> {
  const directory = await mkdtemp(join(root, 'gatehouse-'));
  const listen = HOSTS.map((host, i) => [`GATEHOUSE_${host}_LISTEN`, `127.0.0.1:${ports[i]}`]);
  buildOnce();
  const own = {
    ...PRODUCTION_ENVIRONMENT,
    GATEHOUSE_DATA_DIR: directory,
    ...Object.fromEntries(listen),
  };
  const server = startProcess(MAIN, {
    args: [...COMMAND, ...args],
    directory,
    environment: { ...environment, ...own },
  });
  await untilAnswered(server, `http://127.0.0.1:${ports[0]}/readyz`);
  return server;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, each) => total + each, 0);
}
