// JSON-RPC 2.0 messages of the client: validated, and rebuilt from what was understood, so that the upstream reads them as we did.
import { HttpError } from '../../http/errors.ts';
import { parseTraceparent, type SpanLink } from '../../observability/tracing.ts';
import { isObject, membersOf } from '../json-rpc.ts';

export type MessageId = string | number;

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
  'tools/call': 'arguments',
  'subscriptions/listen': 'notifications',
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
  if (!isId(id)) throw invalid('the id of a message must be a string or a number');
  if (params !== undefined && !isObject(params)) throw invalid('params must be an object in MCP');
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

/** Some parsers ignore the case of member names: they would call another tool, or use other arguments, than we checked and recorded. */
function refuseAmbiguous(method: string, params: Record<string, unknown>): void {
  const own = Object.hasOwn(CHECKED_BY_METHOD, method) ? CHECKED_BY_METHOD[method] : undefined;
  const names = [...CHECKED_ALWAYS, subjectMember(method), own];
  const checked = new Map(
    names.filter((name) => name !== undefined).map((name) => [foldCase(name), name]),
  );
  const maxLength = Math.max(...Array.from(checked.keys(), ({ length }) => length));
  for (const name of Object.keys(params)) {
    const member = name.length > maxLength ? undefined : checked.get(foldCase(name));
    if (member !== undefined && name !== member)
      throw invalid(`params has a member whose name only looks like ${member}`);
  }
}

/** Upper case first: the long s (ſ) then becomes an s. */
function foldCase(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function isSubscription({ method }: Message): boolean {
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

function isId(id: unknown): boolean {
  return id === undefined || typeof id === 'string' || typeof id === 'number';
}

function invalid(message: string): HttpError {
  return new HttpError(400, 'invalid_message', message);
}

// Responses that we send in place of the upstream

export type RpcError = { code: number; message: string };

/** JSON-RPC 2.0 section 5.1. */
export const INTERNAL_ERROR = -32_603;
export const INVALID_PARAMS = -32_602;
/** -32000 to -32099 are reserved for the server. */
export const SERVER_ERROR = -32_000;

const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

export function errorResponse(id: unknown, error: RpcError): object {
  return { jsonrpc: '2.0', id: id ?? null, error };
}

/** An assistant reads a tool error and can explain it to the person. */
export function toolErrorResponse(id: unknown, text: string): object {
  const result = { resultType: 'complete', isError: true, content: [{ type: 'text', text }] };
  return { jsonrpc: '2.0', id, result };
}

/** Ends a stream of `subscriptions/listen` without an error (MCP 2026-07-28). */
export function subscriptionEnded(id: MessageId): object {
  const result = { resultType: 'complete', _meta: { [SUBSCRIPTION_ID]: id } };
  return { jsonrpc: '2.0', id, result };
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
