// Size limits of authorization requests: the whole request is stored before anyone has authenticated.
import type Koa from 'koa';
import { HttpError } from '../http/errors.ts';

/** In characters; real clients send about 700. */
const MAX_QUERY_LENGTH = 4096;
const MAX_PARAMETERS = 100;
const MAX_STATE_LENGTH = 2048;
const MAX_RESOURCES = 5;
const MAX_SCOPES = 30;

/** Throws 400 or 414 before anything is read or stored. */
export const limitAuthorizationRequest: Koa.Middleware = function authorizationRequestLimited(
  ctx,
  next,
) {
  if (ctx.querystring.length > MAX_QUERY_LENGTH) {
    const message = `the address is longer than ${MAX_QUERY_LENGTH} characters`;
    throw new HttpError(414, 'invalid_request', message);
  }
  const { state, resource, scope } = ctx.query;
  const sizes: [what: string, size: number, max: number][] = [
    ['parameters', ctx.querystring.split('&').length, MAX_PARAMETERS],
    ['characters in state', String(state ?? '').length, MAX_STATE_LENGTH],
    ['resources', [resource ?? []].flat().length, MAX_RESOURCES],
    ['scopes', String(scope ?? '').split(' ').length, MAX_SCOPES],
  ];
  for (const [what, size, max] of sizes) {
    if (size > max)
      throw new HttpError(400, 'invalid_request', `the request has more than ${max} ${what}`);
  }
  return next();
};
