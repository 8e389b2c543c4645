// A typed client of the management API, made from the operations.
import { type IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { text } from 'node:stream/consumers';
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
export type Access = {
  url: string;
  key: string;
  /** Where the management host listens on this computer: tried first, because a proxy may pass the console alone. */
  listener?: string | undefined;
};

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
  const signal = AbortSignal.timeout(sent.timeoutSeconds * 1000);
  try {
    const response = await request(access, sent, signal);
    return { status: response.statusCode ?? 0, text: await text(response) };
  } catch (cause) {
    throw connectionError(access.url, sent, signal, cause);
  }
}

/** Yields the text of a response of any length. The server may be silent for the time of a request. */
async function* stream(access: Access, sent: Sent): AsyncGenerator<string> {
  const silence = new AbortController();
  const timer = setTimeout(() => silence.abort(), sent.timeoutSeconds * 1000);
  let isAnswering = false;
  try {
    const response = await request(access, sent, silence.signal);
    const { statusCode: status = 0 } = response;
    if (status >= 300) throw responseError(access, status, parseJson(await text(response)));
    isAnswering = true;
    for await (const part of response.setEncoding('utf8')) {
      timer.refresh();
      yield part;
    }
  } catch (cause) {
    if (cause instanceof ManagementError) throw cause;
    throw isAnswering && !silence.signal.aborted
      ? new ManagementError('incomplete', `${access.url} ${ENDED_EARLY}`, { cause })
      : connectionError(access.url, sent, silence.signal, cause);
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

const ENDED_EARLY =
  'ended its answer early, so that what was written is not complete: the log of the server says why';

/** Resolves when the headers of the response have arrived. */
async function request(access: Access, sent: Sent, signal: AbortSignal): Promise<IncomingMessage> {
  const { url, listener } = access;
  if (listener === undefined) return requestAt(url, access, sent, signal);
  try {
    return await requestAt(listener, access, sent, signal);
  } catch (cause) {
    // Not connected: the management role runs on another computer, or in another container.
    if (!isObject(cause) || cause['syscall'] !== 'connect') throw cause;
    return requestAt(url, access, sent, signal);
  }
}

/** Connects to `address` in place of the one that `url` names. Follows no redirect, so that the key reaches no other address. */
function requestAt(
  address: string,
  { url, key }: Access,
  { method, path, body, ifMatch }: Sent,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const headers = {
    Host: new URL(url).host,
    Authorization: `Bearer ${key}`,
    Accept: 'application/json',
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...(ifMatch === undefined ? {} : { 'If-Match': ifMatch }),
  };
  const open = address.startsWith('https:') ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    open(address + API_PATH + path, { method: method.toUpperCase(), headers, signal }, resolve)
      .on('error', reject)
      .end(body === undefined ? undefined : JSON.stringify(body));
  });
}

function connectionError(
  url: string,
  { timeoutSeconds }: Sent,
  { aborted }: AbortSignal,
  cause: unknown,
): ManagementError {
  if (aborted) {
    const message = `${url} did not respond within ${timeoutSeconds} seconds`;
    return new ManagementError('timeout', message, { cause });
  }
  const { code, message } = isObject(cause) ? cause : {};
  const problem =
    code === 'ECONNREFUSED'
      ? `nothing listens at ${url}`
      : `${url} cannot be reached (${String(code ?? message ?? cause)})`;
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
