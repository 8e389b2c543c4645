import type Koa from 'koa';

/** Redirects with 303, so that the browser does not send a form again (RFC 9700 section 4.12). The redirect is not cached. */
export function seeOther(ctx: Koa.Context, location: string): void {
  ctx.status = 303;
  ctx.redirect(location);
  ctx.set('Cache-Control', 'no-store');
}
