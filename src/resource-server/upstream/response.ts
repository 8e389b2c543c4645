// Validates and filters the responses and event streams of the upstream, and forwards them.
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type Koa from 'koa';
import { addHeader, sendText, setDeferredHeaders } from '../../http/deferred-headers.ts';
import { HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import type { Caller } from '../authenticate.ts';
import { type InBandError, limitReached } from '../in-band-error.ts';
import { authorize } from '../authorize.ts';
import { type Extensions, withAuthorizationExtensions } from '../extensions.ts';
import { isObject, membersOf } from '../../json-values.ts';
import { errorResponse, idText, type MessageId, type RpcError } from '../json-rpc.ts';
import {
  createdTask,
  type IdBinder,
  isOwnTask,
  relatedTask,
  type TaskOwnership,
  withBoundState,
} from './bound-ids.ts';
import {
  type ChunkReader,
  isRefused,
  type StreamControl,
  type UpstreamResponse,
} from './exchange.ts';
import type { AuthorizedRequest } from '../mcp-handler.ts';
import type { ParameterHeaders } from './headers.ts';
import {
  type Comment,
  encodeEvent,
  isResponse,
  matchResponses,
  mediaType,
  openEventReader,
  readMessages,
  type ReceivedEvent,
  requireIdentity,
  type RpcMessage,
  writeMessages,
} from './messages.ts';
import { printable } from '../../printable-text.ts';
import { findsParts, refusesHost } from './quoting.ts';
import { isLookalike, type LevelRules, levelOfTool } from '../../upstreams/tool-levels.ts';
import { TASK_NOT_FOUND } from './levels.ts';

/** Returns undefined if the message is dropped. */
export type FilterMessage = (message: RpcMessage) => Promise<RpcMessage | undefined>;

export type ResponseOptions = {
  /** Empty if the client sent only notifications and responses. */
  requestIds: readonly MessageId[];
  filter: FilterMessage;
  bindSession: (id: string) => string;
  stepUpTo?: AuthorizedRequest['stepUpTo'];
  /** Headers that were sent. What repeats a part of one is not logged. */
  secrets: Readonly<Record<string, string>>;
};

const ALLOWED_METHODS = ['GET', 'POST', 'DELETE'];
/** JWTs, and the state of gateways, take more than half a kilobyte. Node reads 16 kB of headers. */
const SESSION_ID = /^[\x21-\x7e]{1,4096}$/;
const REVISION = /^[\w.-]{1,40}$/;

/** Validates and filters the upstream's response, and forwards it without the upstream's own headers. Throws HttpError. */
export async function forwardResponse(
  ctx: Koa.Context,
  { status, headers, body }: UpstreamResponse,
  options: ResponseOptions,
): Promise<void> {
  const { requestIds, filter, bindSession } = options;
  if (status === 429) throw upstreamLimit(headers);
  if (isRefused(status)) {
    const cause = new Error(`the upstream answered ${status}`);
    const retryAfter = status === 503 ? retryAfterOf(headers) : undefined;
    throw retryAfter === undefined ? badGateway(cause) : upstreamBusy(cause, retryAfter);
  }
  const kind = mediaType(headers['content-type']);
  if (MISLEADING_STATUSES.has(status)) throw refusedGatehouse(status, headers, body, options);
  if (status >= 400) throw upstreamRefusal(ctx, status, headers, rpcError(kind, body));
  forwardHeaders(ctx, headers, bindSession);
  const isEmpty = ctx.method === 'DELETE' || (ctx.method === 'POST' && requestIds.length === 0);
  if (isEmpty) return sendEmpty(ctx, status);
  requireIdentity(headers['content-encoding']);
  if (kind === 'application/json' && ctx.method === 'POST')
    sendText(ctx, status, await filterBody(body, requestIds, filter), JSON_HEADERS);
  else throw badGateway(new Error(`the upstream answered ${status} with ${kind ?? 'nothing'}`));
}

function forwardHeaders(
  ctx: Koa.Context,
  headers: IncomingHttpHeaders,
  bindSession: (id: string) => string,
): void {
  const { 'mcp-session-id': session, 'mcp-protocol-version': revision } = headers;
  // An empty one is that of a server without sessions.
  if (session !== undefined && session !== '') {
    if (typeof session !== 'string' || !SESSION_ID.test(session))
      throw badGateway(new Error('the upstream issued an invalid session id'));
    addHeader(ctx, 'Mcp-Session-Id', bindSession(session));
  }
  if (typeof revision === 'string' && REVISION.test(revision))
    addHeader(ctx, 'MCP-Protocol-Version', revision);
}

const JSON_HEADERS = {
  'Content-Type': 'application/json; charset=utf-8',
  'Cache-Control': 'no-store',
};

function sendEmpty(ctx: Koa.Context, status: number): void {
  ctx.body = null;
  ctx.status = status === 200 && ctx.method === 'POST' ? 202 : status;
}

/** Serializes what was filtered, so that a member that occurs twice cannot hide another value from the filter. */
async function filterBody(
  body: Buffer,
  requestIds: readonly MessageId[],
  filter: FilterMessage,
): Promise<string> {
  const { messages, isBatch } = readMessages(body);
  const filtered = await filterAll(matchResponses(messages, requestIds), filter);
  if (filtered.length === 0)
    throw badGateway(new Error('the response of the upstream has no message for this caller'));
  return writeMessages({ messages: filtered, isBatch });
}

/** Omits the messages that the filter drops. */
async function filterAll(
  messages: readonly RpcMessage[],
  filter: FilterMessage,
): Promise<readonly RpcMessage[]> {
  if (!messages.some(needsFilter)) return messages;
  const filtered = [];
  for (const message of messages) filtered.push(await filter(message));
  return filtered.filter((message) => message !== undefined);
}

type ErrorObject = RpcError & { data?: unknown };

/** A client that does not read an error holds no slot. */
const MAX_ERROR_BYTES = 64 * 1024;

/** The JSON-RPC error of a refused request, such as the supported revisions. */
function rpcError(kind: string | undefined, body: Buffer): ErrorObject | undefined {
  if (kind !== 'application/json' || body.length > MAX_ERROR_BYTES) return undefined;
  try {
    const { error } = JSON.parse(body.toString('utf8')) as { error?: Partial<ErrorObject> };
    const { code, message, data } = error ?? {};
    if (typeof code !== 'number' || typeof message !== 'string') return undefined;
    return { code, message, ...(data === undefined ? {} : { data }) };
  } catch {
    return undefined;
  }
}

function upstreamRefusal(
  ctx: Koa.Context,
  status: number,
  headers: IncomingHttpHeaders,
  error: ErrorObject | undefined,
): HttpError {
  const allowed = ALLOWED_METHODS.filter((method) => headers.allow?.includes(method)).join(', ');
  if (error) requestContext(ctx).jsonRpc = { ...requestContext(ctx).jsonRpc, error };
  return new HttpError(
    status,
    'refused_upstream',
    'the MCP server behind this address refused the request',
    {
      headers: status === 405 && allowed ? { Allow: allowed } : {},
    },
  );
}

/** Statuses that have another meaning on a connect link: sign in again, the link is gone, the address is wrong. */
const MISLEADING_STATUSES: ReadonlySet<number> = new Set([403, 410, 421]);

const MAX_WORDS_BYTES = 1000;

/** The upstream refuses Gatehouse, or wants a level that this person can grant. */
function refusedGatehouse(
  status: number,
  headers: IncomingHttpHeaders,
  body: Buffer,
  { stepUpTo, secrets }: ResponseOptions,
): HttpError {
  const challenge = String(headers['www-authenticate'] ?? '');
  const [, scope = ''] = /\bscope="([^"]*)"/.exec(challenge) ?? [];
  if (status === 403 && /\berror="?insufficient_scope\b/.test(challenge)) {
    const stepUp = stepUpTo?.(scope);
    if (stepUp) return stepUp;
  }
  const words = body.toString('utf8', 0, MAX_WORDS_BYTES);
  const quote = findsParts(secrets)(words) ? '' : `: ${printable(words)}`;
  return badGateway(
    new Error(
      `the upstream answered ${status}${quote}${refusesHost(status, words) ? ' (see the setting host)' : ''}`,
    ),
    'the MCP server behind this address refused the request; its operator finds the reason in the log',
  );
}

