// The HTTP of the client that lists the tools: headers, time limits, sessions that were left, and responses as the proxy reads them.
import { setTimeout as delay } from 'node:timers/promises';
import { fetch as fetchOfUndici, getGlobalDispatcher } from 'undici';
import type { SigningKey } from '../../keys/signing-keys.ts';
import { highestLevel, type Levels } from '../../permission-levels.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import type { Caller } from '../authenticate.ts';
import { membersOf } from '../../json-values.ts';
import { idOf, type MessageId } from '../json-rpc.ts';
import { callerHeaders } from './caller-header.ts';
import { DiscoveryError, faultOf, unreachable } from './discovery-faults.ts';
import {
  encodeEvent,
  EventReader,
  matchResponses,
  mediaType,
  readMessages,
  type ReadMessages,
  requireIdentity,
  UNREPORTED,
  writeMessages,
} from './messages.ts';

export type DiscoveryOptions = {
  /** The upstream's address, exactly as in the settings. */
  url: string;
  /** The value of `Host`, if it is not that of the address. */
  host?: string | undefined;
  /** The operator's credentials. */
  credentials: Readonly<Record<string, string>>;
  /** Masked in all that is read, because operators and callers see it. */
  token?: string | undefined;
  /** `caller.headers` of the upstream. */
  plainHeaders?: Upstream['caller']['headers'];
  /** The caller header and the plain headers of a caller. Absent: Gatehouse asks for itself. */
  ofCaller?: Readonly<Record<string, string>>;
  /** Per response. */
  maxAnswerBytes: number;
  issuer: string;
  levels: Levels;
  /** The current signing key. Without it, requests have no caller header. */
  signingKey?: () => SigningKey;
  version: string;
  /** Milliseconds, for the whole discovery. */
  timeout: number;
  signal?: AbortSignal;
  /** Seconds since the epoch. */
  now: () => number;
};

/** What follows from the settings. */
export function discoveryTarget(
  { authUrl, levels }: Pick<Settings, 'authUrl' | 'levels'>,
  { url, host, headers, caller, maxAnswerBytes }: Upstream,
) {
  return {
    url,
    host,
    credentials: headers,
    plainHeaders: caller.headers,
    maxAnswerBytes,
    issuer: authUrl,
    levels,
  } satisfies Partial<DiscoveryOptions>;
}

/** The caller in Gatehouse's own requests, who may see every tool. */
function gatehouseCaller(levels: Levels): Caller {
  const level = highestLevel(levels);
  return {
    accountId: 'gatehouse',
    clientId: 'gatehouse',
    tokenId: 'gatehouse',
    level,
    ceiling: level,
    minted: false,
  };
}

const END_SESSION_MS = 2000;
/** An upstream may end its streams at once, and ask for the next one without a delay. */
const STREAM_INTERVAL_MS = 2000;
const MAX_WORDS_LENGTH = 1000;

export async function headersOf({
  url: audience,
  issuer,
  levels,
  signingKey,
  credentials,
  plainHeaders: headers = {},
  ofCaller,
  version,
  now,
}: DiscoveryOptions): Promise<Record<string, string>> {
  const agent = {
    ...credentials,
    'accept-encoding': 'identity',
    'user-agent': `gatehouse/${version}`,
  };
  if (ofCaller) return { ...agent, ...ofCaller };
  if (!signingKey) return agent;
  const claimsOf = () => ({});
  const headersFor = callerHeaders({ issuer, audience, headers, claimsOf, signingKey, now });
  return { ...agent, ...(await headersFor(gatehouseCaller(levels))) };
}

/** `fetch` removes the header `Host` (Fetch, HTTP-network-or-cache fetch), so it is added below. */
function fetchWithHost(host: string): typeof fetch {
  // That of the process goes through the proxy of the network, if there is one.
  const dispatcher = getGlobalDispatcher().compose(
    (dispatch) => (options, handler) =>
      dispatch({ ...options, headers: { ...(options.headers as object), host } }, handler),
  );
  // Its types and those of Node differ in classes that are not used here.
  const send = fetchOfUndici as unknown as (url: string, init: object) => Promise<Response>;
  return (url, init) => send(String(url), { ...init, dispatcher });
}

