// Lists the tools of the operator's MCP server, and compares them with the settings.
import { setTimeout as delay } from 'node:timers/promises';
import {
  Client,
  ProtocolError,
  type RequestOptions,
  SdkError,
  SdkErrorCode,
  StreamableHTTPClientTransport,
  type VersionNegotiationOptions,
} from '@modelcontextprotocol/client';
import { fetch as fetchOfUndici, getGlobalDispatcher } from 'undici';
import { z } from 'zod';
import type { SigningKey } from '../../keys/signing-keys.ts';
import { highestLevel, type Level, type Levels } from '../../permission-levels.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { tlsFault } from '../../tls-errors.ts';
import {
  type CatalogFault,
  type CatalogTool,
  type DiscoveryFault,
  missingTools,
  type ToolHints,
} from '../../upstreams/tool-catalog.ts';
import type { Caller } from '../authenticate.ts';
import { membersOf } from '../../json-values.ts';
import { idOf, type MessageId } from '../json-rpc.ts';
import { CALLER_HEADER, callerHeader } from './caller-header.ts';
import { STATELESS_SINCE } from './headers.ts';
import {
  CompressedResponse,
  encodeEvent,
  matchResponses,
  mediaType,
  openEventReader,
  readMessages,
  type ReadMessages,
  requireIdentity,
  writeMessages,
} from './messages.ts';
import { printable } from '../../printable-text.ts';
import { findsParts, refusesHost } from './quoting.ts';
import { levelOfTool, levelRules } from '../../upstreams/tool-levels.ts';

export type DiscoveryOptions = {
  /** The upstream's address, exactly as in the settings. */
  url: string;
  /** The value of `Host`, if it is not that of the address. */
  host?: string | undefined;
  /** The operator's credentials. */
  credentials: Readonly<Record<string, string>>;
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

/** `revision` is the negotiated protocol revision. */
export type Discovered = { revision: string; tools: CatalogTool[] };

/** The message completes a sentence that starts with "the MCP server". */
export class DiscoveryError extends Error {
  override name = 'DiscoveryError';
  readonly fault: DiscoveryFault;
  /** Present if TLS failed. */
  readonly remedy?: string;

  constructor(fault: DiscoveryFault, message: string, options?: ErrorOptions) {
    super(message, options);
    this.fault = fault;
    const tls = tlsFault(options?.cause);
    if (tls) this.remedy = tls.remedy;
  }
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

const MAX_PAGES = 50;
const MAX_TOOLS = 2000;
const MAX_TITLE_LENGTH = 120;
const HINTS = ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint'] as const;
const END_SESSION_MS = 2000;
/** An upstream may end its streams at once, and ask for the next one without a delay. */
const STREAM_INTERVAL_MS = 2000;

/** Lists the tools, over any revision of MCP. Rejects with DiscoveryError within the timeout and END_SESSION_MS. */
export async function discoverTools(options: DiscoveryOptions): Promise<Discovered> {
  const { close, ...discovered } = await openTools(options);
  await close();
  return discovered;
}

/** Lists the tools like `discoverTools`, and calls `onChanged` when the upstream says that its list changed, until `close` or a broken stream. */
export async function watchTools(
  options: DiscoveryOptions,
  onChanged: () => void,
): Promise<Discovered & { close: () => Promise<void> }> {
  return openTools(options, onChanged);
}

type OpenedTools = Discovered & { close: () => Promise<void> };

/**
 * An older server may answer a request that it does not know with an error, in another form or never. Only a list of revisions means that it
 * is of the newer kind (MCP 2026-07-28, versioning).
 */
const PROBE_MS = 3000;

async function openTools(options: DiscoveryOptions, onChanged?: () => void): Promise<OpenedTools> {
  const time = AbortSignal.timeout(options.timeout);
  const signal = options.signal ? AbortSignal.any([options.signal, time]) : time;
  const probe = { timeoutMs: Math.min(PROBE_MS, options.timeout / 3) };
  const newer = await connect(options, { mode: { pin: STATELESS_SINCE }, probe }, signal, onChanged)
    // The older kind is tried next.
    .catch(() => undefined);
  const connection = newer ?? (await connect(options, { mode: 'legacy' }, signal, onChanged));
  return connection.read();
}

/** Rejects with DiscoveryError. */
async function connect(
  options: DiscoveryOptions,
  versionNegotiation: VersionNegotiationOptions,
  signal: AbortSignal,
  onChanged: (() => void) | undefined,
): Promise<{ read: () => Promise<OpenedTools> }> {
  const connection = openConnection(options, signal, onChanged !== undefined);
  const headers = await headersOf(options);
  const transport = new StreamableHTTPClientTransport(new URL(options.url), {
    fetch: connection.fetch,
    requestInit: { headers },
  });
  const client = new Client(
    { name: 'gatehouse', version: options.version },
    {
      versionNegotiation,
      ...(onChanged ? { listChanged: { tools: { autoRefresh: false, onChanged } } } : {}),
    },
  );
  const limits = { signal: connection.signal, timeout: options.timeout };
  const close = async () => {
    await transport.terminateSession().catch(() => undefined);
    await connection.endLeftSession(options.url, headers).catch(() => undefined);
    await client.close().catch(() => undefined);
    connection.close();
  };
  const attempt = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      // The client ignores the signal in some places.
      return await Promise.race([work(), rejectedBy(connection.signal)]);
    } catch (error) {
      await close();
      if (error instanceof DiscoveryError) throw error;
      throw connection.fault() ?? otherFault(error, signal, options);
    }
  };
  await attempt(() => client.connect(transport, limits));
  return {
    read: () =>
      attempt(async () => {
        const listed = await listTools(client, limits);
        const reveals = findsParts(options.credentials);
        const revision = client.getNegotiatedProtocolVersion() ?? '';
        return { revision, tools: listed.flatMap((tool) => toolOf(tool, reveals)), close };
      }),
  };
}

