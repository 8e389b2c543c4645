import { authorityCheck } from './canonical-host.ts';
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { Server as NetServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';
import { beginInTurn } from './large-bodies.ts';

export type ListeningHost = {
  app: Koa;
  /** The public base URL. */
  url: string;
  listen: { host: string; port: number };
  /** The setting that changes its port, for the error message. */
  setting: string;
  /** Whether it serves a path, if two hosts have one origin. */
  owns: (path: string) => boolean;
  /** Another process may serve it instead. */
  isShared?: boolean;
  /** Called with each response that begins. */
  onRequest?: (response: ServerResponse) => void;
};

/** A listener cannot be opened. The message names the setting. */
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

/** All in milliseconds. */
export type HttpTimeouts = {
  /** From the first byte of a request to its last. */
  request: number;
  /** From the first byte of a request to the end of its header. */
  headers: number;
  /** Between two checks of these. */
  check: number;
  /** That a stopping process gives to requests in progress. */
  stop: number;
  /** Without a request on a connection. */
  idle: number;
};

export const HTTP_TIMEOUTS: Readonly<HttpTimeouts> = {
  request: 15_000,
  headers: 10_000,
  check: 2000,
  stop: 5000,
  // Longer than load balancers keep idle connections (usually 60 s): otherwise we could close one as the next request arrives.
  idle: 75_000,
};
/** Node answers larger ones itself, without a page or a log line. Hosts refuse a quarter of it. */
const MAX_HEADER_BYTES = 65_536;
/** From ending the last requests to closing their connections. */
const LAST_RESPONSES_MS = 1000;
const IDLE_CHECK_MS = 50;
const STREAMS_CHECK_MS = 1000;
/** Longer than any upstream may take. */
const LEAVE_MS = 3_700_000;
/** The first request of a new connection may still be on its way. */
const FIRST_REQUEST_MS = 1000;

/** Opens one server per listen address. If one cannot be opened, closes the others and throws ListenError. */
export async function listenAll(
  hosts: readonly ListeningHost[],
  timeouts: HttpTimeouts = HTTP_TIMEOUTS,
): Promise<Server[]> {
  const servers: Server[] = [];
  try {
    for (const group of byPlace(hosts)) servers.push(await listenOne(group, timeouts));
    return servers;
  } catch (error) {
    await closeAll(servers);
    throw error;
  }
}

/** From now on, the servers of `listenAll` pass requests to these hosts, which have the same listen addresses. */
export function replaceHosts(servers: readonly Server[], hosts: readonly ListeningHost[]): void {
  for (const [place, group] of byPlace(hosts))
    for (const server of servers) {
      const served = handlers.get(server);
      if (served?.place === place) served.handle = dispatch(group);
    }
}

type Served = { place: string; handle: RequestListener };

/** What each server passes requests to. */
const handlers = new WeakMap<Server, Served>();

function byPlace(hosts: readonly ListeningHost[]): Map<string, ListeningHost[]> {
  return Map.groupBy(hosts, ({ listen }) => `${listen.host} ${listen.port}`);
}

async function listenOne(
  [place, group]: [string, ListeningHost[]],
  timeouts: HttpTimeouts,
): Promise<Server> {
  const [first] = group;
  if (!first) throw new TypeError('a listener needs a host');
  const served: Served = { place, handle: dispatch(group) };
  const server = createServer(
    {
      keepAliveTimeout: timeouts.idle,
      requestTimeout: timeouts.request,
      headersTimeout: timeouts.headers,
      connectionsCheckingInterval: timeouts.check,
      maxHeaderSize: MAX_HEADER_BYTES,
    },
    (req, res) => beginInTurn(req, res, () => served.handle(req, res)),
  );
  handlers.set(server, served);
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new ListenError(first, error)));
    server.listen(first.listen.port, first.listen.host, resolve);
  });
  openConnections.set(server, trackConnections(server));
  return server;
}

/** When each open connection was opened. */
const openConnections = new WeakMap<Server, Map<Socket, number>>();

function trackConnections(server: Server): Map<Socket, number> {
  const open = new Map<Socket, number>();
  server.on('connection', (socket) => {
    open.set(socket, performance.now());
    socket.once('close', () => open.delete(socket));
  });
  return open;
}

