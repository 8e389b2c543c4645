import type Koa from 'koa';
import { refusalReasons } from '../observability/labels.ts';
import {
  parseTraceparent,
  serverAttributes,
  type Span,
  type Traces,
  withActiveSpan,
} from '../observability/tracing.ts';
import { outcomeOf, requestContext, whenClosed } from './request-context.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
const REASONS: ReadonlySet<unknown> = new Set(refusalReasons);

/**
 * Traces each request as one span, named by method and route, because paths contain ids (OpenTelemetry, HTTP server spans). Links the
 * `traceparent` of the request and does not continue it: clients must not choose which requests are traced, and a proxy forwards theirs.
 */
export function traceRequests(host: string, url: string, traces: Traces): Koa.Middleware {
  const attributes = { ...serverAttributes(url), 'gatehouse.host': host };
  return async function requestSpan(ctx, next) {
    const method = METHODS.includes(ctx.method) ? ctx.method : '_OTHER';
    const span = traces.startRequest({
      name: nameOf(method),
      attributes: { ...attributes, 'http.request.method': method },
      links: parseTraceparent(ctx.req.headers.traceparent),
    });
    requestContext(ctx).span = span;
    whenClosed(ctx, () => finish(ctx, method, span));
    await withActiveSpan(span, next);
  };
}

function nameOf(method: string): string {
  return method === '_OTHER' ? 'HTTP' : method;
}

function finish(ctx: Koa.Context, method: string, span: Span): void {
  const { status, reason } = outcomeOf(ctx);
  const { requestId, route = ctx['_matchedRoute'] as unknown } = requestContext(ctx);
  if (typeof route === 'string') {
    span.updateName(`${nameOf(method)} ${route}`);
    span.setAttributes({ 'http.route': route });
  }
  span.setAttributes({
    'http.response.status_code': status,
    'gatehouse.request_id': String(requestId),
  });
  const known = REASONS.has(reason) ? String(reason) : 'other';
  if (reason !== undefined) span.setAttributes({ 'gatehouse.reason': known });
  if (status >= 500) span.setError(reason === undefined ? String(status) : known);
  span.end();
}

/** Returns the ids for the request's log line; nothing without traces. */
export function spanIds(ctx: Koa.Context): { trace_id?: string; span_id?: string } {
  const { span } = requestContext(ctx);
  return span ? { trace_id: span.traceId, span_id: span.spanId } : {};
}
