import { Agent, fetch } from 'undici';
import { fetchFromProvider } from '../sign-in/fetch.ts';
import { isObject } from '../json-values.ts';
import { tlsFault } from '../tls-errors.ts';

/** Milliseconds from the request to the first and the last byte of the body. */
export type TimedResponse = { status: number; type: string; first: number; last: number };

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
type ClientOptions = { signal: AbortSignal; timeout?: number | undefined };

export function openHttpClient({ signal, timeout = TIMEOUT_MS }: ClientOptions) {
  const received = (request: (url: string, options: Sent) => Promise<Received>): SendRequest =>
    async function send(url, { method = 'GET', headers, ...rest } = {}) {
      const sentAt = Date.now();
      try {
        const response = await request(url, {
          ...rest,
          method,
          headers: { 'user-agent': 'gatehouse-doctor', ...headers },
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]),
        });
        return {
          status: response.status,
          header: (name) => response.headers.get(name) ?? undefined,
          cookies: response.headers.getSetCookie(),
          text: await response.text(),
          sentAt,
          receivedAt: Date.now(),
        };
      } catch (cause) {
        throw new NoResponseError(reasonOf(cause, new URL(url)), cause);
      }
    };
  const open = (rejectUnauthorized: boolean) =>
    new Agent({ connect: { rejectUnauthorized, timeout }, maxResponseSize: MAX_RESPONSE_BYTES });
  const agents = { insecure: open(false), verified: open(true) };
  const sendThrough = (dispatcher: Agent) =>
    received((url, options) => fetch(url, { ...options, dispatcher, redirect: 'manual' }));
  /** Rejects with `NoResponseError`. */
  const time = async (url: string, headers: Record<string, string>): Promise<TimedResponse> => {
    const sentAt = performance.now();
    let first: number | undefined;
    try {
      const response = await fetch(url, {
        headers: { 'user-agent': 'gatehouse-doctor', ...headers },
        dispatcher: agents.insecure,
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]),
      });
      for await (const _chunk of response.body ?? []) first ??= performance.now() - sentAt;
      const last = performance.now() - sentAt;
      const type = response.headers.get('content-type') ?? '';
      return { status: response.status, type, first: first ?? last, last };
    } catch (cause) {
      throw new NoResponseError(reasonOf(cause, new URL(url)), cause);
    }
  };
  return {
    time,
    send: sendThrough(agents.insecure),
    sendVerified: sendThrough(agents.verified),
    sendToProvider: received(fetchFromProvider),
    close: () => Object.values(agents).forEach((agent) => void agent.destroy()),
  };
}

type Sent = RequestOptions & { method: string; signal: AbortSignal };
type Received = Pick<Response, 'status' | 'headers' | 'text'>;

const REASONS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused, so no process listens there',
  ECONNRESET: 'the connection was closed',
  UND_ERR_SOCKET: 'the connection was closed',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
};

function reasonOf(error: unknown, { hostname }: URL): string {
  const { cause } = error as Error;
  const { name = '', code = '', message = '' } = (cause ?? error) as NodeJS.ErrnoException;
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
