// The routes of the table as routes of a router: input is validated before anything happens, and other methods are refused.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { readJson } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import { parseInput } from './requests.ts';
import type { ManagementServices } from '../services.ts';
import type { Route } from './routes.ts';

export const PREFIX = '/api/v1';

export function mountedRoutes(routes: readonly Route[], services: ManagementServices): Router {
  const router = new Router({ prefix: PREFIX, sensitive: true, strict: true });
  router.use(async function neverCached(ctx, next) {
    ctx.set('Cache-Control', 'no-store');
    await next();
  });
  for (const route of routes) router[route.method](route.path, answered(route, services));
  const methods = Map.groupBy(routes, ({ path }) => path);
  for (const [path, alike] of methods) router.all(path, refuseMethod(allowed(alike)));
  return router;
}

function answered(route: Route, services: ManagementServices): Koa.Middleware {
  return async function managed(ctx) {
    const query = route.query ? parseInput(route.query, { ...ctx.query }) : {};
    const sent = route.body && (await bodyOf(ctx, route));
    // What was read slowly is judged by the time at which it has arrived, and so is all that comes of it.
    const now = services.now();
    const body = route.body && parseInput(route.body(now), sent);
    const given = { id: String(ctx.params.id ?? ''), query, body };
    const answer = await route.handle({ ...services, now: () => now }, given);
    ctx.status = route.status ?? 200;
    if (route.location) ctx.set('Location', PREFIX + route.location(answer));
    ctx.body = answer;
  };
}

function bodyOf(ctx: Koa.Context, { isBodyOptional }: Route): Promise<unknown> {
  return isBodyOptional && !hasBody(ctx) ? Promise.resolve({}) : readJson(ctx);
}

function hasBody({ req, request }: Koa.Context): boolean {
  return req.headers['transfer-encoding'] !== undefined || (request.length ?? 0) > 0;
}

function allowed(routes: readonly Route[]): string {
  const methods = routes.map(({ method }) => method.toUpperCase());
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].sort().join(', ');
}

function refuseMethod(allow: string): Koa.Middleware {
  return function methodNotAllowed() {
    throw new HttpError(405, 'method_not_allowed', `this address answers ${allow}`, {
      headers: { Allow: allow },
    });
  };
}
