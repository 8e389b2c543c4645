// Connections to single Redis, Sentinel or Cluster. A lost or stalled server causes an error within 1.5 s, and the client reconnects by itself.
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { rootMessage } from '../error-causes.ts';
import type { HostPort, StoreAddress } from '../settings/addresses.ts';
import { tlsFault } from '../tls-errors.ts';
import { isRefusal, redisFault, refusedDatabase } from './redis-errors.ts';
import type { StoreLogger } from './store.ts';
import { whenOverdue } from '../overdue.ts';
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
  const client = createClient(await withSentinelPassword(address, timeouts), timeouts);
  forEachConnection(client, joinWrites);
  forEachConnection(client, readBeforeTimeout);
  reconnectWhenEnded(client);
  disconnectFromOtherDatabase(client);
  warnWhenLost(client, logger);
  try {
    await whenReady(client, timeouts.open);
  } catch (error) {
    const refusal = address.kind === 'cluster' && (await clusterRefusal(address, timeouts));
    throw refusal || error;
  }
  return client;
}

/** The client of a Cluster tries again for ever, without an error, while its first command is refused. */
async function clusterRefusal(
  { nodes, tls, username, password }: Extract<RedisAddress, { kind: 'cluster' }>,
  timeouts: StoreTimeouts,
): Promise<Error | undefined> {
  const [node = { host: '', port: 0 }] = nodes;
  const access = { tls, username, password };
  const error = await askOnce(node, access, timeouts, (redis) => redis.cluster('INFO'));
  return isRefusal(error) ? new Error(explain(error), { cause: error }) : undefined;
}

type Access = { tls: boolean; username?: string | undefined; password?: string | undefined };

/** Asks one server on a connection of its own. Resolves to the error, or undefined. */
async function askOnce(
  { host, port }: HostPort,
  { tls, ...access }: Access,
  { command }: StoreTimeouts,
  ask: (redis: Redis) => Promise<unknown>,
): Promise<unknown> {
  const redis = new Redis({
    host,
    port,
    ...access,
    ...(tls ? { tls: {} } : {}),
    connectTimeout: command,
    commandTimeout: command,
    enableReadyCheck: false,
    retryStrategy: null,
  });
  redis.on('error', () => undefined);
  try {
    await ask(redis);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    redis.disconnect();
  }
}

/**
 * Sends the commands of one turn of the event loop in one system call per connection. A system call takes as long as everything else that
 * a command needs. `enableAutoPipelining` would also delay commands until the pipeline before them is answered.
 */
function joinWrites(connection: Redis): void {
  connection.on('connect', () => corkUntilEndOfTurn(connection.stream));
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

/** Replaces the timer of ioredis, which rejects a command before a reply is read that arrived while the process was busy. */
function readBeforeTimeout(connection: Redis): void {
  const send = connection.sendCommand.bind(connection);
  connection.sendCommand = (command, stream) => {
    command.setTimeout = (milliseconds) => {
      const fail = () => {
        if (!command.isSettled) command.reject(new Error('Command timed out'));
      };
      // ioredis clears it by this name.
      command['_commandTimeoutTimer'] ??= whenOverdue(fail, milliseconds);
    };
    return send(command, stream);
  };
}

function forEachConnection(client: RedisClient, act: (connection: Redis) => void): void {
  if (client instanceof Cluster) client.on('+node', act);
  else act(client);
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
  disconnectFromOtherDatabase(subscriber);
  await whenReady(subscriber, timeouts.open);
  return subscriber;
}

/** When SELECT is refused, ioredis goes on in database 0, which belongs to others. */
function disconnectFromOtherDatabase(client: RedisClient): void {
  if (client instanceof Cluster) return;
  client.on('error', (error: Error) => {
    if (refusedDatabase(error) !== undefined) client.stream.destroy();
  });
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
    const { nodes: sentinels, name, tls, sentinelUsername, sentinelPassword } = address;
    const encrypted = tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {};
    return new Redis({
      ...single,
      ...access,
      ...encrypted,
      sentinelUsername,
      sentinelPassword,
      // After a failover, the old master accepts writes for seconds and loses them, so follow Sentinel's notification.
      failoverDetector: true,
      sentinels,
      name,
    });
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

/**
 * Adds the password of Redis for Sentinels that require one when the address has none for them: charts set the same for both. Sent to no
 * Sentinel that answers without it, because it would refuse the user.
 */
async function withSentinelPassword(
  address: RedisAddress,
  timeouts: StoreTimeouts,
): Promise<RedisAddress> {
  if (address.kind !== 'sentinel' || address.sentinelPassword || !address.password) return address;
  const { nodes, tls, username, password } = address;
  const errors = await Promise.all(
    nodes.map((node) => askOnce(node, { tls }, timeouts, (sentinel) => sentinel.ping())),
  );
  if (!errors.some((error) => error instanceof Error && error.message.includes('NOAUTH')))
    return address;
  return {
    ...address,
    ...(username === undefined ? {} : { sentinelUsername: username }),
    sentinelPassword: password,
  };
}

/** ioredis listens for the first error of a connection only. A TLS server may send an alert after it, which would end the process. */
function ignoreLaterErrors(client: RedisClient): void {
  if (client instanceof Cluster || !client.stream) return;
  if (client.stream.listenerCount('error') === 0) client.stream.on('error', () => undefined);
}

const NO_RESPONSE = 'no response';
const CLOSED =
  'it closes connections without an answer: if it requires TLS, use rediss:// in place of redis://';

function whenReady(client: RedisClient, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let reason: Error = new Error(NO_RESPONSE);
    let isSettled = false;
    const remember = (error: Error) => {
      reason = error;
      ignoreLaterErrors(client);
      if (refusedDatabase(error) !== undefined && !isSettled) fail(explain(error));
    };
    const fail = (message: string) => {
      isSettled = true;
      clearTimeout(timer);
      void closeRedis(client);
      reject(new Error(message, { cause: reason }));
    };
    const rememberClose = () => {
      if (client instanceof Cluster || client.options.tls) return;
      const isReset = /ECONNRESET|EPIPE/.test(reason.message);
      if (isReset || reason.message === NO_RESPONSE) reason = new Error(CLOSED, { cause: reason });
    };
    client.on('close', rememberClose);
    // Never removed, because ioredis prints errors that have no listener.
    client.on('error', remember);
    const timer = whenOverdue(() => {
      if (!isSettled) fail(`${explain(reason)} (tried for ${timeoutMs / 1000} s)`);
    }, timeoutMs);
    client.once('ready', () => {
      isSettled = true;
      clearTimeout(timer);
      client.off('close', rememberClose);
      resolve();
    });
  });
}

function explain(reason: Error): string {
  const fault = tlsFault(reason) ?? redisFault(reason);
  if (fault) return `it ${fault.what}: ${fault.remedy}`;
  // A cluster wraps the errors of its nodes, and an AggregateError those of its addresses.
  const isWrapper = 'lastNodeError' in reason || reason.message === '';
  return isWrapper ? rootMessage(reason) : reason.message;
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
