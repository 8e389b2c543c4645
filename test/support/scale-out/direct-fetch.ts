// A fetch that balances connections over processes, as a Kubernetes Service does, and records responses that need checking.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Agent, type buildConnector, type Dispatcher, request } from 'undici';
import type { Exchange } from '../faults/history.ts';

/** Ports of ready processes by the port of the public address. */
export type ReadyPorts = Record<string, readonly number[]>;

export type DirectFetch = {
  fetch: typeof fetch;
  /** Responses that a check of the history could object to, and every redeemed code; other fast successes are not kept. */
  exchanges: readonly Exchange[];
  /** The number of 503 responses with `Retry-After`, after which the request was repeated. */
  retries(): number;
};

/** Connections are replaced regularly, so that a new process gets its share. */
const MAX_REQUESTS_PER_CONNECTION = 100;
/** Shorter than the drain time of processes, because a client may find an idle connection closed. */
const IDLE_TIMEOUT_MS = 500;

/**
 * Only a refused connection is tried elsewhere. Responses slower than `slow` milliseconds are recorded. The responses have only the members
 * of `Response` that the test clients use.
 */
export function openDirectFetch(readyPorts: () => ReadyPorts, slow: number): DirectFetch {
  const exchanges: Exchange[] = [];
  let putOff = 0;
  const dispatcher = new Agent({
    connect: connectInTurn(readyPorts),
    maxRequestsPerClient: MAX_REQUESTS_PER_CONNECTION,
    keepAliveTimeout: IDLE_TIMEOUT_MS,
    keepAliveMaxTimeout: IDLE_TIMEOUT_MS,
  });
  const ask = async (url: URL, init: RequestInit): Promise<Response> => {
    const { sent, options } = readRequest(url, init);
    try {
      const data = await request(url, { dispatcher, ...options });
      const headers = readHeaders(data);
      const { statusCode: status, body } = data;
      if (isStream(options.headers, headers))
        return { status, headers, body } as unknown as Response;
      const text = await body.text();
      const exchange = { ...sent, ended: performance.now(), answer: { status, headers, text } };
      if (mustBeChecked(exchange, slow)) exchanges.push(exchange);
      const json = async () => JSON.parse(text);
      return { status, headers, url: url.href, text: async () => text, json } as Response;
    } catch (error) {
      exchanges.push({ ...sent, ended: performance.now(), answer: undefined });
      throw error;
    }
  };
  return {
    exchanges,
    retries: () => putOff,
    async fetch(input, init = {}) {
      for (;;) {
        const response = await ask(new URL(String(input)), init);
        const seconds = Number(response.headers.get('retry-after'));
        if (response.status !== 503 || !(seconds > 0)) return response;
        putOff += 1;
        await delay(seconds * 1000);
      }
    },
  };
}

function connectInTurn(readyPorts: () => ReadyPorts): buildConnector.connector {
  const turns = new Map<string, number>();
  return ({ port }, callback) => {
    const turn = turns.get(port) ?? 0;
    turns.set(port, turn + 1);
    const targets = readyPorts()[port] ?? [];
    const first = turn % Math.max(targets.length, 1);
    open([...targets.slice(first), ...targets.slice(0, first)]).then(
      (socket) => callback(null, socket),
      (error) => callback(error, null),
    );
  };
}

async function open([port, ...others]: readonly number[]): Promise<Socket> {
  if (port === undefined) throw new Error('no process takes the connection');
  try {
    const socket = connect({ host: '127.0.0.1', port, noDelay: true });
    await once(socket, 'connect');
    return socket;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ECONNREFUSED') throw error;
    return open(others);
  }
}

function readRequest(url: URL, { method = 'GET', headers, body, signal }: RequestInit) {
  const form = body instanceof URLSearchParams ? body : new URLSearchParams();
  const type = { 'content-type': 'application/x-www-form-urlencoded;charset=UTF-8' };
  const given = headers as Record<string, string> | undefined;
  const options = {
    method: method as Dispatcher.HttpMethod,
    headers: { ...(body instanceof URLSearchParams ? type : {}), ...given },
    body: body ? String(body) : null,
    signal: signal ?? null,
  };
  const bearer = /^Bearer (.+)$/.exec(given?.authorization ?? '')?.[1];
  const sent = { began: performance.now(), at: Date.now() / 1000, method, url, form, bearer };
  return { sent, options };
}

/** The response does not end, so it cannot be awaited. */
function isStream(sent: Record<string, string>, answered: Headers): boolean {
  const isStream = answered.get('content-type')?.startsWith('text/event-stream');
  return sent['mcp-method'] === 'subscriptions/listen' && isStream === true;
}

/** Reads like `Headers`, without the cost of creating one for each response. */
function readHeaders({ headers }: Dispatcher.ResponseData): Headers {
  const all = (name: string) => [headers[name] ?? []].flat();
  const has = (name: string) => all(name).length > 0;
  const get = (name: string) => (has(name) ? all(name).join(', ') : null);
  return { get, has, getSetCookie: () => all('set-cookie') } as unknown as Headers;
}

/** Every flow starts with a challenge, so a 401 without a token needs no check. */
function mustBeChecked({ began, ended, form, bearer, answer }: Exchange, slow: number): boolean {
  if (!answer || ended - began > slow || form.has('code')) return true;
  return answer.status >= 400 && (answer.status !== 401 || bearer !== undefined);
}
