import type Koa from 'koa';

/** Whether the client prefers HTML to what programs read (RFC 9110 section 12.5.1), as browsers do. Adds `Vary: Accept`. */
export function prefersPage(ctx: Koa.Context): boolean {
  ctx.vary('Accept');
  return ctx.accepts('json', 'text/event-stream', 'html') === 'html';
}
