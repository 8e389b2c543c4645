import type Koa from 'koa';
import { HttpError } from './errors.ts';

/**
 * Whether a page of another origin than that of `url` sent the request. Older browsers and programs send no `Origin`. Where a proxy sets
 * `Referrer-Policy: no-referrer`, browsers send `Origin: null` with the forms of our own pages; `Sec-Fetch-Site`, which no page can set, then
 * tells them from those of other pages.
 */
export function isFromOtherOrigin(ctx: Koa.Context, url: string): boolean {
  const { origin } = ctx.req.headers;
  if (origin === undefined || origin === new URL(url).origin) return false;
  return origin !== 'null' || ctx.get('Sec-Fetch-Site') !== 'same-origin';
}

/** Rejects cross-site form posts by `Origin` and `Sec-Fetch-Site`. Older browsers omit these headers, so absent ones pass. */
export function requireSameOrigin(ctx: Koa.Context, url: string): void {
  const site = ctx.get('Sec-Fetch-Site');
  if (isFromOtherOrigin(ctx, url) || (site !== '' && site !== 'same-origin'))
    throw new HttpError(403, 'forbidden', 'the form was sent from another site');
}
