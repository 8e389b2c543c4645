// Validates and filters the responses of the upstream, and forwards them.
import type { IncomingHttpHeaders } from 'node:http';
import type Koa from 'koa';
import { addHeader, sendPieces } from '../../http/deferred-headers.ts';
import { HttpError } from '../../http/errors.ts';
import type { AuthenticatedCall } from '../call.ts';
import { type InBandError, limitReached } from '../in-band-error.ts';
import type { MessageId, RpcError } from '../json-rpc.ts';
import { releaseMemory } from './body-memory.ts';
import { isRefused, type WholeResponse } from './exchange.ts';
import { filterAll, type MessageFilter } from './filter.ts';
import { badGateway } from './gateway-errors.ts';
import { nextTurn } from '../event-loop.ts';
import { LARGE_MESSAGE, NOTHING_UNREAD, readLargeBody, withUnread } from './large-messages.ts';
import {
  isResponse,
  matchResponses,
  mediaType,
  readMessages,
  type RpcMessage,
  requireIdentity,
  writeMessages,
} from './messages.ts';
import { printable } from '../../printable-text.ts';
import { findsParts, refusesHost } from './quoting.ts';

export type ResponseOptions = MessageFilter & {
  /** Empty if the client sent only notifications and responses. */
  readonly requestIds: readonly MessageId[];
  /** To messages of the batch that were not forwarded. */
  readonly localResponses: readonly RpcMessage[];
  /** Headers that were sent. What repeats a part of one is not logged. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Called with each response as the upstream sent it, once it is certain to be passed on. */
  onAnswer(message: RpcMessage): void;
  bindSession(id: string): string;
  /** Throws if the call has ended. */
  requireActive(): void;
};

const ALLOWED_METHODS = ['GET', 'POST', 'DELETE'];
/** JWTs, and the state of gateways, take more than half a kilobyte. Node reads 16 kB of headers. */
const SESSION_ID = /^[\x21-\x7e]{1,4096}$/;
const REVISION = /^[\w.-]{1,40}$/;

/** Validates and filters the upstream's response, and forwards it without the upstream's own headers: at once if it has no body. Throws HttpError. */
export function forwardResponse(
  call: AuthenticatedCall,
  response: WholeResponse,
  options: ResponseOptions,
): Promise<void> | undefined {
  const { ctx } = call;
  const { status, headers } = response;
  const { localResponses } = options;
  if (status === 429) throw upstreamLimit(headers);
  if (isRefused(status)) {
    const cause = new Error(`the upstream answered ${status}`);
    const retryAfter = status === 503 ? retryAfterOf(headers) : undefined;
    throw retryAfter === undefined ? badGateway(cause) : upstreamBusy(cause, retryAfter);
  }
  const kind = mediaType(headers['content-type']);
  if (MISLEADING_STATUSES.has(status))
    throw refusedGatehouse(call, status, headers, response.body, options);
  if (status >= 400) throw upstreamRefusal(call, status, headers, rpcError(kind, response.body));
  forwardHeaders(ctx, headers, options);
  const isEmpty =
    ctx.method === 'DELETE' || (ctx.method === 'POST' && options.requestIds.length === 0);
  if (isEmpty) {
    if (localResponses.length === 0) sendEmpty(ctx, status);
    else sendPieces(ctx, 200, [JSON.stringify(localResponses)], JSON_HEADERS);
    return undefined;
  }
  requireIdentity(headers['content-encoding']);
  if (kind === 'application/json' && ctx.method === 'POST')
    return forwardBody(ctx, response, options);
  throw badGateway(new Error(`the upstream answered ${status} with ${kind ?? 'nothing'}`));
}

