// Authentication of the management API with a management key (RFC 6750 section 2.1).
import { createHash } from 'node:crypto';
import type Koa from 'koa';
import { constantTimeEqual } from '../constant-time.ts';
import { HttpError, tooManyRequests } from '../http/errors.ts';
import type { AttemptLimiter } from '../http/failed-attempts.ts';
import { requestContext } from '../http/request-context.ts';
import { isFromOtherOrigin } from '../http/same-origin.ts';
import type { ManagementKey } from '../settings/management-keys.ts';

/** Rejects requests that a page of another origin sends with 403. */
export function refuseForeignOrigin(url: string): Koa.Middleware {
  return function checkOrigin(ctx, next) {
    if (isFromOtherOrigin(ctx, url)) {
      throw new HttpError(
        403,
        'access_denied',
        'pages of other origins cannot use the management API',
      );
    }
    return next();
  };
}

/** Failed attempts are counted for this subject. */
const SUBJECT = 'management';

/**
 * Rejects requests without a management key with 401, before any other check, and with 429 after too many wrong keys. The request context
 * gets the name and the role of the key.
 */
export function requireManagementKey(
  keys: readonly Pick<ManagementKey, 'name' | 'role' | 'key'>[],
  limiter: AttemptLimiter,
): Koa.Middleware {
  const expected = keys.map(({ name, role, key }) => ({
    digest: sha256(key),
    manager: { by: `key:${name}`, role },
  }));
  return async function authenticate(ctx, next) {
    const [, sent] = /^Bearer +(\S+) *$/i.exec(ctx.req.headers.authorization ?? '') ?? [];
    if (sent === undefined) throw keyError(sent);
    const attempt = { address: requestContext(ctx).address, subject: SUBJECT, secret: sent };
    const digest = sha256(sent);
    // Compares with every key. The comparison reveals lengths, and all digests have the same.
    const [found] = expected.filter((key) => constantTimeEqual(digest, key.digest));
    const { isCorrect, retryAfter } = await limiter(attempt, () => found !== undefined);
    if (retryAfter !== undefined) throw tooManyRequests(retryAfter);
    if (!isCorrect || !found) throw keyError(sent);
    requestContext(ctx).manager = found.manager;
    return next();
  };
}

function keyError(sent: string | undefined): HttpError {
  const problem =
    sent === undefined ? 'the management key is missing' : 'the management key is wrong';
  const description = `${problem}: send the content of management.key as "Authorization: Bearer <key>"`;
  return new HttpError(401, 'invalid_token', description, {
    headers: { 'WWW-Authenticate': 'Bearer' },
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
