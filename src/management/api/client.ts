// A typed client of the management API, made from the operations.
import { isObject } from '../../json-values.ts';
import { ManagementError } from './management-error.ts';
import type { Operation } from '../resources/resource.ts';
import {
  API_PATH,
  type ApiResponse,
  type ClientRequest,
  type OperationName,
  OPERATIONS,
} from './operations.ts';

/** The base address of the management host and the management key. */
export type Access = { url: string; key: string };

type OptionalIfEmpty<Request> = {} extends Request ? [request?: Request] : [request: Request];

/** One function for each operation. They reject with a ManagementError. */
export type ManagementClient = {
  [Name in OperationName]: (
    ...request: OptionalIfEmpty<ClientRequest<Name>>
  ) => Promise<ApiResponse<Name>>;
};

const TIMEOUT_SECONDS = 15;

type AnyRequest = {
  id?: string;
  query?: Record<string, string | undefined>;
  body?: unknown;
  ifMatch?: string | undefined;
};

export function managementClient(access: Access): ManagementClient {
  const functions = Object.entries<Operation>(OPERATIONS).map(([name, operation]) => [
    name,
    (request?: AnyRequest) => call(access, operation, request),
  ]);
  return Object.fromEntries(functions) as ManagementClient;
}

async function call(
  access: Access,
  operation: Operation,
  request: AnyRequest = {},
): Promise<unknown> {
  const { id = '', query = {}, body, ifMatch } = request;
  const path = operation.path.replace(':id', () => encodeURIComponent(id));
  const parameters = Object.entries(query).filter(isGiven);
  const search = parameters.length > 0 ? `?${new URLSearchParams(parameters)}` : '';
  const { method, timeoutSeconds = TIMEOUT_SECONDS } = operation;
  const sent = { method, path: path + search, body, ifMatch, timeoutSeconds };
  if (operation.stream) return stream(access, sent);
  const { status, text } = await send(access, sent);
  const response = parseJson(text);
  if (status < 300 && isObject(response)) return response;
  throw responseError(access, status, response);
}

function isGiven(parameter: [string, string | undefined]): parameter is [string, string] {
  return parameter[1] !== undefined;
}

type Sent = { method: string; path: string; timeoutSeconds: number } & Pick<
  AnyRequest,
  'body' | 'ifMatch'
>;

async function send(access: Access, sent: Sent) {
  const { timeoutSeconds } = sent;
  try {
    const response = await request(access, sent, AbortSignal.timeout(timeoutSeconds * 1000));
    return { status: response.status, text: await response.text() };
  } catch (cause) {
    throw connectionError(access.url, timeoutSeconds, cause);
  }
}

/** Yields the text of a response of any length. The server may be silent for the time of a request. */
async function* stream(access: Access, sent: Sent): AsyncGenerator<string> {
  const { timeoutSeconds } = sent;
  const silence = new AbortController();
  const end = () => silence.abort(new DOMException('the server is silent', 'TimeoutError'));
  const timer = setTimeout(end, timeoutSeconds * 1000);
  const decoder = new TextDecoder();
  try {
    const response = await request(access, sent, silence.signal);
    if (!response.ok)
      throw responseError(access, response.status, parseJson(await response.text()));
    for await (const bytes of response.body ?? []) {
      timer.refresh();
      yield decoder.decode(bytes, { stream: true });
    }
  } catch (cause) {
    throw cause instanceof ManagementError
      ? cause
      : connectionError(access.url, timeoutSeconds, cause);
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

function request(
  { url, key }: Access,
  { method, path, body, ifMatch }: Sent,
  signal: AbortSignal,
): Promise<Response> {
  const content = body === undefined ? undefined : { 'Content-Type': 'application/json' };
  const match = ifMatch === undefined ? undefined : { 'If-Match': ifMatch };
  return fetch(url + API_PATH + path, {
    method: method.toUpperCase(),
    headers: { Authorization: `Bearer ${key}`, Accept: 'application/json', ...content, ...match },
    body: body === undefined ? undefined : JSON.stringify(body),
    // Never send the key to another address.
    redirect: 'manual',
    signal,
  });
}

function connectionError(url: string, timeoutSeconds: number, cause: unknown): ManagementError {
  if (isObject(cause) && cause['name'] === 'TimeoutError') {
    const message = `${url} did not respond within ${timeoutSeconds} seconds`;
    return new ManagementError('timeout', message, { cause });
  }
  const reason = isObject(cause) && isObject(cause['cause']) ? cause['cause'] : {};
  const problem =
    reason['code'] === 'ECONNREFUSED'
      ? `nothing listens at ${url}`
      : `${url} cannot be reached (${String(reason['code'] ?? reason['message'] ?? cause)})`;
  const advice =
    'is Gatehouse running? Start it with npx gatehouse start, or set GATEHOUSE_MANAGEMENT_URL';
  return new ManagementError('unreachable', `${problem}: ${advice}`, { cause });
}

function responseError({ url }: Access, status: number, response: unknown): ManagementError {
  if (!isObject(response) || typeof response['error'] !== 'string') {
    const message = `${url} is not the management API of Gatehouse (HTTP status ${status}): set GATEHOUSE_MANAGEMENT_URL`;
    return new ManagementError('not_gatehouse', message);
  }
  const { error, error_description: description = `HTTP status ${status}`, issues } = response;
  return new ManagementError(error, ADVICE[status]?.(url) ?? String(description), {
    issues: Array.isArray(issues) ? issues.map(String) : [],
  });
}

const ADVICE: Readonly<Record<number, (url: string) => string>> = {
  401: (url) =>
    `${url} does not accept this management key: set GATEHOUSE_MANAGEMENT_KEY to one of its keys, or GATEHOUSE_DATA_DIR to the directory of its management.key`,
  421: (url) =>
    `Gatehouse answers at ${url} but has another address: set GATEHOUSE_MANAGEMENT_URL to the managementUrl of its settings`,
};

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