/** HTTP for the MCP client. Remembers why the last request failed, because the client wraps the error in its own. */
export function openConnection(
  { host, credentials, maxAnswerBytes }: DiscoveryOptions,
  signal: AbortSignal,
  listens: boolean,
) {
  const send = host === undefined ? fetch : fetchWithHost(host);
  let last: DiscoveryError | undefined;
  // The client keeps waiting after an event stream breaks.
  const broken = new AbortController();
  const closed = new AbortController();
  const breakOff = (fault: DiscoveryError) => {
    last = fault;
    broken.abort(fault);
  };
  let leftSession: string | null = null;
  let nextStreamAt = 0;
  const waitForTurn = async (limit: AbortSignal) => {
    const wait = nextStreamAt - performance.now();
    nextStreamAt = performance.now() + Math.max(wait, 0) + STREAM_INTERVAL_MS;
    if (wait > 0) await delay(wait, undefined, { signal: limit, ref: false });
  };
  /** A stream that waits for changes outlives the time limit. */
  const limitOf = (init: RequestInit) => {
    if (init.method === 'DELETE') return AbortSignal.timeout(END_SESSION_MS);
    return listens && isWaiting(init) ? closed.signal : signal;
  };
  const ask = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    if (init.method === 'GET' && !listens) return new Response(null, { status: 405 });
    last = undefined;
    const limit = limitOf(init);
    const signals = init.signal ? [init.signal, limit] : [limit];
    const either = AbortSignal.any(signals);
    try {
      if (isWaiting(init)) await waitForTurn(either);
      const response = await send(url, { ...init, signal: either, redirect: 'manual' });
      if (isProbe(init)) leftSession = response.headers.get('mcp-session-id');
      const answer = await readable(
        limited(response, maxAnswerBytes, breakOff),
        maxAnswerBytes,
        requestsIn(init),
      );
      if (isWaiting(init) || response.ok) return answer;
      const words = await answer.text();
      last = faultOf(response, words.slice(0, MAX_WORDS_LENGTH), credentials);
      return new Response(words, { status: response.status, headers: response.headers });
    } catch (error) {
      if (!limit.aborted && !isWaiting(init)) last ??= unreachable(error);
      throw error;
    }
  };
  return {
    fetch: ask,
    /** Some servers start a session for the probe, and answer with its id and an error. */
    async endLeftSession(url: string, headers: Record<string, string>) {
      if (!leftSession) return;
      const session = { 'mcp-session-id': leftSession };
      leftSession = null;
      await ask(url, { method: 'DELETE', headers: { ...headers, ...session } });
    },
    signal: AbortSignal.any([signal, broken.signal]),
    fault: () => (signal.aborted ? undefined : last),
    close: () => closed.abort(),
  };
}

/** The stream of a session, or a subscription. */
function isWaiting(init: RequestInit): boolean {
  return init.method === 'GET' || calls(init, 'subscriptions/listen');
}

function isProbe(init: RequestInit): boolean {
  return calls(init, 'server/discover');
}

function calls({ body }: RequestInit, method: string): boolean {
  return typeof body === 'string' && body.includes(`"${method}"`);
}

/** Returns the response with a body that fails above the limit. */
function limited(
  response: Response,
  limit: number,
  onFault: (fault: DiscoveryError) => void,
): Response {
  if (!response.body) return response;
  let received = 0;
  const counter = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      received += chunk.length;
      if (received <= limit) return controller.enqueue(chunk);
      const fault = new DiscoveryError('too-large', `answers with more than ${limit} bytes`);
      onFault(fault);
      controller.error(fault);
    },
  });
  const { status, statusText, headers } = response;
  return new Response(response.body.pipeThrough(counter), { status, statusText, headers });
}

/** Returns the response with its messages as the proxy reads them, so that Gatehouse can read what apps can use. */
async function readable(
  response: Response,
  maxEventLength: number,
  requestIds: readonly MessageId[] | undefined,
): Promise<Response> {
  const { body, status, statusText, headers } = response;
  if (!response.ok || !body) return response;
  requireIdentity(headers.get('content-encoding'));
  const kind = mediaType(headers.get('content-type'));
  const init = { status, statusText, headers };
  if (kind === 'text/event-stream')
    return new Response(body.pipeThrough(rewriteEvents(maxEventLength, requestIds)), init);
  if (kind !== 'application/json') return response;
  const bytes = new Uint8Array(await response.arrayBuffer());
  try {
    return new Response(rewrite(readMessages(bytes), requestIds), init);
  } catch {
    // The client says what is wrong with it.
    return new Response(bytes, init);
  }
}

/** The requests that a response may answer; undefined for a stream that may repeat any. */
function requestsIn({ method, body }: RequestInit): MessageId[] | undefined {
  if (method !== 'POST' || typeof body !== 'string') return undefined;
  const id = idOf(JSON.parse(body));
  return id === undefined ? [] : [id];
}

function rewriteEvents(
  maxEventLength: number,
  requestIds: readonly MessageId[] | undefined,
): TransformStream<Uint8Array, Uint8Array> {
  const reader = new EventReader(maxEventLength, UNREPORTED);
  return new TransformStream({
    transform(chunk, controller) {
      for (const event of reader.read(chunk)) {
        if (event === 'comment') continue;
        const read = event.data === '' ? undefined : reader.messagesIn(event);
        const data = read ? rewrite(read, requestIds) : '';
        controller.enqueue(Buffer.from(encodeEvent({ ...event, data })));
      }
    },
  });
}

/** The client refuses a handshake with null in place of an absent member, or without the name or version of the server. */
function rewrite(
  { messages, isBatch }: ReadMessages,
  requestIds: readonly MessageId[] | undefined,
): string {
  const rewritten = (requestIds ? matchResponses(messages, requestIds) : messages).map(
    (message) => {
      const { result } = message;
      const { protocolVersion, serverInfo } = membersOf(result);
      if (protocolVersion === undefined) return message;
      const handshake = {
        ...membersOf(result),
        serverInfo: { ...NO_NAME, ...membersOf(serverInfo) },
      };
      return { ...message, result: withoutNullMembers(handshake) };
    },
  );
  return writeMessages({ messages: rewritten, isBatch });
}

const NO_NAME = { name: '', version: '' };

function withoutNullMembers(value: object): unknown {
  return JSON.parse(
    JSON.stringify(value, (_name, member: unknown) => (member === null ? undefined : member)),
  );
}