/** The upstream is unreachable or its response is invalid. The cause is logged, and nothing of it is sent. */
export function badGateway(
  cause: unknown,
  message = 'the MCP server behind this address is unreachable or sent an invalid response; try again in a moment',
): HttpError {
  return new HttpError(502, 'bad_gateway', message, { cause });
}

const MAX_RETRY_AFTER_SECONDS = 999_999;
/** If the upstream does not say when to try again. */
const RETRY_AFTER_SECONDS = 5;

/** Whole seconds, of a number of seconds or a date (RFC 9110 section 10.2.3). */
function retryAfterOf({ 'retry-after': value = '' }: IncomingHttpHeaders): number | undefined {
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  if (Number.isNaN(seconds)) return undefined;
  return Math.min(Math.max(Math.ceil(seconds), 1), MAX_RETRY_AFTER_SECONDS);
}

/** A rate limit of the upstream. */
function upstreamLimit(headers: IncomingHttpHeaders): InBandError {
  const retryAfter = retryAfterOf(headers) ?? RETRY_AFTER_SECONDS;
  return limitReached('the MCP server behind this address limits its calls', retryAfter);
}

function upstreamBusy(cause: Error, retryAfter: number): HttpError {
  const message = `the MCP server behind this address is unavailable; try again in ${retryAfter} s`;
  const headers = { 'Retry-After': String(retryAfter) };
  return new HttpError(502, 'bad_gateway', message, { cause, headers });
}

