// JSON-RPC 2.0 messages over HTTP: validates parsed ones (read-body.ts), creates others, and responds with errors.
import type Koa from 'koa';
import { HttpError, respondWithJson } from '../http/errors.ts';
import { type BigInteger, isObject, isRawJSON, membersOf } from '../json-values.ts';
import { callOf } from './call.ts';
import { parseTraceparent, type SpanLink } from '../observability/tracing.ts';

const NULLABLE: ReadonlySet<string> = new Set(['id', 'method', 'params', 'result', 'error']);

/**
 * Removes the members of a message that are null in place of absent, as serializers write them that know no difference. Keeps a null result
 * of a call that succeeded, and the null id of a request, which MCP does not allow.
 */
export function withoutNulls(value: unknown): unknown {
  if (!isObject(value) || !Object.values(value).includes(null)) return value;
  const { method, error } = value;
  const isRequest = typeof method === 'string' && !method.startsWith('notifications/');
  const isSuccess = (method ?? error ?? undefined) === undefined;
  const isKept = (name: string) =>
    (name === 'result' && isSuccess) || (name === 'id' && isRequest) || !NULLABLE.has(name);
  return Object.fromEntries(
    Object.entries(value).filter(([name, member]) => member !== null || isKept(name)),
  );
}

// Messages of the client, validated and rebuilt from what was understood, so that the upstream reads them as we did

export type MessageId = string | number | BigInteger;

/** Of a batch. */
export const MAX_MESSAGES = 20;

/** A request, a notification, or the client's response to a request of the upstream. */
export type Message = {
  jsonrpc: '2.0';
  id?: MessageId;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: unknown;
};

/** The member of `params` that `Mcp-Name` repeats, by method (MCP 2026-07-28, Streamable HTTP). */
const SUBJECTS: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/result': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

/** The other members of `params` that are checked. */
const CHECKED_ALWAYS = ['_meta', 'requestState'];
const CHECKED_BY_METHOD: Readonly<Record<string, string>> = {
  'completion/complete': 'ref',
  'resources/subscribe': 'uri',
  'resources/unsubscribe': 'uri',
  'subscriptions/listen': 'notifications',
  'tools/call': 'arguments',
};

/** Returns one message, or those of a batch. Throws HttpError 400. */
export function requireMessages(body: unknown): Message[] {
  if (body === undefined) throw new HttpError(400, 'parse_error', 'the body is not JSON');
  const messages = Array.isArray(body) ? body : [body];
  if (messages.length === 0) throw invalid('the batch is empty');
  return messages.map(requireMessage);
}

function requireMessage(given: unknown): Message {
  const { jsonrpc, id, method, params, result, error } = membersOf(given);
  const isResponse = id !== undefined && (result !== undefined || error !== undefined);
  const isValid = jsonrpc === '2.0' && (method === undefined ? isResponse : isMethod(method));
  if (!isValid) throw invalid('this is not a JSON-RPC 2.0 message');
  if (id !== undefined && !isId(id))
    throw invalid('the id of a message must be a string or a number');
  if (params !== undefined && !isObject(params)) throw invalid('params must be an object in MCP');
  if (typeof method === 'string' && isLookalikeMethod(method))
    throw new HttpError(400, 'method_not_found', 'there is no such method');
  if (params) refuseAmbiguous(String(method), params);
  if (method === 'tools/call' && typeof params?.['name'] !== 'string')
    throw invalid('the name of a tool must be a string');
  return {
    jsonrpc,
    ...(id === undefined ? {} : { id }),
    ...(method === undefined
      ? result === undefined
        ? { error }
        : { result }
      : { method: String(method), ...(params ? { params } : {}) }),
  } as Message;
}

/** What a client may send, in every revision of MCP. */
const METHODS: ReadonlySet<string> = new Set([
  'completion/complete',
  'initialize',
  'logging/setLevel',
  'notifications/cancelled',
  'notifications/initialized',
  'notifications/progress',
  'notifications/roots/list_changed',
  'notifications/tasks/status',
  'ping',
  'prompts/get',
  'prompts/list',
  'resources/list',
  'resources/read',
  'resources/subscribe',
  'resources/templates/list',
  'resources/unsubscribe',
  'server/discover',
  'subscriptions/listen',
  'tasks/cancel',
  'tasks/get',
  'tasks/list',
  'tasks/result',
  'tasks/update',
  'tools/call',
  'tools/list',
]);

/** Case, separators and spaces do not count, because routers ignore some of them. */
const foldMethod = (method: string) => foldCase(method).replace(/[^a-z\d]/g, '');
const FOLDED_METHODS: ReadonlySet<string> = new Set(Array.from(METHODS, foldMethod));
const EXTENSION_METHOD = /^[\x21-\x7e]{1,256}$/;

/** True if a careless router could run a known method for this one, without its checks. Methods of extensions pass. */
export function isLookalikeMethod(method: string): boolean {
  if (METHODS.has(method)) return false;
  return !EXTENSION_METHOD.test(method) || FOLDED_METHODS.has(foldMethod(method));
}

/** Some parsers ignore the case of member names: they would call another tool, or use other arguments, than we checked and recorded. */
function refuseAmbiguous(method: string, params: Record<string, unknown>): void {
  const { checked, maxLength } = CHECKED.get(method) ?? CHECKED_OF_OTHERS;
  for (const name of Object.keys(params)) {
    if (name.length > maxLength || checked.get(name) === name) continue;
    const member = checked.get(foldCase(name));
    if (member !== undefined && name !== member)
      throw invalid(`params has a member with a name similar to ${member}`);
  }
}

