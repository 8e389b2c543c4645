import { Readable } from 'node:stream';
import { Router } from '@koa/router';
import type Koa from 'koa';
import * as z from 'zod';
import { readJson } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import {
  type Handlers,
  type ManagementContext,
  type ManagementHost,
  requireRole,
} from '../context.ts';
import { HANDLERS } from '../handlers.ts';
import { parseInput } from '../parse-input.ts';
import type { Operation } from '../resources/resource.ts';
import { openApiDocument } from './openapi.ts';
import { API_PATH, type OperationName, OPERATIONS } from './operations.ts';

/** A validated request. The handler gets the parts that its operation has. */
type Request = { id: string; query: unknown; body: unknown; ifMatch: string | undefined };
type Handler = (management: ManagementContext, request: Request) => Promise<unknown>;

/** Creates the routes below `API_PATH`. The caller authenticates requests. */
export function managementApi(management: ManagementHost): Router {
  const { settings, services } = management;
  let document: ReturnType<typeof openApiDocument> | undefined;
  const handlers: Handlers<OperationName> = {
    ...HANDLERS,
    // Few ask for it, and it takes a tenth of the time of a start.
    showOpenApi: async () => (document ??= openApiDocument(settings, services.version)),
  };
  const router = new Router({ prefix: API_PATH, sensitive: true, strict: true });
  router.use(async function preventCaching(ctx, next) {
    ctx.set('Cache-Control', 'no-store');
    await next();
  });
  for (const [name, operation] of Object.entries<Operation>(OPERATIONS)) {
    const handle = handlers[name as OperationName] as Handler;
    router[operation.method](operation.path, middleware(operation, handle, management));
  }
  const byPath = Map.groupBy(Object.values<Operation>(OPERATIONS), ({ path }) => path);
  for (const [path, operations] of byPath) router.all(path, refuseMethod(allow(operations)));
  return router;
}

function middleware(
  operation: Operation,
  handle: Handler,
  management: ManagementHost,
): Koa.Middleware {
  const { services, settings } = management;
  return async function handleRoute(ctx) {
    const { manager } = requestContext(ctx);
    if (!manager) throw new Error('the request is not authenticated');
    requireRole(manager, operation.role);
    const query = queryOf(operation, ctx);
    const sent = operation.body && (await readBody(ctx, operation));
    // Reading a body can take long: validate it, and act on it, with one time taken afterwards.
    const now = services.now();
    const body =
      operation.body && !operation.isFile
        ? parseInput(operation.body(now, settings.levels), sent)
        : sent;
    const ifMatch = ctx.req.headers['if-match'];
    const request = { id: String(ctx.params.id ?? ''), query, body, ifMatch };
    const context = { ...manager, settings, services: { ...services, now: () => now } };
    const response = await handle(context, request);
    ctx.status = operation.status ?? 200;
    if (operation.location)
      ctx.set('Location', API_PATH + operation.location(response as { id: string }));
    if (operation.etag) ctx.set('ETag', operation.etag(response as never));
    ctx.body = operation.stream ? Readable.from(response as AsyncIterable<string>) : response;
    if (operation.stream) ctx.type = mediaType(operation.stream, query);
  };
}

/** A parameter that nobody reads, such as `dryRun` at an operation without one, must not let a change happen. */
function queryOf({ query, method }: Operation, ctx: Koa.Context) {
  if (query) return parseInput(query, { ...ctx.query });
  return method === 'get' ? {} : parseInput(NO_QUERY, { ...ctx.query });
}

const NO_QUERY = z.strictObject({});

function mediaType(
  stream: NonNullable<Operation['stream']>,
  query: Partial<Record<string, unknown>>,
): string {
  return typeof stream === 'string' ? stream : (stream[String(query['format'])] ?? '');
}

function readBody(ctx: Koa.Context, { isBodyOptional, maxBodyBytes }: Operation): Promise<unknown> {
  return isBodyOptional && !hasBody(ctx) ? Promise.resolve({}) : readJson(ctx, maxBodyBytes);
}

function hasBody({ req, request }: Koa.Context): boolean {
  return req.headers['transfer-encoding'] !== undefined || (request.length ?? 0) > 0;
}

function allow(operations: readonly Operation[]): string {
  const methods = operations.map(({ method }) => method.toUpperCase());
  return [...methods, ...(methods.includes('GET') ? ['HEAD'] : [])].sort().join(', ');
}

function refuseMethod(allowed: string): Koa.Middleware {
  return function methodNotAllowed() {
    throw new HttpError(405, 'method_not_allowed', `this address supports ${allowed}`, {
      headers: { Allow: allowed },
    });
  };
}