// Filter

export type FilterOptions = {
  rules: LevelRules;
  caller: Caller;
  tasks: TaskOwnership;
  /** The caller's tasks at the start of the request, if they were read. */
  ownTasks: ReadonlySet<string>;
  ids: IdBinder;
  parameterHeaders: ParameterHeaders;
  extensions: Extensions;
  /** Called when the upstream says that its list of tools changed. */
  onToolsChanged: () => void;
  /** Called with each list of tools, before it is filtered. */
  onToolsListed: (tools: readonly unknown[]) => Promise<void>;
  /** True for the stream of a session or a subscription, whose notifications do not belong to an authorized call. */
  isListening: boolean;
};

const OTHER_LISTS = ['resources', 'resourceTemplates', 'prompts'] as const;
const MAX_TASK_ID_LENGTH = 512;

const TOOLS_CHANGED = 'notifications/tools/list_changed';

/** About the caller's own calls, session or tools. */
const OWN_NOTIFICATIONS: ReadonlySet<unknown> = new Set([
  'notifications/cancelled',
  'notifications/elicitation/complete',
  'notifications/message',
  'notifications/progress',
  'notifications/subscriptions/acknowledged',
  TOOLS_CHANGED,
]);
const LIST_NOTIFICATIONS: ReadonlySet<unknown> = new Set([
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
]);
const RESOURCE_UPDATED = 'notifications/resources/updated';

/** The members of results that the filter reads. */
const FILTERED_MEMBERS = [
  '_meta',
  'prompts',
  'requestState',
  'resourceTemplates',
  'resources',
  'supportedVersions',
  'task',
  'taskId',
  'tasks',
  'tools',
];

/** False for most results of tools, which the filter would not change. */
function needsFilter({ method, result }: RpcMessage): boolean {
  if (method !== undefined) return true;
  return isObject(result) && FILTERED_MEMBERS.some((name) => result[name] !== undefined);
}

/**
 * Removes what the caller can never reach, or what belongs to other callers. Returns undefined if the message is dropped. Recognizes lists and tasks by their members, because a response may arrive on another stream than its request.
 */
export async function filterMessage(
  options: FilterOptions,
  message: RpcMessage,
): Promise<RpcMessage | undefined> {
  const { id, method, result } = message;
  if (method !== undefined && !isResponse(message))
    return (await isForCaller(options, message)) ? message : undefined;
  if (!isObject(result)) return message;
  const filtered = await filterResult(options, result);
  if (filtered === undefined) return errorResponse(id, TASK_NOT_FOUND);
  return filtered === result ? message : { ...message, result: filtered };
}

