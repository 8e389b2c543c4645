// Listening: one server per address, shared by the hosts that have the same one, with limits on how slowly a client may send.
import { createServer, type RequestListener, type Server } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';

export type ListeningHost = {
  app: Koa;
  /** The public base address. */
  url: string;
  listen: { host: string; port: number };
  /** The setting that moves this listener, named when its port is taken. */
  setting: string;
  /** Whether a path belongs to this host, when two hosts have one origin. */
  owns: (path: string) => boolean;
  /** Another process may serve it in our place. */
  isShared?: boolean;
};

/** A listener that could not be opened; the message names the setting. */
export class ListenError extends Error {
  readonly host: ListeningHost;

  constructor(host: ListeningHost, cause: NodeJS.ErrnoException) {
    const place = `${host.listen.host}:${host.listen.port}`;
    const [reason, remedy] =
      cause.code === 'EADDRINUSE'
        ? [`port ${host.listen.port} is in use`, 'Stop the other program, or set']
        : [cause.code ?? cause.message, 'Set'];
    super(`cannot listen on ${place} for ${host.url}: ${reason}. ${remedy} ${host.setting}`, {
      cause,
    });
    this.name = 'ListenError';
    this.host = host;
  }
}

const SLOWEST_REQUEST = 15_000;
const SLOWEST_HEADERS = 10_000;
const CHECK_INTERVAL = 2000;
// Longer than load balancers keep a connection (a minute is usual): whoever closes it first must not be us, as they send the next request.
const KEEP_ALIVE = 75_000;
const STOP_GRACE = 5000;
const LAST_WORDS = 1000;
const BETWEEN_LOOKS = 50;

/** Opens the servers of all hosts, or none. */
export async function listenAll(hosts: readonly ListeningHost[]): Promise<Server[]> {
  const servers: Server[] = [];
  try {
    for (const group of Map.groupBy(
      hosts,
      ({ listen }) => `${listen.host} ${listen.port}`,
    ).values()) {
      servers.push(await listenOne(group));
    }
    return servers;
  } catch (error) {
    await closeAll(servers);
    throw error;
  }
}

async function listenOne(group: ListeningHost[]): Promise<Server> {
  const [first] = group;
  if (!first) throw new TypeError('a listener needs a host');
  const server = createServer(
    {
      keepAliveTimeout: KEEP_ALIVE,
      requestTimeout: SLOWEST_REQUEST,
      headersTimeout: SLOWEST_HEADERS,
      connectionsCheckingInterval: CHECK_INTERVAL,
    },
    dispatch(group, first),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new ListenError(first, error)));
    server.listen(first.listen.port, first.listen.host, resolve);
  });
  return server;
}

/** By `Host`, then by path; a host that none of them has is answered by the first, with 421. */
function dispatch(group: ListeningHost[], first: ListeningHost): RequestListener {
  if (group.length === 1) return first.app.callback();
  const known = group.map(({ app, owns, url }) => ({
    answer: app.callback(),
    name: new URL(url).host,
    owns,
  }));
  return (req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0] ?? '/';
    const named = known.filter(({ name }) => name === req.headers.host?.toLowerCase());
    const host = named.find(({ owns }) => owns(path)) ?? named[0] ?? known[0];
    void host?.answer(req, res);
  };
}

export type Closing = {
  /** Seconds. */
  drain?: number | undefined;
  /** Ends streams that only wait for news; with `working` also what somebody waits for the answer of. Each is answered to its end. */
  endCalls?: (kind: 'listening' | 'working') => void;
};

/**
 * Takes requests for `drain` more seconds, so that balancers can turn away, and ends every connection with its next answer. Then no new
 * connections; streams that wait for news end, so that clients open them elsewhere, and requests under way may finish, for a few seconds.
 */
export async function closeAll(
  servers: readonly Server[],
  { drain = 0, endCalls = () => undefined }: Closing = {},
): Promise<void> {
  for (const server of servers)
    server.prependListener('request', (_req, res) => res.setHeader('Connection', 'close'));
  if (drain > 0) await delay(drain * 1000);
  const closed = servers.map(
    (server) =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
      }),
  );
  // A connection whose last answer began before all this is kept by the client, and idle afterwards.
  const looking = setInterval(
    () => servers.forEach((server) => server.closeIdleConnections()),
    BETWEEN_LOOKS,
  );
  endCalls('listening');
  const late = setTimeout(() => endCalls('working'), STOP_GRACE);
  const cutOff = setTimeout(
    () => servers.forEach((server) => server.closeAllConnections()),
    STOP_GRACE + LAST_WORDS,
  );
  await Promise.all(closed);
  clearInterval(looking);
  for (const timer of [late, cutOff]) clearTimeout(timer);
}
