// Connections to single Redis, Sentinel or Cluster. A lost or stalled server causes an error within 1.5 s, and the client reconnects by itself.
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { StoreAddress } from '../settings/addresses.ts';
import { tlsFault } from '../tls-errors.ts';
import type { StoreLogger } from './store.ts';
import { STORE_TIMEOUTS, type StoreTimeouts } from './timeout.ts';

export type RedisClient = Redis | Cluster;
export type RedisAddress = Exclude<StoreAddress, { kind: 'sqlite' }>;

const CLUSTER_RETRY_DELAY_MS = 100;
const MAX_CLUSTER_REDIRECTIONS = 6;

// The first attempt is immediate. Waiting commands fail after the second (maxRetriesPerRequest).
const backoff = (attempt: number) => Math.min(50 * (attempt - 1), 200);

const connection = ({ command, silence }: StoreTimeouts) =>
  ({
    connectTimeout: 1000,
    commandTimeout: command,
    sentinelCommandTimeout: command,
    disconnectTimeout: 500,
    socketTimeout: silence,
    maxRetriesPerRequest: 1,
    // After a failover, the connected server may have become a replica.
    reconnectOnError: (error: Error) => error.message.includes('READONLY'),
  }) satisfies RedisOptions;

const singleConnection = (timeouts: StoreTimeouts) =>
  ({
    ...connection(timeouts),
    // Commands wait for a lost connection to be restored instead of failing at once.
    enableOfflineQueue: true,
    retryStrategy: backoff,
    sentinelRetryStrategy: backoff,
  }) satisfies RedisOptions;

/** Resolves when Redis is ready. Rejects with the last connection error after `timeouts.open`. */
export async function connectRedis(
  address: RedisAddress,
  logger: StoreLogger | undefined,
  timeouts = STORE_TIMEOUTS,
): Promise<RedisClient> {
  const client = createClient(address, timeouts);
  joinWrites(client);
  reconnectWhenEnded(client);
  warnWhenLost(client, logger);
  await whenReady(client, timeouts.open);
  return client;
}

/**
 * Sends the commands of one turn of the event loop in one system call per connection. A system call takes as long as everything else that
 * a command needs. `enableAutoPipelining` would also delay commands until the pipeline before them is answered.
 */
function joinWrites(client: RedisClient): void {
  const join = (connection: Redis) =>
    connection.on('connect', () => corkUntilEndOfTurn(connection.stream));
  if (client instanceof Cluster) client.on('+node', join);
  else join(client);
}

function corkUntilEndOfTurn(socket: Redis['stream']): void {
  const write = socket.write.bind(socket) as (...given: unknown[]) => boolean;
  let isCorked = false;
  const flush = () => {
    isCorked = false;
    socket.uncork();
  };
  socket.write = (...given: unknown[]) => {
    if (!isCorked) {
      isCorked = true;
      socket.cork();
      setImmediate(flush);
    }
    return write(...given);
  };
}

/** Opens a second connection for subscriptions. A Cluster client has its own. */
export async function connectSubscriber(
  client: RedisClient,
  timeouts = STORE_TIMEOUTS,
): Promise<RedisClient> {
  if (client instanceof Cluster) return client;
  // With autoResubscribe, ioredis ends the process when the subscription is refused or times out.
  const subscriber = client.duplicate({ autoResubscribe: false });
  reconnectWhenEnded(subscriber);
  await whenReady(subscriber, timeouts.open);
  return subscriber;
}

/** Closes the connection without reconnecting, also if the server does not answer. */
export async function closeRedis(client: RedisClient): Promise<void> {
  closed.add(client);
  await client.quit().catch(() => undefined);
  client.disconnect();
}

const closed = new WeakSet<RedisClient>();

/** ioredis stops reconnecting when Sentinel reports another master while it connects to the previous one. */
function reconnectWhenEnded(client: RedisClient): void {
  client.on('end', () => {
    if (!closed.has(client)) client.connect().catch(() => undefined);
  });
}

function createClient(address: RedisAddress, timeouts: StoreTimeouts): RedisClient {
  const single = singleConnection(timeouts);
  if (address.kind === 'redis') return new Redis(address.url, single);
  const { username, password } = address;
  const access = { username, password, ...(address.tls ? { tls: {} } : {}) };
  if (address.kind === 'sentinel') {
    const { nodes: sentinels, name, tls } = address;
    const encrypted = tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {};
    // After a failover, the old master accepts writes for seconds and loses them, so follow Sentinel's notification.
    const detector = { failoverDetector: true };
    return new Redis({ ...single, ...access, ...encrypted, ...detector, sentinels, name });
  }
  return new Cluster(address.nodes, {
    redisOptions: { ...connection(timeouts), ...access },
    enableOfflineQueue: false,
    clusterRetryStrategy: backoff,
    maxRedirections: MAX_CLUSTER_REDIRECTIONS,
    retryDelayOnFailover: CLUSTER_RETRY_DELAY_MS,
    retryDelayOnClusterDown: CLUSTER_RETRY_DELAY_MS,
    retryDelayOnTryAgain: CLUSTER_RETRY_DELAY_MS,
    // Keeps host names, because certificates contain them and not the resolved addresses.
    ...(address.tls ? { dnsLookup: (host, found) => found(null, host) } : {}),
  });
}

function whenReady(client: RedisClient, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let reason: Error = new Error('no response');
    const remember = (error: Error) => {
      reason = error;
    };
    // Never removed, because ioredis prints errors that have no listener.
    client.on('error', remember);
    const timer = setTimeout(() => {
      void closeRedis(client);
      const tried = `tried for ${timeoutMs / 1000} s`;
      reject(new Error(`${explain(reason)} (${tried})`, { cause: reason }));
    }, timeoutMs);
    client.once('ready', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function explain(reason: Error): string {
  const fault = tlsFault(reason);
  if (fault) return `it ${fault.what}: ${fault.remedy}`;
  const inner = 'lastNodeError' in reason ? reason.lastNodeError : undefined;
  return inner instanceof Error ? inner.message : reason.message;
}

/** Warns once per outage, not per reconnection attempt. */
function warnWhenLost(client: RedisClient, logger: StoreLogger | undefined): void {
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
