import type Koa from 'koa';
import type { Logger } from 'pino';
import { type RespondToError, respondWithJson } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { serveMetrics, METRICS_PATH } from '../http/metrics-host.ts';
import type { Pages } from '../pages/pages.ts';
import { sendErrorPage } from '../pages/error-page.ts';
import type { AttemptLimiter } from '../http/failed-attempts.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Traces } from '../observability/tracing.ts';
import { refuseForeignOrigin, requireManagementKey } from './authenticate.ts';
import { managementApi } from './api/router.ts';
import { adminConsole, isConsolePath } from './console/console.ts';
import type { ConsoleSettings } from './console/context.ts';
import { API_PATH } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export type ManagementOptions = Omit<ManagementServices, 'by' | 'metrics' | 'now'> & {
  /** The public base address of this host. */
  url: string;
  version: string;
  /** The management key. Sent as a bearer token. */
  key: string;
  /** Limits attempts with wrong keys. */
  guardKey: AttemptLimiter;
  logger: Logger;
  metrics: Metrics;
  traces?: Traces | undefined;
  isReady: () => Promise<void>;
  /** Without it there is no console. */
  console?: ConsoleSettings;
  /** Number of trusted proxies in front of this host. */
  proxies?: number;
  /** Seconds since the epoch. */
  now?: () => number;
};

const epochSeconds = () => Math.floor(Date.now() / 1000);

export function managementApp(options: ManagementOptions): Koa {
  const { url, version, key, guardKey, logger, metrics, traces, isReady } = options;
  const { proxies = 0, now = epochSeconds } = options;
  const respondToError = options.console ? consoleErrors(options.console.pages) : respondWithJson;
  const listening = { name: 'management', url, proxies, logger, metrics, traces, isReady };
  const app = createHost({ ...listening, respondToError });
  const authenticate = requireManagementKey(key, guardKey);
  app.use(refuseForeignOrigin(url));
  app.use(within(API_PATH, authenticate));
  app.use(within(METRICS_PATH, authenticate)).use(serveMetrics(metrics));
  app.use(managementApi({ ...options, now }, url, version).routes());
  if (options.console) {
    app.use(options.console.pages.middleware);
    app.use(
      adminConsole({ ...options, ...options.console, isHttps: url.startsWith('https:'), now }),
    );
  }
  return app;
}

/** Renders errors as pages in the console and as JSON elsewhere. */
function consoleErrors(pages: Pages): RespondToError {
  return async function consoleError(ctx, error) {
    if (!isConsolePath(ctx.path)) return respondWithJson(ctx, error);
    const { about, status } = error;
    ctx.set(error.headers);
    await sendErrorPage(pages, ctx, { about, status, start: 'console' });
  };
}

/** Applies `middleware` to paths below `prefix`. The router matches the same raw, case-sensitive path, so no route bypasses it. */
function within(prefix: string, middleware: Koa.Middleware): Koa.Middleware {
  return function prefixed(ctx, next) {
    const isWithin = ctx.path === prefix || ctx.path.startsWith(`${prefix}/`);
    return isWithin ? middleware(ctx, next) : next();
  };
}
