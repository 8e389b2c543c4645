// Response headers that are written with the status line at once, because setting each of them takes longer than a small response.
import type Koa from 'koa';
import { requestContext } from './request-context.ts';

/** `headers` has names and values in turn. The host sets them when the response begins, or `sendText` does. */
export function deferHeaders(ctx: Koa.Context, headers: string[]): void {
  requestContext(ctx).deferredHeaders = headers;
}

/** Adds a header to those that were deferred, if any. */
export function addHeader(ctx: Koa.Context, name: string, value: string): void {
  const { deferredHeaders } = requestContext(ctx);
  if (deferredHeaders) deferredHeaders.push(name, value);
  else ctx.set(name, value);
}

/** Sets the headers that were deferred, if any. Call it before writing to `ctx.res`. */
export function setDeferredHeaders(ctx: Koa.Context): void {
  const { deferredHeaders: headers = [] } = requestContext(ctx);
  requestContext(ctx).deferredHeaders = undefined;
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = [headers[at], headers[at + 1]];
    if (name === 'Vary') ctx.vary(value);
    else if (!ctx.res.hasHeader(name)) ctx.set(name, value);
  }
}

/** Responds with a text and these headers. */
export function sendText(
  ctx: Koa.Context,
  status: number,
  text: string,
  headers: Record<string, string>,
): void {
  const { deferredHeaders = [] } = requestContext(ctx);
  requestContext(ctx).deferredHeaders = undefined;
  ctx.respond = false;
  for (const name in headers) deferredHeaders.push(name, String(headers[name]));
  const bytes = Buffer.byteLength(text);
  requestContext(ctx).sentBytes = bytes;
  deferredHeaders.push('Content-Length', String(bytes));
  ctx.res.writeHead(status, deferredHeaders);
  ctx.res.end(text);
}
