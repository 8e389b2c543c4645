import { Router } from '@koa/router';
import type Koa from 'koa';
import type { z } from 'zod';
import { readJson } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import { type ManagementContext, type ManagementHost, requireRole } from '../context.ts';
import { changeAccount, forgetAccount, listAccounts, showAccount } from '../accounts.ts';
import { listAudit } from '../audit-log.ts';
import { blockClients, listClientRules, removeClientRule } from '../client-rules.ts';
import { allowClient, listClients, revokeClient } from '../clients.ts';
import {
  createConnector,
  deleteConnector,
  listConnectors,
  revokeConnector,
  showConnector,
} from '../connectors.ts';
import { listGrants, revokeGrant, showGrant } from '../grants.ts';
import { createMachine, replaceMachineCredentials } from '../machines.ts';
import { listTokens, mintToken, revokeToken } from '../minted-tokens.ts';
import { listKeys, rotateKeys } from '../signing-keys.ts';
import { listUpstreams, showUpstream } from '../upstreams.ts';
import { openApiDocument } from './openapi.ts';
import {
  API_PATH,
  type ApiRequest,
  type ApiResponse,
  type Route,
  type RouteName,
  ROUTES,
} from './routes.ts';

type Handler<Name extends RouteName> = (
  management: ManagementContext,
  request: ApiRequest<Name>,
) => Promise<ApiResponse<Name>>;

type Handlers = { [Name in RouteName]: Handler<Name> };

const HANDLERS: Omit<Handlers, 'showOpenApi'> = {
  createConnector: (management, { body }) => createConnector(management, body),
  listConnectors: (management, { query }) => listConnectors(management, query),
  showConnector: (management, { id }) => showConnector(management, id),
  revokeConnector: (management, { id }) => revokeConnector(management, id),
  deleteConnector: (management, { id }) => deleteConnector(management, id),
  listGrants: (management, { query }) => listGrants(management, query),
  showGrant: (management, { id }) => showGrant(management, id),
  revokeGrant: (management, { id }) => revokeGrant(management, id),
  listClients: (management, { query }) => listClients(management, query),
  revokeClient: (management, { body }) => revokeClient(management, body.id),
  allowClient: (management, { body }) => allowClient(management, body.id, body.app),
  createMachine: (management, { body }) => createMachine(management, body),
  replaceMachineKey: (management, { body: { id, ...key } }) =>
    replaceMachineCredentials(management, id, key),
  listClientRules: (management) => listClientRules(management),
  blockClients: (management, { body }) => blockClients(management, body),
  removeClientRule: (management, { id }) => removeClientRule(management, id),
  listAccounts: (management, { query }) => listAccounts(management, query),
  showAccount: (management, { id }) => showAccount(management, id),
  disableAccount: (management, { id }) => changeAccount(management, id, 'disable'),
  enableAccount: (management, { id }) => changeAccount(management, id, 'enable'),
  forgetAccount: (management, { id }) => forgetAccount(management, id),
  mintToken: (management, { body }) => mintToken(management, body),
  listTokens: (management, { query }) => listTokens(management, query),
  revokeToken: (management, { id }) => revokeToken(management, id),
  listKeys: (management) => listKeys(management),
  rotateKeys: (management, { body }) => rotateKeys(management, body),
  listLevels: async ({ settings: { levels } }) => ({
    items: levels.map(({ id, recorded }) => ({ id, recorded })),
  }),
  listUpstreams: (management) => listUpstreams(management),
  showUpstream: (management, { id }) => showUpstream(management, id),
  listAudit: (management, { query: { order, ...filter } }) =>
    listAudit(management, { ...filter, newestFirst: order !== 'oldest' }),
};

/** Creates the routes below `API_PATH`. The caller authenticates requests. */
export function managementApi(management: ManagementHost): Router {
  const { settings, services } = management;
  let document: ReturnType<typeof openApiDocument> | undefined;
  const handlers: Handlers = {
    ...HANDLERS,
    // Few ask for it, and it takes a tenth of the time of a start.
    showOpenApi: async () => (document ??= openApiDocument(settings, services.version)),
  };
  const router = new Router({ prefix: API_PATH, sensitive: true, strict: true });
  router.use(async function preventCaching(ctx, next) {
    ctx.set('Cache-Control', 'no-store');
    await next();
  });
  const routes = Object.entries(ROUTES) as [RouteName, Route][];
  for (const [name, route] of routes) {
    const handle = handlers[name] as Handler<RouteName>;
    router[route.method](route.path, middleware(route, handle, management));
  }
  const byPath = Map.groupBy(
    routes.map(([, route]) => route),
    ({ path }) => path,
  );
  for (const [path, routesOfPath] of byPath) router.all(path, refuseMethod(allow(routesOfPath)));
  return router;
}

function middleware(
  route: Route,
  handle: Handler<RouteName>,
  management: ManagementHost,
): Koa.Middleware {
  const { services, settings } = management;
  return async function handleRoute(ctx) {
    const { manager } = requestContext(ctx);
    if (!manager) throw new Error('the request is not authenticated');
    requireRole(manager, route.role);
    const query = route.query ? parseInput(route.query, { ...ctx.query }) : {};
    const sent = route.body && (await readBody(ctx, route));
    // Reading a body can take long: validate it, and act on it, with one time taken afterwards.
    const now = services.now();
    const body = route.body && parseInput(route.body(now, settings.levels), sent);
    const request = { id: String(ctx.params.id ?? ''), query, body } as ApiRequest<RouteName>;
    const context = { ...manager, settings, services: { ...services, now: () => now } };
    const response = await handle(context, request);
    ctx.status = route.status ?? 200;
    if (route.location) ctx.set('Location', API_PATH + route.location(response as { id: string }));
    ctx.body = response;
  };
}

function readBody(ctx: Koa.Context, { isBodyOptional }: Route): Promise<unknown> {
  return isBodyOptional && !hasBody(ctx) ? Promise.resolve({}) : readJson(ctx);
}

function hasBody({ req, request }: Koa.Context): boolean {
  return req.headers['transfer-encoding'] !== undefined || (request.length ?? 0) > 0;
}

function allow(routes: readonly Route[]): string {
  const methods = routes.map(({ method }) => method.toUpperCase());
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].sort().join(', ');
}

function refuseMethod(allowed: string): Koa.Middleware {
  return function methodNotAllowed() {
    throw new HttpError(405, 'method_not_allowed', `this address supports ${allowed}`, {
      headers: { Allow: allowed },
    });
  };
}

/** Throws HttpError 400 with a message that names every invalid member. */
export function parseInput<T>(schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new HttpError(400, 'invalid_request', parsed.error.issues.map(describeIssue).join('; '));
}

function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === 'unrecognized_keys') return `unknown: ${issue.keys.map(safeName).join(', ')}`;
  return issue.path.length > 0 ? `${issue.path.join('.')}: ${issue.message}` : issue.message;
}

/** Repeats a member name only if it looks like one. */
function safeName(key: string): string {
  return /^\w{1,40}$/.test(key) ? key : 'a member with an unusual name';
}
