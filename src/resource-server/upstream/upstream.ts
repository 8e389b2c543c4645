// The operator's own MCP server as what answers calls: each is judged here, and sent on with who calls in place of the token.
import type Koa from 'koa';
import type { Logger } from 'pino';
import { Pool } from 'undici';
import { HttpError, methodNotAllowed } from '../../http/errors.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import type { SigningKey } from '../../keys/signing-keys.ts';
import { tracedRequest } from '../../observability/tracing.ts';
import { isRecorded } from '../../permission-level.ts';
import type { UpstreamSettings } from '../../settings/schema.ts';
import type { Answering, CheckedCall } from '../answering.ts';
import { type RecordCall, UNRECORDED } from '../call-record.ts';
import { type Caller, highestNeeded } from '../level.ts';
import { plainValues } from '../messages.ts';
import type { Room } from '../open-call-limits.ts';
import type { CallKind, OpenCalls } from '../open-calls.ts';
import { callerHeader } from './caller-header.ts';
import { type Body, exchange, type ExchangeOptions, type Outbound } from './exchange.ts';
import { openHandles } from './handles.ts';
import { isRequest, isSubscription, type Message, requireMessages } from './message.ts';
import { levelRules, neededBy } from './needed-level.ts';
import { openParameterHeaders } from './parameter-headers.ts';
import { failuresFor, refusalOf } from './refusals.ts';
import { outboundHeaders } from './request-headers.ts';
import { withOwnState } from './request-state.ts';
import { filterMessage } from './response-filter.ts';
import { NO_TASKS, speaksOfTasks, type Tasks, withoutForeignTask } from './tasks.ts';
import { linksIn, withTraceparent } from './trace-context.ts';
import { requestContext } from '../../http/request-context.ts';

export type UpstreamOptions = {
  upstream: UpstreamSettings;
  issuer: string;
  productName: string;
  version: string;
  /** Bind the upstream's handles to their owners. */
  handleKeys: KeyRing;
  tasks: Tasks;
  signingKey: () => SigningKey;
  record: RecordCall;
  calls: OpenCalls;
  room: Room;
  logger: Logger;
  /** Seconds since the epoch. */
  now: () => number;
};

const METHODS = ['GET', 'POST', 'DELETE'] as const;

type Parts = ReturnType<typeof partsOf>;

export function openUpstream(options: UpstreamOptions): Answering {
  const pool = new Pool(new URL(options.upstream.url).origin, { allowH2: false });
  const parts = partsOf(options, pool);
  return {
    neededLevel: (body) => highestNeeded(body, (message) => neededBy(parts.rules, message)),
    answer: (ctx, call) => answer(ctx, call, options, parts),
    end: (kind) => options.calls.end(kind),
    close: () => pool.destroy(),
  };
}

function partsOf(
  { upstream, issuer, handleKeys, signingKey, logger, now }: UpstreamOptions,
  pool: Pool,
) {
  const { url, timeout, silence, maxAnswerBytes } = upstream;
  const send = senderTo(url, pool);
  const exchanging: ExchangeOptions = { send, timeout, silence, maxAnswerBytes, logger };
  return {
    rules: levelRules(upstream),
    handles: openHandles(handleKeys, url),
    parameterHeaders: openParameterHeaders(),
    headerOf: callerHeader({ issuer, audience: url, signingKey, now }),
    exchanging,
  };
}

/** In a span of its own where traces are on; then the upstream is told which (W3C Trace Context). */
function senderTo(url: string, pool: Pool): ExchangeOptions['send'] {
  const { pathname, search } = new URL(url);
  const unlimited = { headersTimeout: 0, bodyTimeout: 0, path: pathname + search };
  return ({ method, headers, body, signal, links }: Outbound) =>
    tracedRequest(
      { peer: 'upstream', method, url, links },
      (span) =>
        pool.request({
          ...unlimited,
          method,
          signal,
          headers: span ? { ...headers, traceparent: span.traceparent } : headers,
          ...(body ? { body: body(span?.traceparent) } : {}),
        }),
      ({ statusCode }) => statusCode,
    );
}

