// A listener for metrics alone, for processes without the management role: whoever can reach it may read.
import Koa from 'koa';
import type { Logger } from 'pino';
import type { Metrics } from '../observability/metrics.ts';
import { requireOriginForm } from './canonical-host.ts';
import { handleErrors, serveHealth, securityHeaders } from './host.ts';
import { serveMetrics } from './metrics.ts';

export type MetricsHostOptions = {
  metrics: Metrics;
  logger: Logger;
  isReady: () => Promise<void>;
};

/** Answers for any host: those who read metrics come by address, as probes do. */
export function metricsApp({ metrics, logger, isReady }: MetricsHostOptions): Koa {
  const app = new Koa();
  app.on('error', (error: Error) => logger.debug({ err: error }, 'response not delivered'));
  app.use(requireOriginForm);
  app.use(securityHeaders('http:'));
  app.use(serveHealth({ isReady }));
  app.use(handleErrors({}));
  app.use(serveMetrics(metrics));
  return app;
}