export function forwardHeaders(
  ctx: Koa.Context,
  headers: IncomingHttpHeaders,
  options: Pick<ResponseOptions, 'bindSession'>,
): void {
  const { 'mcp-session-id': session, 'mcp-protocol-version': revision } = headers;
  // An empty one is that of a server without sessions.
  if (session !== undefined && session !== '') {
    if (typeof session !== 'string' || !SESSION_ID.test(session))
      throw badGateway(new Error('the upstream issued an invalid session id'));
    addHeader(ctx, 'Mcp-Session-Id', options.bindSession(session));
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

const NOTHING = Buffer.alloc(0);

async function forwardBody(
  ctx: Koa.Context,
  response: WholeResponse,
  options: ResponseOptions,
): Promise<void> {
  const { status, body, ownsBody } = response;
  const { pieces, answers } = await filterBody(response, options);
  // The filter may have waited for the store.
  options.requireActive();
  for (const answer of answers) options.onAnswer(answer);
  // Only when all is written: before, the system may still read it.
  if (ownsBody) ctx.res.once('finish', () => releaseMemory(body));
  sendPieces(ctx, status, pieces, JSON_HEADERS);
}

/** Serializes what was filtered, so that a member that occurs twice cannot hide another value from the filter. */
async function filterBody(
  response: WholeResponse,
  options: ResponseOptions,
): Promise<{ pieces: (string | Buffer)[]; answers: RpcMessage[] }> {
  const { length } = response.body;
  const { messages, isBatch, unread } =
    length > LARGE_MESSAGE
      ? await readLargeBody(response.body, () => options.requireActive())
      : { ...readMessages(response.body), unread: NOTHING_UNREAD };
  // Only the values are needed from now on.
  response.body = NOTHING;
  const received = matchResponses(messages, options.requestIds);
  const filtering = filterAll(received, options);
  const filtered = filtering instanceof Promise ? await filtering : filtering;
  if (filtered.length === 0)
    throw badGateway(new Error('the response of the upstream has no message for this caller'));
  const turnToWrite = nextTurn(length);
  if (turnToWrite) await turnToWrite;
  const { localResponses } = options;
  const text = writeMessages({
    messages: [...filtered, ...localResponses],
    isBatch: isBatch || localResponses.length > 0,
  });
  return { pieces: withUnread(text, unread), answers: received.filter(isResponse) };
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
  call: AuthenticatedCall,
  status: number,
  headers: IncomingHttpHeaders,
  error: ErrorObject | undefined,
): HttpError {
  const allowed = ALLOWED_METHODS.filter((method) => headers.allow?.includes(method)).join(', ');
  const retryAfter = retryAfterOf(headers);
  if (error) call.upstreamError = error;
  return new HttpError(
    status,
    'refused_upstream',
    'the MCP server behind this address refused the request',
    {
      headers: {
        ...(status === 405 && allowed ? { Allow: allowed } : {}),
        ...(retryAfter === undefined ? {} : { 'Retry-After': String(retryAfter) }),
      },
    },
  );
}

/** Statuses that have another meaning on a connect link: sign in again, the link is gone, the address is wrong. */
const MISLEADING_STATUSES: ReadonlySet<number> = new Set([403, 410, 421]);

const MAX_WORDS_BYTES = 1000;

/** The upstream refuses Gatehouse, or wants a level that this person can grant. */
function refusedGatehouse(
  call: AuthenticatedCall,
  status: number,
  headers: IncomingHttpHeaders,
  body: Buffer,
  options: Pick<ResponseOptions, 'secrets'>,
): HttpError {
  const challenge = String(headers['www-authenticate'] ?? '');
  const [, scope = ''] = /\bscope="([^"]*)"/.exec(challenge) ?? [];
  if (status === 403 && /\berror="?insufficient_scope\b/.test(challenge)) {
    const stepUp = call.stepUpTo(scope);
    if (stepUp) return stepUp;
  }
  const words = body.toString('utf8', 0, MAX_WORDS_BYTES);
  const quote = findsParts(options.secrets)(words) ? '' : `: ${printable(words)}`;
  return badGateway(
    new Error(
      `the upstream answered ${status}${quote}${refusesHost(status, words) ? ' (see the setting host)' : ''}`,
    ),
    'the MCP server behind this address refused the request; its operator finds the reason in the log',
  );
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
