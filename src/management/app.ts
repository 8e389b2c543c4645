import type Koa from 'koa';
import { type RespondToError, respondWithJson } from '../http/errors.ts';
import { createHost } from '../http/host.ts';
import { serveMetrics, METRICS_PATH } from '../http/metrics-host.ts';
import { requestContext } from '../http/request-context.ts';
import { prefersPage } from '../http/prefers-page.ts';
import { sendErrorPage } from '../pages/error-page.ts';
import { limitFailedAttempts } from '../http/failed-attempts.ts';
import type { Services } from '../services.ts';
import { DEFAULT_KEY } from '../settings/management-roles.ts';
import type { Settings } from '../settings/settings.ts';
import { refuseForeignOrigin, requireManagementKey } from './authenticate.ts';
import { managementApi } from './api/router.ts';
import { adminConsole, isConsolePath } from './console/console.ts';
import { consoleUrl } from './console/address.ts';
import { API_PATH } from './api/operations.ts';
import { watchCounts } from './watched-counts.ts';

// Each process with this role runs them once, for all versions of the settings.
export { keepCredentialsEnded } from '../credentials/keep-ended.ts';
export { keepAccountIndex } from '../people/accounts.ts';

export function managementApp(settings: Settings, services: Services): Koa {
  const { managementUrl: url, managementKey: key, managementKeys, proxies } = settings;
  const { pages, metrics, rateLimits } = services;
  if (key === undefined) throw new Error('the management role needs its key');
  const hasConsole = consoleUrl(settings) !== undefined;
  const app = createHost({
    ...services,
    name: 'management',
    url,
    proxies,
    respondToError: respondToError(services, hasConsole),
    assets: pages.middleware,
  });
  const keys = [{ name: DEFAULT_KEY, role: 'administrator' as const, key }, ...managementKeys];
  const authenticate = requireManagementKey(keys, limitFailedAttempts(rateLimits.wrongSecrets));
  app.use(refuseForeignOrigin(url));
  app.use(within(API_PATH, authenticate));
  app.use(within(METRICS_PATH, authenticate)).use(serveMetrics(metrics));
  watchCounts({ settings, services });
  app.use(managementApi({ settings, services }).routes());
  if (hasConsole) app.use(adminConsole({ settings, services }));
  return app;
}

/**
 * Renders errors as pages in the console and for browsers, and as JSON for programs. The API and the metrics have no pages. The reference of a
 * page opens an attempt.
 */
function respondToError(
  { pages, attempts }: Pick<Services, 'pages' | 'attempts'>,
  hasConsole: boolean,
): RespondToError {
  return async function managementError(ctx, error) {
    if (!isForPeople(ctx, hasConsole)) return respondWithJson(ctx, error);
    const { message: description, status } = error;
    const about = !hasConsole && status === 404 ? 'no_console' : error.about;
    const { requestId, address } = requestContext(ctx);
    const code = error.remoteCode ?? about;
    attempts.note(
      { id: requestId, names: [requestId] },
      { step: 'authorize', reference: requestId, address, end: 'failed', reason: 'console', code },
    );
    ctx.set(error.headers);
    const start = hasConsole ? 'console' : undefined;
    await sendErrorPage(pages, ctx, { about, description, status, start });
  };
}

function isForPeople(ctx: Koa.Context, hasConsole: boolean): boolean {
  if (hasConsole && isConsolePath(ctx.path)) return true;
  return !isWithin(API_PATH, ctx) && !isWithin(METRICS_PATH, ctx) && prefersPage(ctx);
}

/** Applies `middleware` to paths below `prefix`. The router matches the same raw, case-sensitive path, so no route bypasses it. */
function within(prefix: string, middleware: Koa.Middleware): Koa.Middleware {
  return function prefixed(ctx, next) {
    return isWithin(prefix, ctx) ? middleware(ctx, next) : next();
  };
}

function isWithin(prefix: string, { path }: Koa.Context): boolean {
  return path === prefix || path.startsWith(`${prefix}/`);
}
