// Where the browser goes next, by GET: 303, so that a form is never sent on (RFC 9700 section 4.12).
import type Koa from 'koa';

/** Never kept: the same address may lead elsewhere the next time. */
export function seeOther(ctx: Koa.Context, location: string): void {
  ctx.status = 303;
  ctx.redirect(location);
  ctx.set('Cache-Control', 'no-store');
}