/** `closeIdleConnections` keeps connections without any request, and browsers open some that they may never use. */
function closeIdle(server: Server): void {
  server.closeIdleConnections();
  for (const [socket, openedAt] of openConnections.get(server) ?? [])
    if (socket.bytesRead === 0 && performance.now() - openedAt > FIRST_REQUEST_MS) socket.destroy();
}

/** Chooses the app by `Host`, then by path. The first app responds with 421 to an unknown host. */
function dispatch(group: ListeningHost[]): RequestListener {
  const handlerOf = ({ app, onRequest }: ListeningHost) => observed(app.callback(), onRequest);
  const [only, ...others] = group;
  // Its address may be none, and its app checks `Host` itself.
  if (only && others.length === 0) return handlerOf(only);
  const known = group.map((host) => ({
    handle: handlerOf(host),
    isNamed: authorityCheck(host.url),
    owns: host.owns,
  }));
  return (req, res) => {
    const path = (req.url ?? '/').split('?', 1)[0] ?? '/';
    const named = known.filter(({ isNamed }) => isNamed(req.headers.host));
    const host = named.find(({ owns }) => owns(path)) ?? named[0] ?? known[0];
    void host?.handle(req, res);
  };
}

function observed(handle: RequestListener, onRequest: ListeningHost['onRequest']): RequestListener {
  if (!onRequest) return handle;
  return (req, res) => {
    onRequest(res);
    handle(req, res);
  };
}

export type CloseOptions = {
  /** Seconds. */
  drain?: number | undefined;
  /** Ends streams on which the client only listens, or with `working` also requests in progress. Each gets a complete response. */
  endCalls?: (kind: 'listening' | 'working') => void;
  timeouts?: Pick<HttpTimeouts, 'stop'>;
};

/**
 * Accepts requests for `drain` more seconds, until load balancers have removed this process, and closes each connection after its next
 * response. Then refuses connections, ends streams on which clients only listen, and gives requests in progress a few seconds.
 */
export async function closeAll(
  servers: readonly Server[],
  { drain = 0, endCalls = () => undefined, timeouts = HTTP_TIMEOUTS }: CloseOptions = {},
): Promise<void> {
  for (const server of servers) closeAfterResponse(server);
  if (drain > 0) await delay(drain * 1000);
  const closed = servers.map(
    (server) =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
      }),
  );
  // A response that began earlier has no `Connection: close`, so its connection stays open.
  const closingIdle = setInterval(() => servers.forEach(closeIdle), IDLE_CHECK_MS);
  endCalls('listening');
  const endingCalls = setTimeout(() => endCalls('working'), timeouts.stop);
  const closingAll = setTimeout(
    () => servers.forEach((server) => server.closeAllConnections()),
    timeouts.stop + LAST_RESPONSES_MS,
  );
  await Promise.all(closed);
  clearInterval(closingIdle);
  for (const timer of [endingCalls, closingAll]) clearTimeout(timer);
}

/** That of an HTTP server also closes idle connections. */
const { close: stopListening } = new NetServer();

/**
 * Refuses connections, which another process accepts at the same addresses, and answers the requests of those that are open, each for the last time:
 * nothing closes an idle one before a proxy would. Ends streams on which clients only listen. Resolves when no connection is left.
 */
export async function leaveAll(
  servers: readonly Server[],
  { endCalls = () => undefined }: Pick<CloseOptions, 'endCalls'>,
): Promise<void> {
  for (const server of servers) closeAfterResponse(server);
  const closed = servers.map(
    (server) =>
      new Promise<void>((resolve) => {
        stopListening.call(server, () => resolve());
      }),
  );
  const endingStreams = setInterval(() => endCalls('listening'), STREAMS_CHECK_MS);
  const closingAll = setTimeout(
    () => servers.forEach((server) => server.closeAllConnections()),
    LEAVE_MS,
  );
  await Promise.all(closed);
  clearInterval(endingStreams);
  clearTimeout(closingAll);
}

function closeAfterResponse(server: Server): void {
  server.prependListener('request', (_req, res) => res.setHeader('Connection', 'close'));
}
