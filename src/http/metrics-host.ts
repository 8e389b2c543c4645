import Koa from 'koa';
import type { Logger } from 'pino';
import type { Metrics } from '../observability/metrics.ts';
import { requireOriginForm } from './canonical-host.ts';
import { methodNotAllowed } from './errors.ts';
import { handleErrors, healthResponder, isHealthCheck, securityHeaders } from './host.ts';

export const METRICS_PATH = '/metrics';

export type MetricsHostOptions = {
  metrics: Metrics;
  logger: Logger;
  isReady: () => Promise<object>;
};

/**
 * The app of a listener that serves only metrics, for processes without the management role. It has no authentication, and accepts any
 * `Host`, because collectors use IP addresses.
 */
export function metricsApp({ metrics, logger, isReady }: MetricsHostOptions): Koa {
  const app = new Koa();
  app.on('error', (error: Error) => logger.debug({ err: error }, 'response not delivered'));
  const headers = securityHeaders('http:');
  const respondWithHealth = healthResponder({ isReady });
  app.use(function metricsHost(ctx, next) {
    requireOriginForm(ctx);
    ctx.set(headers);
    return isHealthCheck(ctx) ? respondWithHealth(ctx) : next();
  });
  app.use(handleErrors({}));
  app.use(serveMetrics(metrics));
  return app;
}

/** Serves all metrics in the Prometheus text format. The caller authenticates. */
export function serveMetrics(metrics: Metrics): Koa.Middleware {
  return async function metricsEndpoint(ctx, next) {
    if (ctx.path !== METRICS_PATH) return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD')
      throw methodNotAllowed({ Allow: 'GET, HEAD' });
    const { type, text } = await metrics.read();
    ctx.set('Cache-Control', 'no-store');
    ctx.type = type;
    ctx.body = text;
  };
}
