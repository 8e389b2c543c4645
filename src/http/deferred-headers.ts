// Response headers that are written with the status line at once, because setting each of them takes longer than a small response.
import type { ServerResponse } from 'node:http';
import type Koa from 'koa';
import { requestContext } from './request-context.ts';

/** `headers` has names and values in turn. The host sets them when the response begins, or `beginResponse` does. */
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

/** Begins a response with these headers, which are sent with its first bytes. Koa sends nothing of it. */
export function beginResponse(
  ctx: Koa.Context,
  status: number,
  headers: Record<string, string>,
): void {
  const { deferredHeaders = [] } = requestContext(ctx);
  requestContext(ctx).deferredHeaders = undefined;
  ctx.respond = false;
  for (const name in headers) deferredHeaders.push(name, String(headers[name]));
  ctx.res.writeHead(status, deferredHeaders);
}

/** Responds with these pieces of a text, in one write, and these headers. */
export function sendPieces(
  ctx: Koa.Context,
  status: number,
  pieces: readonly (string | Buffer)[],
  headers: Record<string, string>,
): void {
  let bytes = 0;
  for (const piece of pieces) bytes += Buffer.byteLength(piece);
  requestContext(ctx).sentBytes = bytes;
  beginResponse(ctx, status, { ...headers, 'Content-Length': String(bytes) });
  const { res } = ctx;
  const [only, ...others] = pieces;
  if (others.length > 0) {
    res.cork();
    for (const piece of pieces) res.write(piece);
    res.end();
  } else endWith(res, only ?? '', bytes);
}

/** Ends a response with a body of so many bytes. A text in ASCII is written faster if it need not be encoded. */
export function endWith(res: ServerResponse, body: string | Buffer, bytes: number): void {
  if (typeof body === 'string' && body.length === bytes) res.end(body, 'latin1');
  else res.end(body);
}