/** Whether the caller may receive a request or a notification. */
async function isForCaller(
  options: FilterOptions,
  { id, method, params }: Record<string, unknown>,
): Promise<boolean> {
  const { rules, caller, isListening } = options;
  if (method === TOOLS_CHANGED) options.onToolsChanged();
  const isAboutTask = /^notifications\/tasks(\/|$)/.test(String(method));
  const related = relatedTask(params);
  const named = [
    ...(isAboutTask ? [membersOf(params)['taskId']] : []),
    ...(related === undefined ? [] : [related]),
  ];
  if (!(await areOwnTasks(options, named))) return false;
  if (isAboutTask) return true;
  if (id !== undefined || OWN_NOTIFICATIONS.has(method)) return true;
  const decision = authorize(rules.levels, caller, rules.defaultLevel);
  if (LIST_NOTIFICATIONS.has(method)) return decision !== 'forbidden';
  // In the stream of an authorized call, other notifications belong to the call.
  return decision === 'allowed' || (!isListening && method !== RESOURCE_UPDATED);
}

/** Returns undefined if the result is about a task of another caller. */
async function filterResult(
  options: FilterOptions,
  result: Record<string, unknown>,
): Promise<Record<string, unknown> | undefined> {
  const { caller, tasks, ids, parameterHeaders } = options;
  const created = createdTask(result);
  if (created) {
    if (created.id.length > MAX_TASK_ID_LENGTH)
      throw badGateway(new Error('the id of a task is too long'));
    await tasks.add(caller, created);
  }
  if (!(await areOwnTasks(options, tasksIn(result)))) return undefined;
  const own = isList(result, 'tasks') ? await tasks.idsOf(caller) : undefined;
  if (isList(result, 'tools')) {
    parameterHeaders.learn(result['tools']);
    await options.onToolsListed(result['tools']);
  }
  const lists = filterLists(options, result, own);
  const isFiltered = Object.keys(lists).length > 0;
  const filtered = isFiltered
    ? { ...result, ...lists }
    : withAuthorizationExtensions(options.extensions, result);
  return withBoundState(ids, caller, withLimitedCaching(filtered));
}

/** Reads the store only for tasks outside `ownTasks`, because clients poll the state of a task. */
async function areOwnTasks(
  { caller, tasks, ownTasks }: FilterOptions,
  named: readonly unknown[],
): Promise<boolean> {
  if (named.every((task) => isOwnTask(ownTasks, task))) return true;
  const own = await tasks.idsOf(caller);
  return named.every((task) => isOwnTask(own, task));
}

/** The task whose state a result is, and the task that it belongs to. */
function tasksIn(result: Record<string, unknown>): unknown[] {
  const { taskId, status } = result;
  const related = relatedTask(result);
  return [
    ...(typeof taskId === 'string' && typeof status === 'string' ? [taskId] : []),
    ...(related === undefined ? [] : [related]),
  ];
}

function filterLists(
  { rules, caller }: FilterOptions,
  result: Record<string, unknown>,
  ownTasks: ReadonlySet<string> | undefined,
): Record<string, unknown> {
  const isReachable = (tool: unknown) => {
    const { name } = membersOf(tool);
    return (
      !isLookalike(rules, name) &&
      authorize(rules.levels, caller, levelOfTool(rules, name)) !== 'forbidden'
    );
  };
  const isOwn = (task: unknown) => ownTasks && isOwnTask(ownTasks, membersOf(task)['taskId']);
  const isDefaultForbidden = authorize(rules.levels, caller, rules.defaultLevel) === 'forbidden';
  const hidden = OTHER_LISTS.filter((name) => isDefaultForbidden && isList(result, name));
  return {
    ...(isList(result, 'tools') ? { tools: result['tools'].filter(isReachable) } : {}),
    ...(isList(result, 'tasks') ? { tasks: result['tasks'].filter(isOwn) } : {}),
    ...Object.fromEntries(hidden.map((name) => [name, []])),
  };
}

function isList<Name extends string>(
  result: Record<string, unknown>,
  name: Name,
): result is Record<Name, unknown[]> {
  return Array.isArray(result[name]);
}

const MAX_LIST_TTL_MS = 5000;
const LISTS = ['tools', 'tasks', ...OTHER_LISTS] as const;

