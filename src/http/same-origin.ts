import type Koa from 'koa';

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
