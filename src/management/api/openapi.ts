// The OpenAPI 3.1 document of the management API, made of the route table.
import { z } from 'zod';
import { PREFIX } from './router.ts';
import { type Route, route } from './routes.ts';

type Json = Record<string, unknown>;

const SCHEMAS = '#/components/schemas/';
const EVERYWHERE = {
  401: 'the management key is missing or wrong',
  403: 'a page of another origin asks',
  429: 'too many wrong keys came from this address: wait as long as Retry-After says',
  503: 'the store is away: try again in a moment',
};

export function openApiRoute(document: () => Json): Route {
  return route({
    method: 'get',
    path: '/openapi.json',
    name: 'showOpenApi',
    summary: 'This document.',
    answer: z.record(z.string(), z.unknown()).meta({ description: 'An OpenAPI 3.1 document.' }),
    handle: async () => document(),
  });
}

/** `url` is the base address of the management host. */
export function openApiDocument(
  routes: readonly Route[],
  { url, version }: { url: string; version: string },
): Json {
  const paths: Record<string, Json> = {};
  for (const entry of routes)
    (paths[entry.path.replace(/:(\w+)/g, '{$1}')] ??= {})[entry.method] = operation(entry);
  return {
    openapi: '3.1.1',
    info: { title: 'Gatehouse management API', version },
    servers: [{ url: url + PREFIX }],
    security: [{ managementKey: [] }],
    paths,
    components: {
      securitySchemes: { managementKey: { type: 'http', scheme: 'bearer' } },
      schemas: { ...answerSchemas(), Error: ERROR },
    },
  };
}

const ERROR = {
  type: 'object',
  properties: { error: { type: 'string' }, error_description: { type: 'string' } },
  required: ['error', 'error_description'],
};

function operation(entry: Route): Json {
  const { name, summary, path, query, body, isBodyOptional, status = 200, refusals } = entry;
  const takesInput = query !== undefined || body !== undefined;
  const problems = {
    ...EVERYWHERE,
    ...(takesInput ? { 400: 'something is wrong with what was sent; all of it is named' } : {}),
    ...(body ? { 413: 'the body is too long', 415: 'the body is not JSON' } : {}),
    ...refusals,
  };
  return {
    operationId: name,
    summary,
    parameters: [...pathParameters(path), ...(query ? queryParameters(query) : [])],
    // Which times are allowed depends on now, their form does not.
    ...(body
      ? { requestBody: { required: !isBodyOptional, content: json(bare(body(0), 'input')) } }
      : {}),
    responses: {
      [status]: { description: 'done', content: json(answerSchema(entry)) },
      ...Object.fromEntries(
        Object.entries(problems).map(([code, description]) => [
          code,
          { description, content: json({ $ref: `${SCHEMAS}Error` }) },
        ]),
      ),
    },
  };
}

function json(schema: Json): Json {
  return { 'application/json': { schema } };
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/:(\w+)/g)].map(([, name]) => {
    return { name, in: 'path', required: true, schema: { type: 'string' } };
  });
}

function queryParameters(query: z.ZodObject): Json[] {
  const { properties = {} } = bare(query, 'input') as { properties?: Record<string, Json> };
  return Object.entries(properties).map(([name, schema]) => {
    return { name, in: 'query', required: false, schema };
  });
}

function answerSchema({ answer }: Route): Json {
  const { id } = z.globalRegistry.get(answer) ?? {};
  return id === undefined ? bare(answer, 'output') : { $ref: SCHEMAS + id };
}

/** Every schema that was given an id. */
function answerSchemas(): Record<string, Json> {
  const uri = (id: string) => SCHEMAS + id;
  const { schemas } = z.toJSONSchema(z.globalRegistry, { uri, io: 'output' });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $id: _address, $schema: _dialect, ...schema }]) => [
      id,
      schema,
    ]),
  );
}

function bare(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