async function answer(
  ctx: Koa.Context,
  { caller, body, requireStillGood }: CheckedCall,
  options: UpstreamOptions,
  parts: Parts,
): Promise<void> {
  const method = requireMethod(ctx);
  const messages = method === 'POST' ? requirePosted(ctx, body) : [];
  if (messages.length === 1) requestContext(ctx).jsonRpc = { id: messages[0]?.id };
  const { rules, handles, parameterHeaders, headerOf, exchanging } = parts;
  const headers = outboundHeaders(
    { headers: ctx.req.headers, messages },
    {
      handles,
      parameterHeaders,
      caller,
      signedCaller: await headerOf(caller),
      version: options.version,
    },
  );
  const { productName, tasks } = options;
  const ownTasks = messages.some(speaksOfTasks) ? await tasks.idsOf(caller) : NO_TASKS;
  const refused = refusalOf({ rules, productName, handles, ownTasks }, caller, messages);
  if (refused) return answerHere(ctx, body, refused);
  const kind = kindOf(method, messages);
  const leave = options.room.take(caller, kind === 'listening');
  const unwritten = await unrecorded(options, parts, caller, messages);
  if (unwritten) {
    leave();
    return answerHere(ctx, body, unwritten);
  }
  const sent = messages.map((message) =>
    withOwnState(handles, caller, withoutForeignTask(ownTasks, message)),
  );
  const isListening = method === 'GET' || messages.some(isSubscription);
  const filter = { rules, caller, tasks, ownTasks, handles, parameterHeaders, isListening };
  const open = options.calls.open(idsOf(caller), requireStillGood, kind);
  await exchange(ctx, exchanging, {
    method,
    headers,
    ...(method === 'POST' ? { body: textOf(body, sent) } : {}),
    links: linksIn(messages),
    messages,
    signal: open.signal,
    pass: (message) => filterMessage(filter, message),
    bindSession: (id) => handles.bind('session', caller, id),
    bindEvent: (id) => handles.bind('event', caller, id),
    end() {
      open.end();
      leave();
    },
  });
}

function requireMethod(ctx: Koa.Context): (typeof METHODS)[number] {
  const method = METHODS.find((name) => name === ctx.method);
  if (method) return method;
  throw methodNotAllowed({ Allow: METHODS.join(', ') });
}

/** The type keeps out forms of foreign web pages, which no browser asks about first. */
function requirePosted(ctx: Koa.Context, body: unknown): Message[] {
  if (ctx.is('application/json')) return requireMessages(body);
  throw new HttpError(415, 'invalid_request', 'send JSON (application/json)');
}

/** Written anew from what was judged: of two members with one name, a parser there might take the other one. */
function textOf(body: unknown, messages: readonly Message[]): Body {
  return (traceparent) => {
    const sent = traceparent
      ? messages.map((message) => withTraceparent(message, traceparent))
      : messages;
    return JSON.stringify(Array.isArray(body) ? sent : sent[0]);
  };
}

/** Answers to all requests when calls with the level `full` cannot be recorded; undefined when they are. */
async function unrecorded(
  { record, logger }: UpstreamOptions,
  { rules }: Parts,
  caller: Caller,
  messages: readonly Message[],
): Promise<object[] | undefined> {
  if (!isRecorded(caller.level)) return undefined;
  try {
    for (const message of messages) {
      const needed = neededBy(rules, message);
      if (needed) await record(entryFor(caller, needed.tool, message));
    }
    return undefined;
  } catch (error) {
    logger.error({ err: error }, 'a call could not be recorded');
    return failuresFor(messages, UNRECORDED);
  }
}

/** What is no tool goes by its method, with all that it asks for. */
function entryFor(caller: Caller, tool: string, { method, params = {} }: Message) {
  const given = method === 'tools/call' ? (params['arguments'] ?? {}) : params;
  return { caller, tool, arguments: plainValues(given), outcome: 'allowed' } as const;
}

function answerHere(ctx: Koa.Context, body: unknown, messages: object[]): void {
  ctx.set('Cache-Control', 'no-store');
  if (messages.length > 0) {
    ctx.body = Array.isArray(body) ? messages : messages[0];
    return;
  }
  ctx.body = null;
  ctx.status = 202;
}

/** Streams that nobody waits at the end of: all of a session's (GET), or a subscription. */
function kindOf(method: string, messages: readonly Message[]): CallKind {
  const requests = messages.filter(isRequest);
  const isListening = method === 'GET' || (requests.length > 0 && requests.every(isSubscription));
  return isListening ? 'listening' : 'working';
}

/** What is told to `OpenCalls` when it changes. */
function idsOf({ accountId, connector, grantId, tokenId }: Caller): string[] {
  return [accountId, connector, grantId, tokenId].filter((id) => id !== undefined);
}
