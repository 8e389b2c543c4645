import type Koa from 'koa';
import type { Span } from '../observability/tracing.ts';
import type { ManagementRole } from '../settings/management-roles.ts';

/** Who uses management: `by` is `key:<name>` or `account:<id>`, as in the audit log. */
export type Manager = { by: string; role: ManagementRole };

/**
 * What a request of any host leaves for its log line, its metrics, its rate limits and its error response. Calls (`gateway/call.ts`) and requests
 * of the engine (`oauth/engine/engine-request.ts`) have an object of their own beside it.
 */
export type RequestContext = {
  /** Twelve characters; also sent as `X-Request-Id` and shown on error pages. */
  requestId: string;
  /** The client's IP address, as the proxies in front report it. */
  address: string;
  /** Present when traces are on. */
  span?: Span;
  /** The path of the route with its parameters, if no router matched it. */
  route?: string;
  /** Why the request was refused or failed. `code` is the error code; `cause` and `logLevel` are for the log only. */
  failure?: {
    code: string;
    /** The error code that another server answered with, or why it could not be reached. */
    remoteCode?: string | undefined;
    detail?: string | undefined;
    cause?: unknown;
    logLevel?: 'info' | 'warn' | 'error';
  };
  /** The OAuth client, once the engine authenticated it. */
  clientId?: string | undefined;
  /** `ui_locales` of the authorization request. It takes precedence over the query. */
  uiLocales?: unknown;
  /** The request named another host: where the same page is. */
  rightAddress?: string;
  /** Set once the management host authenticated the request. */
  manager?: Manager;
  /** Names and values in turn, of headers that the response does not have yet. */
  deferredHeaders?: string[] | undefined;
  /** Bytes of the body of a call, once it was read. */
  receivedBytes?: number;
  /** Bytes of the body of a response that Koa does not send. */
  sentBytes?: number;
  /** The response is a stream of events whose headers were written with its status. */
  isEventStream?: boolean;
  /** What is called when the response has ended (`whenClosed`). */
  onClosed?: (() => void)[];
};

/** Call it before any other step. All these members are there from the beginning: adding them one by one takes longer, and memory for each. */
export function beginRequestContext(ctx: Pick<Koa.Context, 'state'>): void {
  const members: Record<keyof RequestContext, unknown> = {
    requestId: '',
    address: '',
    span: undefined,
    route: undefined,
    failure: undefined,
    clientId: undefined,
    uiLocales: undefined,
    rightAddress: undefined,
    manager: undefined,
    deferredHeaders: undefined,
    receivedBytes: undefined,
    sentBytes: undefined,
    isEventStream: undefined,
    onClosed: undefined,
  };
  ctx.state = members;
}

/** The only access to `ctx.state`, which Koa leaves untyped. Host middleware sets `requestId` and `address`. */
export function requestContext(ctx: Pick<Koa.Context, 'state'>): RequestContext {
  return ctx.state as RequestContext;
}

/** Calls `end` when the response ends, or its connection; never if that happened before. One listener calls all, in order: to add one for each takes longer than most of what they do. */
export function whenClosed(ctx: Koa.Context, end: () => void): void {
  const context = requestContext(ctx);
  if (context.onClosed) return void context.onClosed.push(end);
  context.onClosed = [end];
  ctx.res.on('close', () => {
    for (const each of context.onClosed ?? []) each();
  });
}

/** Call it for a response that lasts. An array that grew has room for sixteen more; a copy has none. */
export function trimClosed(ctx: Koa.Context): void {
  const context = requestContext(ctx);
  if (context.onClosed) context.onClosed = context.onClosed.slice();
}

/** As nginx logs it: the client disconnected before the response began. */
const CLIENT_GONE_STATUS = 499;

/** The status and the error code of a request that has ended, for its log line, metrics and span. */
export function outcomeOf(ctx: Koa.Context): { status: number; reason: string | undefined } {
  const { failure } = requestContext(ctx);
  if (ctx.res.headersSent) return { status: ctx.res.statusCode, reason: failure?.code };
  return { status: CLIENT_GONE_STATUS, reason: failure?.code ?? 'client_gone' };
}