/** Less strict than the client's own schema, which refuses all tools for one with `"title": null` or another schema than an object. */
const TOOLS_PAGE = z.looseObject({
  tools: z.array(z.unknown()),
  nextCursor: z.string().optional().catch(undefined),
});

/** Returns the members of each tool. A repeated cursor ends the list. */
async function listTools(client: Client, limits: RequestOptions): Promise<ListedTool[]> {
  const tools: ListedTool[] = [];
  const cursors = new Set<string | undefined>();
  let cursor: string | undefined;
  do {
    cursors.add(cursor);
    const params = cursor === undefined ? {} : { params: { cursor } };
    const page = await client
      .request({ method: 'tools/list', ...params }, TOOLS_PAGE, limits)
      .catch((error: unknown) => {
        const hasTools = client.getServerCapabilities()?.tools !== undefined;
        if (hasTools || !(error instanceof ProtocolError)) throw error;
        return { tools: [], nextCursor: undefined };
      });
    tools.push(...page.tools.map(membersOf));
    cursor = page.nextCursor;
    if (tools.length > MAX_TOOLS)
      throw new DiscoveryError('too-large', `lists more than ${MAX_TOOLS} tools`);
    if (cursors.size > MAX_PAGES)
      throw new DiscoveryError('too-large', `lists its tools on more than ${MAX_PAGES} pages`);
  } while (cursor !== undefined && !cursors.has(cursor));
  return tools;
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}

/** Nobody can call a tool with a longer name. */
const MAX_TOOL_NAME_LENGTH = 512;

type ListedTool = Record<string, unknown>;

/** A title that `reveals` finds a credential in is left out, because people see titles. */
function toolOf(
  { name, title, annotations }: ListedTool,
  reveals: (text: string) => boolean,
): CatalogTool[] {
  if (typeof name !== 'string' || name.length > MAX_TOOL_NAME_LENGTH) return [];
  const stated = membersOf(annotations);
  const text = printable(String(title ?? stated['title'] ?? ''), MAX_TITLE_LENGTH);
  const hints = hintsIn(annotations);
  return [
    {
      name,
      ...(text === '' || reveals(text) ? {} : { title: text }),
      ...(Object.keys(hints).length === 0 ? {} : { hints }),
    },
  ];
}

/** The hints that are stated as true or false. */
export function hintsIn(annotations: unknown): ToolHints {
  const stated = membersOf(annotations);
  return Object.fromEntries(
    HINTS.filter((hint) => typeof stated[hint] === 'boolean').map((hint) => [hint, stated[hint]]),
  );
}

