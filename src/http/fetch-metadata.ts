// What no person sees starts nothing: HEAD (RFC 9110 section 9.3.2), pages that a browser loads ahead of a click, and those inside of others.
import type Koa from 'koa';
import { HttpError } from './errors.ts';

/**
 * For pages that change something when they are opened. `allow` is what they answer to. A browser asks again once the person goes there.
 * Pictures and frames of any site would else begin sign-ins, and use up what the person's address may do.
 */
export function requireNavigation(allow: string): Koa.Middleware {
  return function unseenRequests(ctx, next) {
    const isAhead = /prefetch|prerender/.test(`${ctx.get('Sec-Purpose')} ${ctx.get('Purpose')}`);
    const isInside = !['', 'document'].includes(ctx.get('Sec-Fetch-Dest'));
    if (ctx.method === 'HEAD' || isAhead || isInside) {
      throw new HttpError(405, 'invalid_request', 'open this page in a browser', {
        headers: { Allow: allow },
      });
    }
    return next();
  };
}
