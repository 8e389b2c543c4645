// Connections to Redis: one server, Sentinel or Cluster, made so that a lost or stalled server is an error within 1.5 s and heals alone.
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { StoreAddress } from '../settings/store-address.ts';
import type { Logger } from './logger.ts';

export type RedisClient = Redis | Cluster;
export type RedisAddress = Exclude<StoreAddress, { kind: 'sqlite' }>;

const OPENING_SECONDS = 5;
// A Cluster looks for the right node this often, this far apart, before it gives up.
const CLUSTER_RETRY_MS = 100;
const CLUSTER_TRIES = 6;

// At once, then more slowly. Those who wait for a connection are told after the second attempt that there is none.
const backoff = (attempt: number) => Math.min(50 * (attempt - 1), 200);

const CONNECTION = {
  connectTimeout: 1000,
  commandTimeout: 800,
  sentinelCommandTimeout: 800,
  disconnectTimeout: 500,
  // A connection that a firewall forgot is silent, not closed: without this it stays for a quarter of an hour.
  socketTimeout: 3000,
  maxRetriesPerRequest: 1,
  // After a failover the server we are connected to may be a replica.
  reconnectOnError: (error: Error) => error.message.includes('READONLY'),
} satisfies RedisOptions;

const ALONE = {
  ...CONNECTION,
  // A single lost connection is back in a moment, and who came meanwhile need not be told to try again.
  enableOfflineQueue: true,
  retryStrategy: backoff,
  sentinelRetryStrategy: backoff,
} satisfies RedisOptions;

/** Connects and waits until Redis is ready; throws the last reason when it is not within 5 s. */
export async function connectRedis(
  address: RedisAddress,
  logger: Logger | undefined,
): Promise<RedisClient> {
  const client = createClient(address);
  connectAgainWhenEnded(client);
  warnWhenLost(client, logger);
  await whenReady(client);
  return client;
}

/** A second connection for subscriptions; a Cluster client keeps one of its own. */
export async function connectSubscriber(client: RedisClient): Promise<RedisClient> {
  if (client instanceof Cluster) return client;
  // ioredis would subscribe again after every reconnection, but end the process when that is refused or late.
  const subscriber = client.duplicate({ autoResubscribe: false });
  connectAgainWhenEnded(subscriber);
  await whenReady(subscriber);
  return subscriber;
}

/** For good, however the server is. */
export async function closeRedis(client: RedisClient): Promise<void> {
  closed.add(client);
  await client.quit().catch(() => undefined);
  client.disconnect();
}

const closed = new WeakSet<RedisClient>();

/** ioredis gives up for ever when Sentinel names another master while it is connecting to the one before. */
function connectAgainWhenEnded(client: RedisClient): void {
  client.on('end', () => {
    if (!closed.has(client)) client.connect().catch(() => undefined);
  });
}

function createClient(address: RedisAddress): RedisClient {
  if (address.kind === 'redis') return new Redis(address.url, ALONE);
  const { username, password } = address;
  const access = { username, password, ...(address.tls ? { tls: {} } : {}) };
  if (address.kind === 'sentinel') {
    const { nodes: sentinels, name, tls } = address;
    const encrypted = tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {};
    // A master that handed over takes writes for seconds more, and loses them: leave it when Sentinel says so.
    const prompt = { failoverDetector: true };
    return new Redis({ ...ALONE, ...access, ...encrypted, ...prompt, sentinels, name });
  }
  return new Cluster(address.nodes, {
    redisOptions: { ...CONNECTION, ...access },
    enableOfflineQueue: false,
    clusterRetryStrategy: backoff,
    maxRedirections: CLUSTER_TRIES,
    retryDelayOnFailover: CLUSTER_RETRY_MS,
    retryDelayOnClusterDown: CLUSTER_RETRY_MS,
    retryDelayOnTryAgain: CLUSTER_RETRY_MS,
    // A certificate names hosts, not the addresses they resolve to.
    ...(address.tls ? { dnsLookup: (host, found) => found(null, host) } : {}),
  });
}

function whenReady(client: RedisClient): Promise<void> {
  return new Promise((resolve, reject) => {
    let reason: Error = new Error('no answer');
    const remember = (error: Error) => {
      reason = error;
    };
    // The listener stays: ioredis prints errors that nobody listens to.
    client.on('error', remember);
    const timer = setTimeout(() => {
      void closeRedis(client);
      reject(new Error(`${explain(reason)} (tried for ${OPENING_SECONDS} s)`, { cause: reason }));
    }, OPENING_SECONDS * 1000);
    client.once('ready', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function explain(reason: Error): string {
  const inner = 'lastNodeError' in reason ? reason.lastNodeError : undefined;
  return inner instanceof Error ? inner.message : reason.message;
}

/** Once for every outage, not for every attempt to reconnect. */
function warnWhenLost(client: RedisClient, logger: Logger | undefined): void {
  let reason: Error | undefined;
  let lost = true;
  client.on('error', (error: Error) => {
    reason = error;
  });
  client.on('ready', () => {
    lost = false;
  });
  client.on('reconnecting', () => {
    if (!lost) logger?.warn({ err: reason }, 'the connection to the store is lost, reconnecting');
    lost = true;
  });
}
