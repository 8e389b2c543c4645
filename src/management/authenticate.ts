// Who may manage: whoever sends the management key as a bearer token (RFC 6750 section 2.1), and no page of another origin.
import { createHash, timingSafeEqual } from 'node:crypto';
import type Koa from 'koa';
import { HttpError, tooManyRequests } from '../http/errors.ts';
import type { SecretGuard } from '../http/secret-guard.ts';

/** Refuses (403) what a browser sends on behalf of any origin but our own, `null` included. */
export function refuseForeignOrigin(url: string): Koa.Middleware {
  const { origin: own } = new URL(url);
  return function foreignOrigin(ctx, next) {
    const { origin } = ctx.req.headers;
    if (origin !== undefined && origin !== own) {
      throw new HttpError(403, 'access_denied', 'pages of another origin may not manage Gatehouse');
    }
    return next();
  };
}

const SUBJECT = 'management';

/**
 * Refuses every request without the management key (401), before anything else about it is looked at, and for a while (429) whoever tried
 * too many wrong ones.
 */
export function requireAdministrator(key: string, guard: SecretGuard): Koa.Middleware {
  const expected = sha256(key);
  return async function administrator(ctx, next) {
    const [, sent] = /^Bearer +(\S+) *$/i.exec(ctx.req.headers.authorization ?? '') ?? [];
    if (sent === undefined) throw keyRequired(sent);
    const attempt = { address: ctx.state.address, subject: SUBJECT, secret: sent };
    // Hashes are of one length, which the comparison needs and which hides the length of the key.
    const isKey = () => timingSafeEqual(sha256(sent), expected);
    const { isRight, wait } = await guard(attempt, isKey);
    if (wait !== undefined) throw tooManyRequests(wait);
    if (!isRight) throw keyRequired(sent);
    return next();
  };
}

function keyRequired(sent: string | undefined): HttpError {
  const problem =
    sent === undefined ? 'the management key is missing' : 'the management key is wrong';
  const description = `${problem}: send the content of management.key as "Authorization: Bearer <key>"`;
  return new HttpError(401, 'invalid_token', description, {
    headers: { 'WWW-Authenticate': 'Bearer' },
  });
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
