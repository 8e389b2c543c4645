import * as z from 'zod';
import type { Levels } from '../../permission-levels.ts';
import type { Settings } from '../../settings/settings.ts';
import { NOT_FOUND, type Operation } from '../resources/resource.ts';
import { API_PATH, OPERATIONS } from './operations.ts';

type Json = Record<string, unknown>;

const SCHEMAS = '#/components/schemas/';
const COMMON_ERRORS = {
  401: 'The management key is missing or wrong.',
  429: 'Too many requests with a wrong key. Try again after `Retry-After`.',
  503: 'The store is not available. Try again.',
};
const IF_MATCH = {
  name: 'If-Match',
  in: 'header',
  required: false,
  description: 'The `ETag` of the resource as it was read. Another one is 412.',
  schema: { type: 'string' },
};
const ETag = {
  description: 'Changes only with the members that can be changed.',
  schema: { type: 'string' },
};
const ERROR_SCHEMA = {
  type: 'object',
  properties: { error: { type: 'string' }, error_description: { type: 'string' } },
  required: ['error', 'error_description'],
};

/** Creates the OpenAPI 3.1 document. It lists the levels of the settings. */
export function openApiDocument(
  { managementUrl, levels }: Pick<Settings, 'managementUrl' | 'levels'>,
  version: string,
): Json {
  const paths: Record<string, Json> = {};
  for (const [name, operation] of Object.entries<Operation>(OPERATIONS)) {
    const path = operation.path.replace(/:(\w+)/g, '{$1}');
    (paths[path] ??= {})[operation.method] = describe(name, operation, levels);
  }
  return {
    openapi: '3.1.1',
    info: { title: 'Gatehouse management API', version },
    servers: [{ url: managementUrl + API_PATH }],
    security: [{ managementKey: [] }],
    paths,
    components: {
      securitySchemes: { managementKey: { type: 'http', scheme: 'bearer' } },
      schemas: { ...resourceSchemas(), Error: ERROR_SCHEMA },
    },
  };
}

function describe(name: string, operation: Operation, levels: Levels): Json {
  const { method, summary, role, path, query, body, isBodyOptional, etag } = operation;
  const { status = 200, response, stream, errors } = operation;
  const hasInput = query !== undefined || body !== undefined || method !== 'get';
  const allErrors = {
    ...COMMON_ERRORS,
    403: `The key does not have the role ${role}, or the request comes from a page of another origin.`,
    ...(hasInput ? { 400: 'The request is invalid. The description lists every problem.' } : {}),
    ...(body ? { 413: 'The body is too large.', 415: 'The body is not JSON.' } : {}),
    ...(path.includes(':id') ? NOT_FOUND : {}),
    ...(method === 'patch'
      ? { 412: 'The resource is not one that `If-Match` names: somebody changed it meanwhile.' }
      : {}),
    ...errors,
  };
  return {
    operationId: name,
    summary,
    // OpenAPI 3.1.1 section 4.8.30.1: the roles that are required.
    security: [{ managementKey: [role] }],
    parameters: [
      ...pathParameters(path),
      ...(query ? queryParameters(query) : []),
      ...(method === 'patch' ? [IF_MATCH] : []),
    ],
    // The time decides which values are valid, not the form of the schema.
    ...(body
      ? {
          requestBody: {
            required: !isBodyOptional,
            content: json(jsonSchema(body(0, levels), 'input')),
          },
        }
      : {}),
    responses: {
      [status]: {
        description: 'Success.',
        ...(etag ? { headers: { ETag } } : {}),
        content: stream ? textContent(stream) : json(responseSchema(response)),
      },
      ...Object.fromEntries(
        Object.entries(allErrors).map(([code, description]) => [
          code,
          { description, content: json({ $ref: `${SCHEMAS}Error` }) },
        ]),
      ),
    },
  };
}

function textContent(stream: NonNullable<Operation['stream']>): Json {
  const types = typeof stream === 'string' ? [stream] : Object.values(stream);
  return Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' } }]));
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
  const { properties = {}, required = [] } = jsonSchema(query, 'input') as {
    properties?: Record<string, Json>;
    required?: string[];
  };
  return Object.entries(properties).map(([name, schema]) => {
    return { name, in: 'query', required: required.includes(name), schema };
  });
}

function responseSchema(response: z.ZodType): Json {
  const { id } = z.globalRegistry.get(response) ?? {};
  return id === undefined ? jsonSchema(response, 'output') : { $ref: SCHEMAS + id };
}

/** Returns every schema that has an id. */
function resourceSchemas(): Record<string, Json> {
  const uri = (id: string) => SCHEMAS + id;
  const { schemas } = z.toJSONSchema(z.globalRegistry, { uri, io: 'output' });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, { $id: _address, $schema: _dialect, ...schema }]) => [
      id,
      schema,
    ]),
  );
}

function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