/** Lists and discovery differ by caller, and change with levels and links (MCP 2026-07-28, caching). */
function withLimitedCaching(result: Record<string, unknown>): Record<string, unknown> {
  const { cacheScope, ttlMs } = result;
  const isCacheable = cacheScope !== undefined || ttlMs !== undefined;
  const isDiscovery = Array.isArray(result['supportedVersions']);
  if (!isCacheable || !(isDiscovery || LISTS.some((name) => isList(result, name)))) return result;
  const isShort = typeof ttlMs === 'number' && ttlMs < MAX_LIST_TTL_MS;
  return { ...result, cacheScope: 'private', ttlMs: isShort ? ttlMs : MAX_LIST_TTL_MS };
}

// Streams

export type EventStreamOptions = {
  /** Characters. */
  maxEventLength: number;
  /** Called with the bytes of events that the client has not read. The upstream waits for the promise; the stream breaks if it rejects. */
  hold: (bytes: number) => Promise<void> | undefined;
  filter: FilterMessage;
  bindSession: (id: string) => string;
  bindEvent: (id: string) => string;
  /** The requests whose responses the stream must contain; undefined if it may contain any, because a client resumes it. */
  requestIds: readonly MessageId[] | undefined;
  /** Called for an event that is skipped. */
  onSkipped: (reason: string) => undefined;
  /** Whether the client only waits for notifications, which may not come for long. */
  isListening: boolean;
  /** Seconds until a comment is sent on an idle stream. */
  heartbeat: number;
  /** Called for each chunk. */
  onData: () => void;
  /** Called when the stream has ended. */
  onEnd: () => void;
  /** Called if the stream breaks. Returns the function that makes the response to each open request. */
  onBreak: (error: unknown) => (id: MessageId) => object;
};

/** Begins the response, and returns what filters and forwards the events. Throws HttpError if the upstream's headers are invalid. */
export function openStream(
  ctx: Koa.Context,
  headers: IncomingHttpHeaders,
  control: StreamControl,
  options: EventStreamOptions,
): ChunkReader {
  requireIdentity(headers['content-encoding']);
  forwardHeaders(ctx, headers, options.bindSession);
  setDeferredHeaders(ctx);
  ctx.respond = false;
  ctx.status = 200;
  ctx.type = 'text/event-stream';
  ctx.set('Cache-Control', 'no-cache, no-transform');
  ctx.set('X-Accel-Buffering', 'no');
  // The first event may come late, and the client waits for the status.
  ctx.flushHeaders();
  return new EventForwarder(ctx.res, control, options);
}

/** Chunks that arrive while so many events wait stop the upstream. */
const MAX_WAITING = 16;

/** Ends the response when the stream ends. If it breaks, first sends an error response for each open request, unless the client can resume the stream by an event id. */
class EventForwarder implements ChunkReader {
  readonly #res: ServerResponse;
  readonly #control: StreamControl;
  readonly #options: EventStreamOptions;
  readonly #reader: EventFilter;
  #waiting: (ReceivedEvent | Comment)[] = [];
  /** Bytes of the events that wait, and of the event that is not complete. */
  #received = 0;
  #incomplete = 0;
  #wait: Promise<void> | undefined;
  #isForwarding = false;
  #isDraining = false;
  #isEnded = false;
  /** Proxies in front cut idle streams, and some hold the headers back until the first byte. */
  readonly #heartbeat: NodeJS.Timeout;
  /** Set when no more chunks come. */
  #outcome: 'ended' | { error: unknown } | undefined;

