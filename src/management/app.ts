import type Koa from 'koa';
import type { Logger } from 'pino';
import { type RespondToError, respondWithJson } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { answerMetrics, METRICS_PATH } from '../http/metrics.ts';
import type { Pages } from '../http/pages.ts';
import { renderRefusal } from '../http/refusal-page.ts';
import type { SecretGuard } from '../http/secret-guard.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Traces } from '../observability/spans.ts';
import { refuseForeignOrigin, requireAdministrator } from './authenticate.ts';
import { managementApi } from './api/router.ts';
import { adminConsole, isConsolePath } from './console/console.ts';
import type { ConsoleSettings } from './console/context.ts';
import { API_PATH } from './api/routes.ts';
import type { ManagementServices } from './services.ts';

export type ManagementOptions = Omit<ManagementServices, 'by' | 'now'> & {
  /** The public base address of this host. */
  url: string;
  version: string;
  /** What an administrator sends as bearer token. */
  key: string;
  /** Bounds how often a wrong one may be tried. */
  guardKey: SecretGuard;
  logger: Logger;
  metrics?: Metrics;
  traces?: Traces | undefined;
  isReady: () => Promise<void>;
  /** Absent: there is no console. */
  console?: ConsoleSettings;
  /** How many trusted proxies stand in front. */
  proxies?: number;
  /** Seconds since the epoch. */
  now?: () => number;
};

const epochSeconds = () => Math.floor(Date.now() / 1000);

export function managementApp(options: ManagementOptions): Koa {
  const { url, version, key, guardKey, logger, metrics, traces, isReady } = options;
  const { proxies = 0, now = epochSeconds } = options;
  const respondToError = options.console ? pageInConsole(options.console.pages) : respondWithJson;
  const listening = { name: 'management', url, proxies, logger, metrics, traces, isReady };
  const app = createHost({ ...listening, respondToError });
  const administrator = requireAdministrator(key, guardKey);
  app.use(refuseForeignOrigin(url));
  app.use(within(API_PATH, administrator));
  if (metrics) app.use(within(METRICS_PATH, administrator)).use(answerMetrics(metrics));
  app.use(managementApi({ ...options, now }, url, version).routes());
  if (options.console) {
    app.use(options.console.pages.middleware);
    app.use(adminConsole({ ...options, ...options.console, now }));
  }
  return app;
}

/** In the words of the console where it has any. */
function pageInConsole(pages: Pages): RespondToError {
  return async function consoleError(ctx, error) {
    if (!isConsolePath(ctx.path)) return respondWithJson(ctx, error);
    const { about, status } = error;
    ctx.set(error.headers);
    await renderRefusal(pages, ctx, { about, status, start: 'console' });
  };
}

/** Routes match the same raw path in the same case, so none under `prefix` is reached without the step. */
function within(prefix: string, step: Koa.Middleware): Koa.Middleware {
  return function prefixed(ctx, next) {
    const isWithin = ctx.path === prefix || ctx.path.startsWith(`${prefix}/`);
    return isWithin ? step(ctx, next) : next();
  };
}
