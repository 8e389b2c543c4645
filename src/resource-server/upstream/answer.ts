// The upstream's answer on its way to the caller: checked, filtered, and with none of the headers that are the upstream's own.
import { Readable } from 'node:stream';
import type { IncomingHttpHeaders } from 'node:http';
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import { isObject } from '../messages.ts';
import { badGateway } from './faults.ts';
import { requestContext } from '../../http/request-context.ts';

export type Answered = {
  statusCode: number;
  headers: IncomingHttpHeaders;
  body: AsyncIterable<Buffer>;
};

export type AnswerOptions = {
  /** Whether the call holds a request, and not only notifications. */
  isAnswerDue: boolean;
  /** Bytes. */
  limit: number;
  /** A message as the caller may have it: the same object when nothing is changed, undefined when it is dropped. */
  pass: (message: unknown) => Promise<unknown>;
  bindSession: (id: string) => string;
  /** Turns the body of a stream into what the caller gets. */
  stream: (body: AsyncIterable<Buffer>) => AsyncIterable<string>;
};

const METHODS = ['GET', 'POST', 'DELETE'];
const SESSION_ID = /^[\x21-\x7e]{1,512}$/;
const REVISION = /^[\w.-]{1,40}$/;

/** Resolves when the answer is there (false) or its stream has begun (true). Throws HttpError. */
export async function answerWith(
  ctx: Koa.Context,
  answered: Answered,
  options: AnswerOptions,
): Promise<boolean> {
  const { statusCode: status, headers, body } = answered;
  refuseForeign(answered);
  const kind = headers['content-type']?.split(';', 1)[0]?.trim().toLowerCase();
  if (status === 200 && kind === 'text/event-stream') {
    passHeaders(ctx, headers, options);
    answerWithStream(ctx, options.stream(body));
    return true;
  }
  const text = await readBounded(body, options.limit);
  if (status >= 400) throw refusalBy(ctx, status, headers, rpcError(kind, text));
  passHeaders(ctx, headers, options);
  const isEmpty = ctx.method === 'DELETE' || (ctx.method === 'POST' && !options.isAnswerDue);
  if (isEmpty) answerWithNothing(ctx, status);
  else if (kind === 'application/json' && ctx.method === 'POST')
    answerWithText(ctx, status, await passText(text, options.pass));
  else throw badGateway(new Error(`the upstream answered ${status} with ${kind ?? 'nothing'}`));
  return false;
}

/** Redirects are not followed. A 401 would send the caller, whose token is good, to sign in again. */
function refuseForeign({ statusCode: status }: Answered): void {
  const isForeign = status < 200 || (status >= 300 && status < 400) || status >= 500;
  if (isForeign || status === 401 || status === 407)
    throw badGateway(new Error(`the upstream answered ${status}`));
}

function passHeaders(
  ctx: Koa.Context,
  headers: IncomingHttpHeaders,
  { bindSession }: AnswerOptions,
): void {
  const { 'mcp-session-id': session, 'mcp-protocol-version': revision } = headers;
  if (session !== undefined) {
    if (typeof session !== 'string' || !SESSION_ID.test(session))
      throw badGateway(new Error('the upstream gave out a session id that is none'));
    ctx.set('Mcp-Session-Id', bindSession(session));
  }
  if (typeof revision === 'string' && REVISION.test(revision))
    ctx.set('MCP-Protocol-Version', revision);
}

function answerWithStream(ctx: Koa.Context, events: AsyncIterable<string>): void {
  ctx.status = 200;
  ctx.type = 'text/event-stream';
  ctx.set('Cache-Control', 'no-cache, no-transform');
  ctx.set('X-Accel-Buffering', 'no');
  ctx.body = Readable.from(events);
  // The first event may be long in coming, and the client waits for the status.
  ctx.flushHeaders();
}

function answerWithText(ctx: Koa.Context, status: number, text: string): void {
  ctx.type = 'application/json';
  ctx.status = status;
  ctx.set('Cache-Control', 'no-store');
  ctx.body = text;
}

function answerWithNothing(ctx: Koa.Context, status: number): void {
  ctx.body = null;
  ctx.status = status === 200 && ctx.method === 'POST' ? 202 : status;
}

async function readBounded(body: AsyncIterable<Buffer>, limit: number): Promise<string> {
  const chunks: Buffer[] = [];
  let received = 0;
  for await (const chunk of body) {
    received += chunk.length;
    if (received > limit)
      throw badGateway(new Error(`the answer of the upstream is larger than ${limit} bytes`));
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** As it was sent, unless something is left out of it. */
async function passText(text: string, pass: AnswerOptions['pass']): Promise<string> {
  const parsed: unknown = JSON.parse(text);
  const messages: unknown[] = Array.isArray(parsed) ? parsed : [parsed];
  if (messages.length === 0 || !messages.every(isMessage))
    throw badGateway(new Error('the upstream answered with something that is no JSON-RPC message'));
  const passed = await passAll(messages, pass);
  if (passed.length === 0)
    throw badGateway(new Error('the upstream answered with nothing that is for the caller'));
  if (isUnchanged(passed, messages)) return text;
  return JSON.stringify(Array.isArray(parsed) ? passed : passed[0]);
}

/** Without the messages that are dropped. */
export async function passAll(
  messages: readonly unknown[],
  pass: AnswerOptions['pass'],
): Promise<unknown[]> {
  const passed = [];
  for (const message of messages) passed.push(await pass(message));
  return passed.filter((message) => message !== undefined);
}

export function isUnchanged(passed: readonly unknown[], messages: readonly unknown[]): boolean {
  return passed.length === messages.length && passed.every((message, n) => message === messages[n]);
}

function isMessage(value: unknown): boolean {
  return (
    isObject(value) &&
    value['jsonrpc'] === '2.0' &&
    ['result', 'error', 'method'].some((name) => name in value)
  );
}

type RpcError = { code: number; message: string; data?: unknown };

/** What a refusal says in the words of MCP, such as which revisions there are; undefined when it says something else. */
function rpcError(kind: string | undefined, text: string): RpcError | undefined {
  if (kind !== 'application/json') return undefined;
  try {
    const { error } = JSON.parse(text) as { error?: Partial<RpcError> };
    const { code, message, data } = error ?? {};
    if (typeof code !== 'number' || typeof message !== 'string') return undefined;
    return { code, message, ...(data === undefined ? {} : { data }) };
  } catch {
    return undefined;
  }
}

function refusalBy(
  ctx: Koa.Context,
  status: number,
  headers: IncomingHttpHeaders,
  error: RpcError | undefined,
): HttpError {
  const allowed = METHODS.filter((method) => headers.allow?.includes(method)).join(', ');
  const retryAfter = /^\d{1,6}$/.exec(headers['retry-after'] ?? '')?.[0];
  if (error) requestContext(ctx).jsonRpc = { ...requestContext(ctx).jsonRpc, error };
  return new HttpError(
    status,
    'refused_upstream',
    'the MCP server behind this address refused the request',
    {
      headers: {
        ...(status === 405 && allowed ? { Allow: allowed } : {}),
        ...(retryAfter ? { 'Retry-After': retryAfter } : {}),
      },
    },
  );
}
