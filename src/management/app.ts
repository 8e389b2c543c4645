// The management host: a listener of its own, on loopback unless an operator says otherwise, where connectors and tokens are made and revoked and keys rotated.
import type Koa from 'koa';
import type { Logger } from 'pino';
import { createHost } from '../http/host.ts';
import { answerMetrics, METRICS_PATH } from '../http/metrics.ts';
import type { SecretGuard } from '../http/secret-guard.ts';
import type { Metrics } from '../observability/metrics.ts';
import { refuseForeignOrigin, requireAdministrator } from './administrator.ts';
import { managementApi } from './api.ts';
import { PREFIX } from './mounted-routes.ts';
import type { ManagementTools } from './route.ts';

export type ManagementOptions = Omit<ManagementTools, 'by' | 'now'> & {
  /** The public base address of this host. */
  url: string;
  version: string;
  /** What an administrator sends as bearer token. */
  key: string;
  /** Bounds how often a wrong one may be tried. */
  guardKey: SecretGuard;
  logger: Logger;
  metrics?: Metrics;
  isReady: () => Promise<void>;
  /** How many trusted proxies stand in front. */
  proxies?: number;
  /** Seconds since the epoch. */
  now?: () => number;
};

const epochSeconds = () => Math.floor(Date.now() / 1000);

export function managementApp(options: ManagementOptions): Koa {
  const { url, version, key, guardKey, logger, metrics, isReady } = options;
  const { proxies = 0, now = epochSeconds } = options;
  const app = createHost({ name: 'management', url, proxies, logger, metrics, isReady });
  const administrator = requireAdministrator(key, guardKey);
  app.use(refuseForeignOrigin(url));
  app.use(within(PREFIX, administrator));
  if (metrics) app.use(within(METRICS_PATH, administrator)).use(answerMetrics(metrics));
  app.use(managementApi({ ...options, now }, url, version).routes());
  return app;
}

/** Routes match the same raw path in the same case, so none under `prefix` is reached without the step. */
function within(prefix: string, step: Koa.Middleware): Koa.Middleware {
  return function prefixed(ctx, next) {
    const isWithin = ctx.path === prefix || ctx.path.startsWith(`${prefix}/`);
    return isWithin ? step(ctx, next) : next();
  };
}
