// The JSON-RPC messages of a call (JSON-RPC 2.0), rebuilt from what was understood, so that the upstream reads them as we did.
import { HttpError } from '../../http/errors.ts';
import { isObject, membersOf } from '../messages.ts';

export type MessageId = string | number;

/** A request, a notification, or the client's answer to a request of the upstream. */
export type Message = {
  jsonrpc: '2.0';
  id?: MessageId;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
  error?: unknown;
};

/** What a request is about, by method: the header `Mcp-Name` repeats it (MCP 2026-07-28, Streamable HTTP). */
const SUBJECTS: Readonly<Record<string, string>> = {
  'tools/call': 'name',
  'prompts/get': 'name',
  'resources/read': 'uri',
  'tasks/get': 'taskId',
  'tasks/result': 'taskId',
  'tasks/update': 'taskId',
  'tasks/cancel': 'taskId',
};

/** What else is judged in `params`, besides the subject. */
const JUDGED_ALWAYS = ['_meta', 'requestState'];
const ALSO_JUDGED: Readonly<Record<string, string>> = {
  'tools/call': 'arguments',
  'subscriptions/listen': 'notifications',
};

/** One, or those of a batch. Throws HttpError 400. */
export function requireMessages(body: unknown): Message[] {
  if (body === undefined) throw new HttpError(400, 'parse_error', 'the body is not JSON');
  const messages = Array.isArray(body) ? body : [body];
  if (messages.length === 0) throw invalid('the batch is empty');
  return messages.map(requireMessage);
}

function requireMessage(given: unknown): Message {
  const { jsonrpc, id, method, params, result, error } = membersOf(given);
  const isAnswer = id !== undefined && (result !== undefined || error !== undefined);
  const isKnown = jsonrpc === '2.0' && (method === undefined ? isAnswer : isMethod(method));
  if (!isKnown) throw invalid('this is no JSON-RPC 2.0 message');
  if (!isId(id)) throw invalid('the id of a message is text or a number');
  if (params !== undefined && !isObject(params)) throw invalid('params is an object in MCP');
  if (params) refuseAmbiguous(String(method), params);
  if (method === 'tools/call' && typeof params?.['name'] !== 'string')
    throw invalid('the name of a tool is text');
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

/** Some parsers take member names in any case: they would call another tool, or one with other arguments, than was judged and recorded. */
function refuseAmbiguous(method: string, params: Record<string, unknown>): void {
  const also = Object.hasOwn(ALSO_JUDGED, method) ? ALSO_JUDGED[method] : undefined;
  const names = [...JUDGED_ALWAYS, subjectMember(method), also];
  const judged = new Map(
    names.filter((name) => name !== undefined).map((name) => [folded(name), name]),
  );
  const longest = Math.max(...Array.from(judged.keys(), ({ length }) => length));
  for (const name of Object.keys(params)) {
    const member = name.length > longest ? undefined : judged.get(folded(name));
    if (member !== undefined && name !== member)
      throw invalid(`params has something that only looks like ${member}`);
  }
}

/** Upwards first, which is how the long s becomes an s. */
function folded(name: string): string {
  return name.toUpperCase().toLowerCase();
}

export function isSubscription({ method }: Message): boolean {
  return method === 'subscriptions/listen';
}

/** A request wants an answer; a notification has no id. */
export function isRequest({ id, method }: Message): boolean {
  return method !== undefined && id !== undefined;
}

/** Undefined when the request has none, or none that is text. */
export function subjectOf({ method = '', params = {} }: Message): string | undefined {
  const subject = params[subjectMember(method) ?? ''];
  return typeof subject === 'string' ? subject : undefined;
}

/** Whether `Mcp-Name` means anything on this request. */
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