async function headersOf({
  url: audience,
  issuer,
  levels,
  signingKey,
  credentials,
  version,
  now,
}: DiscoveryOptions): Promise<Record<string, string>> {
  const agent = {
    ...credentials,
    'accept-encoding': 'identity',
    'user-agent': `gatehouse/${version}`,
  };
  if (!signingKey) return agent;
  const headerOf = callerHeader({ issuer, audience, signingKey, now });
  return { ...agent, [CALLER_HEADER]: await headerOf(gatehouseCaller(levels)) };
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
function openConnection(
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

const MAX_WORDS_LENGTH = 1000;

function faultOf(
  response: Response,
  words: string,
  credentials: DiscoveryOptions['credentials'],
): DiscoveryError | undefined {
  const { status } = response;
  if (status < 300) return undefined;
  const quote = words === '' || findsParts(credentials)(words) ? '' : `: ${printable(words)}`;
  if (refusesHost(status, words))
    return new DiscoveryError('wrong-host', `refuses the Host header (HTTP ${status}${quote})`);
  if (status === 401 || status === 403 || status === 407)
    return new DiscoveryError('rejected', `refuses Gatehouse (HTTP ${status})`);
  if (status < 400) {
    const target = URL.parse(response.headers.get('location') ?? '', response.url);
    const address = target && target.origin + target.pathname;
    const where = address && !findsParts(credentials)(address) ? ` to ${address}` : '';
    return new DiscoveryError('redirected', `redirects${where} (HTTP ${status})`);
  }
  if (status === 404 || status === 405)
    return new DiscoveryError('not-found', `has no MCP endpoint at this address (HTTP ${status})`);
  if (status >= 500) return new DiscoveryError('failing', `responds with HTTP ${status}`);
  return new DiscoveryError('not-mcp', `responds with HTTP ${status}`);
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
  const reader = openEventReader(maxEventLength, () => undefined);
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

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'does not listen (connection refused)',
  ECONNRESET: 'closes the connection',
  UND_ERR_SOCKET: 'closes the connection',
  ENOTFOUND: 'has a name that does not resolve (ENOTFOUND)',
  EAI_AGAIN: 'has a name that cannot be resolved at present (EAI_AGAIN)',
  EHOSTUNREACH: 'cannot be reached from this machine (EHOSTUNREACH)',
  ENETUNREACH: 'cannot be reached from this machine (ENETUNREACH)',
};

function unreachable(error: unknown): DiscoveryError {
  if (error instanceof CompressedResponse)
    return new DiscoveryError('not-mcp', `compresses its responses (${error.encoding})`);
  return new DiscoveryError('unreachable', reasonOf(error), { cause: error });
}

/** `fetch` throws a TypeError whose cause is the network error. */
function reasonOf(error: unknown): string {
  const { cause } = error as { cause?: NodeJS.ErrnoException };
  const { code = '', message = '' } = cause ?? {};
  return (
    tlsFault(error)?.what ??
    REASONS[code] ??
    `cannot be reached (${code || message || 'unknown reason'})`
  );
}

function otherFault(
  error: unknown,
  signal: AbortSignal,
  { credentials, timeout }: DiscoveryOptions,
): DiscoveryError {
  const isTimeout = error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
  if (signal.aborted || isTimeout)
    return new DiscoveryError('timeout', `does not answer within ${timeout / 1000} s`);
  const { message: text } = error as Error;
  const quote = findsParts(credentials)(text) ? '' : ` (${printable(text)})`;
  if (error instanceof ProtocolError)
    return new DiscoveryError('failing', `answers with the error ${error.code}${quote}`, {
      cause: error,
    });
  return new DiscoveryError('not-mcp', `sends a response that is not valid MCP${quote}`, {
    cause: error,
  });
}

// Comparison with the settings

export type ToolComparison = {
  /** Names in the settings that the MCP server lacks. */
  missing: string[];
  /** Tools that the settings do not name. */
  undeclared: string[];
  /** The number of tools that need each level. */
  needed: Map<Level, number>;
};

export function compareTools(
  levels: Levels,
  upstream: Upstream,
  tools: readonly CatalogTool[],
): ToolComparison {
  const names = new Set(tools.map(({ name }) => name));
  const declared = new Set(upstream.tools.map(({ name }) => name));
  const rules = levelRules(levels, upstream, tools);
  const needed = new Map<Level, number>();
  for (const name of names) {
    const level = levelOfTool(rules, name);
    needed.set(level, (needed.get(level) ?? 0) + 1);
  }
  return {
    missing: missingTools(upstream, tools),
    undeclared: [...names].filter((name) => !declared.has(name)),
    needed,
  };
}

const MAX_NAMES = 20;
const MAX_NAME_LENGTH = 64;

/** Shortened for a log line or a finding. */
export function listOf(names: readonly string[]): string {
  const shown = names
    .slice(0, MAX_NAMES)
    .map((name) => printable(name, MAX_NAME_LENGTH))
    .join(', ');
  const more = names.length - MAX_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

const REMEDIES: Record<DiscoveryFault, (setting: string) => string> = {
  unreachable: (setting) =>
    `check ${setting}.url, that the MCP server runs, and that no firewall blocks this machine`,
  timeout: () => 'check that this machine reaches the MCP server, and how long its response takes',
  'wrong-host': (setting) =>
    `set ${setting}.host to a name that the MCP server accepts, such as localhost with its port, or allow the host of ${setting}.url in the MCP server`,
  rejected: (setting) =>
    `configure the MCP server to verify the header gatehouse-caller: keys at {authUrl}/oauth/jwks, issuer authUrl, audience exactly ${setting}.url; sub may be gatehouse. If it needs a credential of its own, set ${setting}.headers`,
  redirected: (setting) =>
    `set ${setting}.url to the final address, including its path and slash: redirects are not followed`,
  'not-found': (setting) => `check the path of ${setting}.url (often /mcp)`,
  failing: () => 'see the log of the MCP server',
  'too-large': (setting) => `reduce the number of tools, or raise ${setting}.maxAnswerBytes`,
  'not-mcp': (setting) => `check that ${setting}.url is an MCP server with Streamable HTTP`,
};

/** What the operator can do. */
export function remedyFor(
  { fault, remedy }: CatalogFault,
  { setting }: Pick<Upstream, 'setting'>,
): string {
  return remedy ?? REMEDIES[fault](setting);
}
