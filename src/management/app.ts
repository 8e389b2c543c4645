import type Koa from 'koa';
import { type RespondToError, respondWithJson } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { serveMetrics, METRICS_PATH } from '../http/metrics-host.ts';
import type { Pages } from '../pages/pages.ts';
import { sendErrorPage } from '../pages/error-page.ts';
import { limitFailedAttempts } from '../http/failed-attempts.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { refuseForeignOrigin, requireManagementKey } from './authenticate.ts';
import { managementApi } from './api/router.ts';
import { adminConsole, isConsolePath } from './console/console.ts';
import { CONSOLE_PATH } from './console/context.ts';
import { API_PATH } from './api/routes.ts';

export function managementApp(settings: Settings, services: Services): Koa {
  const { managementUrl: url, managementKey: key, proxies } = settings;
  const { pages, metrics, rateLimits } = services;
  if (key === undefined) throw new Error('the management role needs its key');
  const hasConsole = consoleUrl(settings) !== undefined;
  const respondToError = hasConsole ? consoleErrors(pages) : respondWithJson;
  const app = createHost({ ...services, name: 'management', url, proxies, respondToError });
  const authenticate = requireManagementKey(key, limitFailedAttempts(rateLimits.wrongSecrets));
  app.use(refuseForeignOrigin(url));
  app.use(within(API_PATH, authenticate));
  app.use(within(METRICS_PATH, authenticate)).use(serveMetrics(metrics));
  app.use(managementApi({ settings, services }).routes());
  if (hasConsole) {
    app.use(pages.middleware);
    app.use(adminConsole({ settings, services }));
  }
  return app;
}

/** Undefined if the settings name no administrator: then there is no console. */
export function consoleUrl({ management, managementUrl }: Settings): string | undefined {
  return management.administrators.length > 0 ? managementUrl + CONSOLE_PATH : undefined;
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
