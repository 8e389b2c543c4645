// OAuth errors of the engine with our descriptions and status codes.
import type Koa from 'koa';
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { Reason } from '../../connections/reasons.ts';
import { tooManyRequests } from '../../http/errors.ts';
import { StoreUnavailable } from '../../store/store.ts';

/** `error_description` of `access_denied`, for apps in a browser and on a device. */
export const DENIED_DESCRIPTION = 'the person denied the connection';

/** RFC 6749 section 5.2. The engine's own description is the same for every cause. `reason` is recorded in the grant. */
export function invalidGrant(description: string, reason?: Reason): Error {
  const error = new errors.InvalidGrant(description);
  return Object.assign(error, { error_description: description, ...(reason ? { reason } : {}) });
}

/** 401 (RFC 6749 section 5.2, RFC 7521 section 4.2.1). */
export function invalidClientAuth(description: string, cause?: Error): Error {
  const error = new errors.InvalidClientAuth(description);
  return Object.assign(error, { error_description: description, ...(cause ? { cause } : {}) });
}

/** The reason of a refusal; undefined for any other error. */
export function reasonIn(error: unknown): Reason | undefined {
  return error instanceof errors.OIDCProviderError && 'reason' in error
    ? (error.reason as Reason)
    : undefined;
}

/** Makes the engine respond with JSON 503, without a redirect. */
export function temporarilyUnavailable(cause: unknown): Error {
  const error = new errors.TemporarilyUnavailable('try again in a moment');
  return Object.assign(error, {
    cause,
    status: 503,
    statusCode: 503,
    expose: true,
    allow_redirect: false,
  });
}

/** Responds with 429. Sets the headers itself, because the engine sets none from errors. */
export function tooManyAttempts(ctx: KoaContextWithOIDC, seconds: number): Error {
  const { status, message, headers } = tooManyRequests(seconds);
  ctx.set(headers);
  const error = new errors.TemporarilyUnavailable(message);
  return Object.assign(error, {
    error_description: message,
    status,
    statusCode: status,
    expose: true,
    allow_redirect: false,
  });
}

/** Responds as the engine does to an error of a token request (RFC 6749 section 5.2). Throws any other error. */
export function respondWithError(ctx: Koa.Context, error: unknown): void {
  if (!(error instanceof errors.OIDCProviderError)) throw error;
  ctx.status = error.statusCode;
  ctx.body = { error: error.error, error_description: error.error_description };
}

/** Wraps hooks that read the store: a store error becomes 503 `temporarily_unavailable` instead of 500. */
export function mapStoreErrors<Args extends unknown[], Result>(
  method: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    try {
      return await method(...args);
    } catch (error) {
      throw error instanceof StoreUnavailable ? temporarilyUnavailable(error) : error;
    }
  };
}
