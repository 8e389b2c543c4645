// Where Prometheus reads metrics, and what every host counts for them.
import type { ServerResponse } from 'node:http';
import type Koa from 'koa';
import { upstreamFaults } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import { methodNotAllowed } from './errors.ts';
import { requestContext } from './request-context.ts';

export const METRICS_PATH = '/metrics';

/** In the text format; never cached, and for whoever got this far. */
export function serveMetrics(metrics: Metrics): Koa.Middleware {
  return async function metricsRead(ctx, next) {
    if (ctx.path !== METRICS_PATH) return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD')
      throw methodNotAllowed({ Allow: 'GET, HEAD' });
    const { type, text } = await metrics.read();
    ctx.set('Cache-Control', 'no-store');
    ctx.type = type;
    ctx.body = text;
  };
}

/** Counts every request of a host when its answer is over, and its streams while they are open. */
export function countRequests(host: string, metrics: Metrics): Koa.Middleware {
  const open = new Set<ServerResponse>();
  metrics.watchStreams(host, () => [...open].filter(isStream).length);
  return async function requestsCounted(ctx, next) {
    const started = performance.now();
    open.add(ctx.res);
    ctx.res.once('close', () => {
      open.delete(ctx.res);
      const seconds = isStream(ctx.res) ? undefined : (performance.now() - started) / 1000;
      metrics.request(host, ctx.res.statusCode, seconds);
      countRefusal(host, metrics, requestContext(ctx).failure?.code);
    });
    await next();
  };
}

function countRefusal(host: string, metrics: Metrics, reason: unknown): void {
  if (typeof reason !== 'string') return;
  metrics.refusal(host, reason);
  const fault = upstreamFaults.find((known) => known === reason);
  if (fault) metrics.upstreamError(fault);
}

function isStream(res: ServerResponse): boolean {
  return res.headersSent && String(res.getHeader('content-type')).startsWith('text/event-stream');
}
