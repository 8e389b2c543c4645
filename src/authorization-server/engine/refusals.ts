// The engine's errors with our words: descriptions that a person can act on, and faults that clients wait out.
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { Reason } from '../../grants/reasons.ts';
import { tooManyRequests } from '../../http/errors.ts';
import { StoreUnavailable } from '../../store/store.ts';

/** RFC 6749 section 5.2; the engine's own description is the same for every cause. `reason`: what is noted in the grant. */
export function invalidGrant(description: string, reason?: Reason): Error {
  const error = new errors.InvalidGrant(description);
  return Object.assign(error, { error_description: description, ...(reason ? { reason } : {}) });
}

/** What a refusal of ours says about why; undefined for any other error. */
export function reasonOf(error: unknown): Reason | undefined {
  return error instanceof errors.InvalidGrant && 'reason' in error
    ? (error.reason as Reason)
    : undefined;
}

/** Shaped so that the engine answers with JSON 503 and never redirects with it. */
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

/** The same for a client that was wrong too often. The engine sets no headers from errors. */
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

/** For all that the engine calls and that reads the store: what else comes out of there the engine takes for a fault in the program. */
export function guarded<Args extends unknown[], Result>(
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
