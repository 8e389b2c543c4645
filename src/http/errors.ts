import type Koa from 'koa';
import type { RequestContext } from './request-context.ts';
import { isStoreFault } from '../store/store.ts';

/** An error response. `message` is sent, and says what to do. The cause is only logged. */
export class HttpError extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Record<string, string>;
  readonly about: string;
  readonly logLevel: 'info' | 'warn' | 'error';
  /** Further members of the JSON response. */
  readonly members: object;
  /** The error code that another server answered with, or why it could not be reached. For records, never sent. */
  remoteCode?: string;

  /**
   * `code` is an error code of an RFC, for example `invalid_request` (RFC 6749 section 5.2). `about` is the key of the page's text, by
   * default the code. `logLevel` is by default `error` from status 500 on, and `info` below. Only `error` also logs the cause.
   */
  constructor(
    status: number,
    code: string,
    message: string,
    options: ErrorOptions & {
      headers?: Record<string, string>;
      about?: string;
      logLevel?: HttpError['logLevel'];
      members?: object;
    } = {},
  ) {
    super(message, options);
    this.name = 'HttpError';
    this.status = status;
    this.code = code;
    this.headers = options.headers ?? {};
    this.about = options.about ?? code;
    this.members = options.members ?? {};
    this.logLevel = options.logLevel ?? (status >= 500 ? 'error' : 'info');
  }
}

/** What the log line of the request says about the error. */
export function failureOf(error: HttpError): NonNullable<RequestContext['failure']> {
  const { code, message: detail, logLevel, remoteCode } = error;
  return {
    code,
    ...(remoteCode === undefined ? {} : { remoteCode }),
    detail,
    logLevel,
    ...(logLevel === 'error' ? { cause: error.cause ?? error } : {}),
  };
}

/** Sent with infrastructure faults. */
export const RETRY_AFTER_SECONDS = '2';

export function clientGone(): HttpError {
  return new HttpError(400, 'client_gone', 'the client disconnected');
}

export function notFound(description = 'there is nothing at this address'): HttpError {
  return new HttpError(404, 'not_found', description);
}

/** Pass `Allow` unless the response has it already (RFC 9110 section 15.5.6). */
export function methodNotAllowed(headers: { Allow?: string } = {}): HttpError {
  return new HttpError(405, 'invalid_request', 'this address does not support this method', {
    headers: headers.Allow === undefined ? {} : { Allow: headers.Allow },
  });
}

/** An infrastructure fault. Clients keep their tokens on this code, and discard them on most others. */
export function unavailable(cause: unknown, about?: string): HttpError {
  return new HttpError(503, 'temporarily_unavailable', 'try again in a moment', {
    cause,
    ...(about === undefined ? {} : { about }),
    headers: { 'Retry-After': RETRY_AFTER_SECONDS },
  });
}

/** RFC 6585 section 4. Clients keep their tokens on this code. */
export function tooManyRequests(retryAfterSeconds: number): HttpError {
  const seconds = Math.max(1, Math.ceil(retryAfterSeconds));
  const message = `too many requests: try again in ${seconds} s`;
  return new HttpError(429, 'temporarily_unavailable', message, {
    about: 'too_many_requests',
    headers: { 'Retry-After': String(seconds) },
  });
}

/** Converts any error into a response that is safe to send. */
export function asHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (isStoreFault(error)) return unavailable(error);
  return new HttpError(
    500,
    'server_error',
    'an internal error occurred, and the server has logged it',
    {
      cause: error,
    },
  );
}

export type RespondToError = (ctx: Koa.Context, error: HttpError) => void | Promise<void>;

/** Responds with JSON (RFC 6749 section 5.2) that is not cached. */
export function respondWithJson(ctx: Koa.Context, error: HttpError): void {
  ctx.status = error.status;
  ctx.set(error.headers);
  ctx.set('Cache-Control', 'no-store');
  ctx.body = { error: error.code, error_description: error.message, ...error.members };
}
