// How much an authorization request may hold: all of it is kept while a person signs in, before anybody is known.
import type Koa from 'koa';
import { HttpError } from '../http/errors.ts';

/** Characters as sent; real clients need about 700. */
const MOST_CHARACTERS = 4096;
const MOST_PARAMETERS = 100;
const MOST_IN_STATE = 2048;
const MOST_RESOURCES = 5;
const MOST_SCOPES = 30;

/** Refuses (400, 414) before anything is looked up or stored. */
export const boundedQuery: Koa.Middleware = function queryBounded(ctx, next) {
  if (ctx.querystring.length > MOST_CHARACTERS) {
    const message = `the address is longer than ${MOST_CHARACTERS} characters`;
    throw new HttpError(414, 'invalid_request', message);
  }
  const { state, resource, scope } = ctx.query;
  const sizes: [what: string, size: number, most: number][] = [
    ['parameters', ctx.querystring.split('&').length, MOST_PARAMETERS],
    ['characters in state', String(state ?? '').length, MOST_IN_STATE],
    ['resources', [resource ?? []].flat().length, MOST_RESOURCES],
    ['scopes', String(scope ?? '').split(' ').length, MOST_SCOPES],
  ];
  for (const [what, size, most] of sizes) {
    if (size > most)
      throw new HttpError(400, 'invalid_request', `the request has more than ${most} ${what}`);
  }
  return next();
};
