import { Agent, request } from 'undici';
import { isObject } from '../json-values.ts';
import { tlsFault } from '../tls-errors.ts';

export type RequestOptions = {
  method?: 'GET' | 'POST' | 'OPTIONS';
  headers?: Record<string, string>;
  body?: string;
};

export type HttpResponse = {
  status: number;
  /** The name is in lower case. Several values are joined by `, `. */
  header: (name: string) => string | undefined;
  /** The values of Set-Cookie. */
  cookies: string[];
  text: string;
  /** Milliseconds since the epoch. */
  sentAt: number;
  receivedAt: number;
};

/** Does not follow redirects. Rejects with `NoResponseError`. */
export type SendRequest = (url: string, options?: RequestOptions) => Promise<HttpResponse>;

/** No HTTP response was received in time. The message says why. `remedy` is present if TLS failed. */
export class NoResponseError extends Error {
  override name = 'NoResponseError';
  readonly remedy: string | undefined;

  constructor(message: string, cause: unknown) {
    super(message, { cause });
    this.remedy = tlsFault(cause)?.remedy;
  }
}

const TIMEOUT_MS = 5000;
const MAX_RESPONSE_BYTES = 1024 * 1024;

/** `timeout` of one request, in milliseconds. */
type ClientOptions = {
  verifyCertificates: boolean;
  signal: AbortSignal;
  timeout?: number | undefined;
};

export function openHttpClient({
  verifyCertificates,
  signal,
  timeout = TIMEOUT_MS,
}: ClientOptions) {
  const dispatcher = new Agent({
    connect: { rejectUnauthorized: verifyCertificates, timeout },
    maxResponseSize: MAX_RESPONSE_BYTES,
  });
  const send: SendRequest = async (url, { method = 'GET', headers = {}, body } = {}) => {
    const sentAt = Date.now();
    try {
      const response = await request(url, {
        method,
        headers: { 'user-agent': 'gatehouse-doctor', ...headers },
        ...(body === undefined ? {} : { body }),
        dispatcher,
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]),
      });
      const text = await response.body.text();
      const header = (name: string) => joined(response.headers[name]);
      const cookies = [response.headers['set-cookie'] ?? []].flat();
      return { status: response.statusCode, header, cookies, text, sentAt, receivedAt: Date.now() };
    } catch (cause) {
      throw new NoResponseError(reasonOf(cause, new URL(url)), cause);
    }
  };
  return { send, close: () => dispatcher.destroy() };
}

function joined(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused, so no process listens there',
  ECONNRESET: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
};

function reasonOf(error: unknown, { hostname }: URL): string {
  const { name = '', code = '', message = '' } = error as NodeJS.ErrnoException;
  if (/ENOTFOUND|EAI_AGAIN/.test(code)) return `the name ${hostname} does not resolve (${code})`;
  if (/Abort|Timeout/i.test(name) || /TIMEOUT|TIMEDOUT/.test(code))
    return `no response within ${TIMEOUT_MS / 1000} s`;
  const fault = tlsFault(error);
  if (fault) return `it ${fault.what}`;
  return REASONS[code] ?? (`${code} ${message}`.trim() || 'no response');
}

/** Returns undefined unless the body is a JSON object. */
export function jsonObject({ text }: HttpResponse): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Describes status and content type, or the target of a redirect. */
export function describeResponse(response: HttpResponse): string {
  const type = response.header('content-type')?.split(';')[0] ?? 'no content type';
  const target = response.header('location');
  return `${response.status}${target ? `, a redirect to ${target}` : ` and ${type}`}`;
}
