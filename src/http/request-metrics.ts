import type Koa from 'koa';
import type { Metrics } from '../observability/metrics.ts';
import { transientItems } from '../transient-items.ts';
import { outcomeOf, requestContext, whenClosed } from './request-context.ts';

/** Counts the requests of a host when their responses end, and its open event streams. Use it once for each host. */
export function requestCounter(host: string, metrics: Metrics): (ctx: Koa.Context) => void {
  const open = transientItems<Koa.Context>();
  metrics.watchStreams(host, () => [...open].filter(isStream).length);
  return (ctx) => {
    const started = performance.now();
    const added = open.add(ctx);
    whenClosed(ctx, () => {
      open.remove(added);
      const seconds = isStream(ctx) ? undefined : (performance.now() - started) / 1000;
      const { status, reason } = outcomeOf(ctx);
      metrics.request(host, status, seconds);
      if (reason !== undefined) metrics.refusal(host, reason);
    });
  };
}

function isStream(ctx: Koa.Context): boolean {
  const { res } = ctx;
  if (requestContext(ctx).isEventStream) return true;
  return res.headersSent && String(res.getHeader('content-type')).startsWith('text/event-stream');
}
