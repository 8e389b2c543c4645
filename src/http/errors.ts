// How a host says no: one error class, and the one place per host where a thrown error becomes a JSON answer or a page.
import type Koa from 'koa';
import { StoreUnavailable } from '../store/store.ts';

/** A refusal meant for the wire: `message` is safe to show and says what to do; the cause is for the log only. */
export class HttpError extends Error {
  readonly status: number;
  readonly code: string;
  readonly headers: Record<string, string>;
  readonly about: string;
  readonly isLoggedAsError: boolean;

  /** `code` is the RFC's error code, for example `invalid_request` (RFC 6749 section 5.2); `about`, where the code says too little, names the text of the page. `isLoggedAsError`, though `status` is below 500. */
  constructor(
    status: number,
    code: string,
    message: string,
    options: ErrorOptions & {
      headers?: Record<string, string>;
      about?: string;
      isLoggedAsError?: boolean;
    } = {},
  ) {
    super(message, options);
    this.name = 'HttpError';
    this.status = status;
    this.code = code;
    this.headers = options.headers ?? {};
    this.about = options.about ?? code;
    this.isLoggedAsError = options.isLoggedAsError ?? status >= 500;
  }
}

/** Seconds, for whoever waits for an infrastructure fault to pass. */
export const RETRY_AFTER = '2';

export function notFound(description = 'there is nothing at this address'): HttpError {
  return new HttpError(404, 'not_found', description);
}

/** `headers` has `Allow` unless the answer has it already (RFC 9110 section 15.5.6). */
export function methodNotAllowed(headers: { Allow?: string } = {}): HttpError {
  return new HttpError(405, 'invalid_request', 'this address does not answer to that method', {
    headers: headers.Allow === undefined ? {} : { Allow: headers.Allow },
  });
}

/** An infrastructure fault. Clients keep their tokens on this code, and drop them on most others. */
export function unavailable(cause: unknown, about?: string): HttpError {
  return new HttpError(503, 'temporarily_unavailable', 'try again in a moment', {
    cause,
    ...(about === undefined ? {} : { about }),
    headers: { 'Retry-After': RETRY_AFTER },
  });
}

/** RFC 6585 section 4; `seconds` to wait. The code is one on which clients keep their tokens. */
export function tooManyRequests(seconds: number): HttpError {
  const wait = Math.max(1, Math.ceil(seconds));
  const message = `too many requests: try again in ${wait} s`;
  return new HttpError(429, 'temporarily_unavailable', message, {
    about: 'too_many_requests',
    headers: { 'Retry-After': String(wait) },
  });
}

/** What the person or client is told about any error: unknown ones say nothing of their cause. */
export function asHttpError(error: unknown): HttpError {
  if (error instanceof HttpError) return error;
  if (isStoreFault(error)) return unavailable(error);
  return new HttpError(500, 'server_error', 'something went wrong on our side; it was logged', {
    cause: error,
  });
}

/** The engine wraps what its storage throws. */
function isStoreFault(error: unknown): boolean {
  return error instanceof StoreUnavailable || (error instanceof Error && isStoreFault(error.cause));
}

export type RespondToError = (ctx: Koa.Context, error: HttpError) => void | Promise<void>;

/** RFC 6749 section 5.2: JSON, never cached. */
export function respondWithJson(ctx: Koa.Context, error: HttpError): void {
  ctx.status = error.status;
  ctx.set(error.headers);
  ctx.set('Cache-Control', 'no-store');
  ctx.body = { error: error.code, error_description: error.message };
}