/** Members by folded name. */
type CheckedMembers = { checked: ReadonlyMap<string, string>; maxLength: number };

function checkedMembers(method: string): CheckedMembers {
  const own = Object.hasOwn(CHECKED_BY_METHOD, method) ? CHECKED_BY_METHOD[method] : undefined;
  const names = [...CHECKED_ALWAYS, subjectMember(method), own];
  const checked = new Map(
    names.filter((name) => name !== undefined).map((name) => [foldCase(name), name]),
  );
  return { checked, maxLength: Math.max(...Array.from(checked.keys(), ({ length }) => length)) };
}

const CHECKED: ReadonlyMap<string, CheckedMembers> = new Map(
  [...Object.keys(SUBJECTS), ...Object.keys(CHECKED_BY_METHOD)].map((method) => [
    method,
    checkedMembers(method),
  ]),
);
const CHECKED_OF_OTHERS = checkedMembers('');

/** Upper case first: the long s (ſ) then becomes an s. */
function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function isSubscription({ method }: Pick<Message, 'method'>): boolean {
  return method === 'subscriptions/listen';
}

/** False for notifications, which have no id. */
export function isRequest({ id, method }: Message): boolean {
  return method !== undefined && id !== undefined;
}

/** The value that `Mcp-Name` repeats; undefined if there is none or it is not a string. */
export function subjectOf({ method = '', params = {} }: Message): string | undefined {
  const subject = params[subjectMember(method) ?? ''];
  return typeof subject === 'string' ? subject : undefined;
}

/** Whether `Mcp-Name` has a meaning for this method. */
export function hasSubject({ method = '' }: Message): boolean {
  return subjectMember(method) !== undefined;
}

function subjectMember(method: string): string | undefined {
  return Object.hasOwn(SUBJECTS, method) ? SUBJECTS[method] : undefined;
}

function isMethod(method: unknown): boolean {
  return typeof method === 'string' && method !== '';
}

function isId(id: unknown): id is MessageId {
  return typeof id === 'string' || Number.isFinite(id) || isRawJSON(id);
}

/** Servers that keep ids as text answer the id 1 with "1", which SDKs accept. */
export function isSameId(one: unknown, other: unknown): boolean {
  return isId(one) && isId(other) && idText(one) === idText(other);
}

export function idText(id: MessageId): string {
  return isRawJSON(id) ? id.rawJSON : String(id);
}

function invalid(message: string): HttpError {
  return new HttpError(400, 'invalid_message', message);
}

// Responses

export type RpcError = { code: number; message: string; data?: object };

/** JSON-RPC 2.0 section 5.1. */
export const INTERNAL_ERROR = -32_603;
export const INVALID_PARAMS = -32_602;
/** JSON-RPC 2.0 section 5.1 reserves -32000 to -32099 for the server. */
export const SERVER_ERROR = -32_000;
/** The client did not declare what the request requires (MCP 2026-07-28). The HTTP status is 400. */
export const MISSING_CLIENT_CAPABILITY = -32_021;

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

export function errorResponse(id: unknown, error: object): Record<string, unknown> {
  return { jsonrpc: '2.0', ...(id === undefined ? {} : { id }), error };
}

/** An assistant reads a tool error and can explain it to the person. */
export function toolErrorResponse(id: unknown, text: string): Record<string, unknown> {
  const result = { resultType: 'complete', isError: true, content: [{ type: 'text', text }] };
  return { jsonrpc: '2.0', id, result };
}

/** Ends a stream of `subscriptions/listen` without an error (MCP 2026-07-28). */
export function subscriptionEnded(id: MessageId): object {
  const result = { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: id } };
  return { jsonrpc: '2.0', id, result };
}

const ERROR_CODES: Readonly<Record<string, number>> = {
  parse_error: -32_700,
  invalid_message: -32_600,
  method_not_found: -32_601,
  header_mismatch: -32_020,
};

/** The id of a single message, or undefined. The message may be invalid otherwise. */
export function idOf(body: unknown): MessageId | undefined {
  const { id } = membersOf(body);
  return isId(id) ? id : undefined;
}

/**
 * Responds with the HTTP status and, on MCP endpoints, a JSON-RPC error with the error code in `data`. It has the id of the request if that was
 * read, and otherwise none: MCP does not allow `null`.
 */
export function respondWithJsonRpcError(ctx: Koa.Context, error: HttpError): void {
  respondWithJson(ctx, error);
  if (!/^(\/connect\/[^/]+)?\/mcp$/.test(ctx.path)) return;
  const { messageId, upstreamError } = callOf(ctx) ?? {};
  const ownError = {
    code: ERROR_CODES[error.code] ?? SERVER_ERROR,
    message: error.message,
    data: { error: error.code },
  };
  ctx.body = errorResponse(messageId, upstreamError ?? ownError);
}

// Trace context in messages (MCP 2026-07-28, `_meta`; SEP-414)

const MAX_LINKS = 8;

/** Replaces the client's trace context by ours. Its `tracestate` is dropped, because it belongs to its `traceparent`. */
export function withTraceparent(message: Message, traceparent: string): Message {
  const { params = {} } = message;
  const meta = params['_meta'] ?? {};
  if (!isRequest(message) || !isObject(meta)) return message;
  const { tracestate: _dropped, ...kept } = meta;
  return { ...message, params: { ...params, _meta: { ...kept, traceparent } } };
}

/** The client's trace contexts. */
export function traceLinksIn(messages: readonly Message[]): SpanLink[] {
  return messages
    .slice(0, MAX_LINKS)
    .flatMap(({ params }) => parseTraceparent(membersOf(params?.['_meta'])['traceparent']));
}
