// Validates responses of the management API against its OpenAPI document.
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

export type Operation = {
  operationId: string;
  summary: string;
  security: Record<string, string[]>[];
  parameters: { name: string; in: string }[];
  requestBody?: { required: boolean; content: Record<string, { schema: object }> };
  responses: Record<string, { content: Record<string, { schema: object }> }>;
};

export type OpenApi = {
  openapi: string;
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, object> };
};

const DOCUMENT = '/api/v1/openapi.json';
const PREFIX = '/api/v1';
const JSON_TYPE = 'application/json';

export async function readDocument(url: string, key: string): Promise<OpenApi> {
  const headers = { Authorization: `Bearer ${key}` };
  return (await fetch(url + DOCUMENT, { headers })).json() as Promise<OpenApi>;
}

/** Returns the validator of a response, or undefined if the document does not describe the response. */
export type FindValidator = (
  method: string,
  path: string,
  status: number,
) => ValidateFunction | undefined;

let findValidator: FindValidator | undefined;

export function validators(document: OpenApi): FindValidator {
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema(document, 'openapi');
  const patterns = Object.keys(document.paths).map((path) => ({
    path,
    pattern: new RegExp(`^${PREFIX}${path.replaceAll('.', '\\.').replace(/\{\w+\}/g, '[^/]+')}$`),
  }));
  return (method, address, status) => {
    const found = patterns.find(({ pattern }) => pattern.test(address.split('?')[0] ?? ''));
    const operation = found && document.paths[found.path]?.[method.toLowerCase()];
    if (!found || !operation?.responses[status]) return undefined;
    const steps = ['paths', found.path, method.toLowerCase(), 'responses', String(status)];
    const [type = JSON_TYPE] = Object.keys(operation.responses[status].content);
    const pointer = [...steps, 'content', type, 'schema'].map(escapeStep).join('/');
    return ajv.getSchema(`openapi#/${pointer}`);
  };
}

/** RFC 6901 section 3, in a fragment. */
function escapeStep(step: string): string {
  return encodeURIComponent(step.replaceAll('~', '~0').replaceAll('/', '~1'));
}

/**
 * Throws if the response does not match the document, or is successful but not described. The document is the same for every host and is
 * read from the first one.
 */
export async function validateResponse(
  { url, key }: { url: string; key: string },
  method: string,
  path: string,
  { status, body }: { status: number; body: unknown },
): Promise<void> {
  if (method === 'HEAD' || !path.startsWith(PREFIX)) return;
  findValidator ??= validators(await readDocument(url, key));
  const validate = findValidator(method, path, status);
  if (!validate) {
    const isOperation = findValidator(method, path, 401) !== undefined;
    if (!isOperation && status >= 300) return;
    throw new Error(
      `${method} ${path} returns ${status}, which the OpenAPI document does not describe`,
    );
  }
  if (validate(body)) return;
  const problems = JSON.stringify(validate.errors);
  throw new Error(`${method} ${path} ${status} does not match the document: ${problems}`);
}
