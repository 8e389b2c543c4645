import type Koa from 'koa';
import { HttpError } from './errors.ts';

/**
 * Rejects requests that do not show a page to a person (Fetch Metadata) with 405: HEAD, prefetch, frames, images. For pages with effects:
 * otherwise any site could start sign-ins, and use up the rate limit of the person's address. `allow` is the `Allow` header.
 */
export function requireNavigation(allow: string): Koa.Middleware {
  return function navigationRequired(ctx, next) {
    const isPrefetch = /prefetch|prerender/.test(`${ctx.get('Sec-Purpose')} ${ctx.get('Purpose')}`);
    const isEmbedded = !['', 'document'].includes(ctx.get('Sec-Fetch-Dest'));
    if (ctx.method === 'HEAD' || isPrefetch || isEmbedded) {
      throw new HttpError(405, 'invalid_request', 'open this page in a browser', {
        headers: { Allow: allow },
      });
    }
    return next();
  };
}
