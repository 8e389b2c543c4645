// The subjects: Gatehouse on SQLite, Gatehouse on Redis, and the bare engine with the usual Redis adapter, each started fresh.
import { mkdtemp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { freePorts } from '../support/free-ports.ts';
import { startRedis } from '../support/redis-server.ts';
import {
  buildOnce,
  COMMAND,
  FLAGS,
  MAIN,
  PRODUCTION_ENVIRONMENT,
  type ServerProcess,
  startProcess,
  untilAnswered,
  untilPrinted,
} from './server-process.ts';

export const NAMES = {
  bare: 'engine on Redis',
  redis: 'Gatehouse on Redis',
  sqlite: 'Gatehouse on SQLite',
} as const;

export type Kind = keyof typeof NAMES;
export type StoreKind = Exclude<Kind, 'bare'>;
export const STORES: readonly StoreKind[] = ['redis', 'sqlite'];
export const KINDS: readonly Kind[] = ['bare', ...STORES];

export type Subject = {
  kind: Kind;
  server: ServerProcess;
  issuer: string;
  /** The origins of its pages. */
  origins: string[];
  /** The resource of tokens: a connect link of Gatehouse, any URL for the bare engine. */
  resource: string;
  stop(): Promise<void>;
};

/** Seconds from spawn to the first 200 of /livez, and of both metadata documents. */
export type Start = { alive: number; serving: number };

/** `root` is a folder for all files of the run. `quick` measures as little as possible. */
export type Place = { root: string; logLevel: string; quick?: boolean };

export const METADATA_PATH = '/.well-known/oauth-authorization-server';
const PORTS_TRIED = 5;

export function startSubject(kind: Kind, place: Place): Promise<Subject> {
  return kind === 'bare' ? startEngineOnRedis(place) : startGatehouse(kind, place);
}

export async function startEngineOnRedis(place: Place): Promise<Subject> {
  const redis = await startRedis();
  try {
    const engine = await startBareEngine(place, { redisUrl: redis.url });
    const stop = async () => {
      await engine.stop();
      await redis.stop();
    };
    return { ...engine, stop };
  } catch (error) {
    await redis.stop();
    throw error;
  }
}

/** With its in-memory adapter by default. */
export async function startBareEngine(
  { root }: Place,
  { redisUrl, script = 'test/bench/bare-engine.ts' }: { redisUrl?: string; script?: string } = {},
): Promise<Subject> {
  return onFreePorts(async () => {
    const [port] = await freePorts(1);
    const directory = await mkdtemp(join(root, 'bare-'));
    const args = [String(port), ...(redisUrl === undefined ? [] : [redisUrl])];
    const server = startProcess(script, { args, directory });
    const issuer = `http://localhost:${port}`;
    await untilAnswered(server, issuer + METADATA_PATH);
    const origins = [issuer];
    return { kind: 'bare', server, issuer, origins, resource: `${issuer}/mcp`, stop: server.stop };
  });
}

/** A script relative to the repository that starts Gatehouse, its settings file, and the flags of Node. */
export type Program = {
  script?: string;
  args?: string[];
  config?: string;
  flags?: readonly string[];
};

export type StartedGatehouse = Subject & {
  start: Start;
  /** The management API. */
  management: string;
  managementKey: string;
  /** As in the settings, absolute. */
  storeAddress: string;
  directory: string;
};

export function startGatehouse(
  kind: StoreKind,
  place: Place,
  program?: Program,
): Promise<StartedGatehouse> {
  return onFreePorts(async () => {
    const redis = kind === 'redis' ? await startRedis() : undefined;
    try {
      const gatehouse = await startOn(kind, redis?.url, place, program);
      const stop = async () => {
        await gatehouse.stop();
        await redis?.stop();
      };
      return { ...gatehouse, stop };
    } catch (error) {
      await redis?.stop();
      throw error;
    }
  });
}

/** Uses an existing Redis. */
export function startGatehouseOn(
  redisUrl: string,
  place: Place,
  program?: Program,
): Promise<StartedGatehouse> {
  return onFreePorts(() => startOn('redis', redisUrl, place, program));
}

async function startOn(
  kind: StoreKind,
  redisUrl: string | undefined,
  { root, logLevel }: Place,
  {
    script = MAIN,
    args = script === MAIN ? COMMAND : [],
    config = 'config/development.yaml',
    flags = FLAGS,
  }: Program = {},
): Promise<StartedGatehouse> {
  const directory = await mkdtemp(join(root, `${kind}-`));
  const [auth, resource, management, idp] = await freePorts(4);
  const issuer = `http://localhost:${auth}`;
  const resourceUrl = `http://localhost:${resource}`;
  const managementUrl = `http://127.0.0.1:${management}`;
  const idpUrl = `http://localhost:${idp}`;
  const isProduction = script === MAIN;
  if (isProduction) buildOnce();
  const spawned = performance.now();
  const server = startProcess(script, {
    args,
    flags,
    directory,
    environment: {
      ...(isProduction ? PRODUCTION_ENVIRONMENT : {}),
      GATEHOUSE_CONFIG: config,
      GATEHOUSE_AUTH_URL: issuer,
      GATEHOUSE_RESOURCE_URL: resourceUrl,
      GATEHOUSE_MANAGEMENT_URL: managementUrl,
      GATEHOUSE_DEVELOPMENT_IDP_URL: idpUrl,
      GATEHOUSE_STORE: redisUrl ?? 'sqlite:gatehouse.sqlite',
      GATEHOUSE_DATA_DIR: directory,
      GATEHOUSE_LOG_LEVEL: logLevel,
    },
  });
  const sinceSpawn = () => (performance.now() - spawned) / 1000;
  await untilAnswered(server, `${issuer}/livez`);
  const alive = sinceSpawn();
  await untilAnswered(server, issuer + METADATA_PATH);
  await untilAnswered(server, `${resourceUrl}/.well-known/oauth-protected-resource`);
  const start = { alive, serving: sinceSpawn() };
  const link = await untilPrinted(server, /(http\S+\/connect\/\w+\/mcp)/);
  const origins = [issuer, resourceUrl, idpUrl];
  const address = { issuer, origins, resource: link, management: managementUrl };
  const managementKey = (await readFile(join(directory, 'management.key'), 'utf8')).trim();
  const storeAddress = redisUrl ?? `sqlite:${join(directory, 'gatehouse.sqlite')}`;
  const facts = { managementKey, storeAddress, directory };
  return { kind, server, ...address, ...facts, start, stop: server.stop };
}

/** Retries, because another program may take a free port before the subject does. */
async function onFreePorts<Result>(start: () => Promise<Result>): Promise<Result> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start();
    } catch (error) {
      if (attempt === PORTS_TRIED || !/in use|EADDRINUSE/.test(String(error))) throw error;
    }
  }
}