  constructor(res: ServerResponse, control: StreamControl, options: EventStreamOptions) {
    this.#res = res;
    this.#control = control;
    this.#options = options;
    this.#reader = openEventFilter(options);
    const sendComment = () => {
      if (!this.#isForwarding) res.write(EMPTY_COMMENT);
    };
    this.#heartbeat = setInterval(sendComment, options.heartbeat * 1000).unref();
    if (options.isListening) sendComment();
  }

  read(chunk: Buffer): void {
    if (this.#isEnded) return;
    this.#options.onData();
    try {
      const events = this.#reader.read(chunk);
      this.#received += chunk.length;
      this.#incomplete = chunk.length + (events.length > 0 ? 0 : this.#incomplete);
      this.#waiting.push(...events);
    } catch (error) {
      return this.fail(error);
    }
    this.#hold(this.#received);
    if (!this.#isForwarding) void this.#forward();
    else if (this.#waiting.length > MAX_WAITING) this.#control.pause();
  }

  end(): void {
    this.#outcome ??= 'ended';
    if (!this.#isForwarding) this.#finish();
  }

  fail(error: unknown): void {
    if (!this.#hasFailed()) this.#outcome = { error };
    if (!this.#isForwarding || this.#isDraining) this.#finish();
  }

  #hasFailed(): boolean {
    return typeof this.#outcome === 'object';
  }

  async #forward(): Promise<void> {
    this.#isForwarding = true;
    try {
      for (let event = this.#waiting.shift(); event; event = this.#waiting.shift()) {
        const text = await this.#reader.forward(event);
        if (this.#isEnded) return;
        this.#heartbeat.refresh();
        const isRead = this.#res.write(text);
        if (!isRead && this.#hasFailed()) break;
        if (!isRead) await this.#drain();
      }
    } catch (error) {
      this.#outcome = { error };
    }
    this.#isForwarding = false;
    if (this.#outcome !== undefined) return this.#finish();
    this.#received = this.#incomplete;
    this.#hold(this.#received);
    this.#resume();
  }

  /** The upstream waits while the bytes are not granted. */
  #hold(bytes: number): void {
    const wait = this.#options.hold(bytes);
    this.#wait = wait;
    if (!wait) return;
    this.#control.pause();
    wait.then(
      () => {
        if (this.#wait !== wait) return;
        this.#wait = undefined;
        this.#resume();
      },
      (error: unknown) => this.fail(error),
    );
  }

  #resume(): void {
    if (!this.#isForwarding && !this.#wait) this.#control.resume();
  }

  /** The upstream waits until the client has read. */
  async #drain(): Promise<void> {
    this.#isDraining = true;
    this.#control.pause();
    await new Promise<void>((resolve) => {
      const done = () => {
        this.#res.off('drain', done).off('close', done);
        resolve();
      };
      this.#res.on('drain', done).on('close', done);
    });
    this.#isDraining = false;
  }

  #finish(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearInterval(this.#heartbeat);
    const unanswered = this.#reader.unanswered();
    if (this.#outcome !== 'ended' || unanswered.length > 0) {
      const { error } = typeof this.#outcome === 'object' ? this.#outcome : { error: incomplete() };
      const responseTo = this.#options.onBreak(error);
      for (const id of unanswered)
        this.#res.write(encodeEvent({ event: 'message', data: JSON.stringify(responseTo(id)) }));
    }
    this.#res.end();
    this.#options.onEnd();
  }
}

function incomplete(): Error {
  return badGateway(new Error('the stream of the upstream ended before its responses'));
}

const EMPTY_COMMENT = ':\n\n';

type EventFilter = ReturnType<typeof openEventFilter>;

function openEventFilter({
  maxEventLength,
  filter,
  bindEvent,
  requestIds,
  onSkipped,
}: EventStreamOptions) {
  const reader = openEventReader(maxEventLength, onSkipped);
  const open = new Map((requestIds ?? []).map((id) => [idText(id), id]));
  let isResumable = false;
  /** Returns undefined if no message is left. Events of other types have no meaning in MCP and lose their data. */
  const filterData = async (event: ReceivedEvent): Promise<string | undefined> => {
    const { event: type = 'message', data } = event;
    if (type !== 'message' || data === '') return '';
    const read = reader.messagesIn(event);
    if (!read) return undefined;
    const { isBatch } = read;
    const received = requestIds ? matchResponses(read.messages, requestIds) : read.messages;
    const messages = await filterAll(received, filter);
    for (const message of received)
      if (isResponse(message)) open.delete(idText(message['id'] as MessageId));
    return messages.length === 0 ? undefined : writeMessages({ messages, isBatch });
  };
  return {
    read: reader.read,
    async forward(event: ReceivedEvent | Comment): Promise<string> {
      if (event === 'comment') return EMPTY_COMMENT;
      if (event.id) isResumable = true;
      const data = await filterData(event);
      if (data === undefined && !event.id) return EMPTY_COMMENT;
      const bound = event.id ? { ...event, id: bindEvent(event.id) } : event;
      return encodeEvent({ ...bound, data: data ?? '' });
    },
    unanswered: () => (isResumable ? [] : [...open.values()]),
  };
}
