// Request bodies, read with a limit: JSON and forms for our own handlers, and a limit on what the engine reads itself.
import type { IncomingMessage } from 'node:http';
import type Koa from 'koa';
import { HttpError } from './errors.ts';

export const FORM_LIMIT = 64 * 1024;

function tooLarge(limit: number): HttpError {
  return new HttpError(413, 'invalid_request', `the request body is larger than ${limit} bytes`);
}

/** Any body, as UTF-8 text. */
export async function readText(ctx: Koa.Context, limit: number): Promise<string> {
  refuseDeclaredLength(ctx, limit);
  const chunks: Buffer[] = [];
  let received = 0;
  for await (const chunk of ctx.req as AsyncIterable<Buffer>) {
    received += chunk.length;
    if (received > limit) throw tooLarge(limit);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** `application/x-www-form-urlencoded`; of a repeated field the first counts. */
export async function readForm(
  ctx: Koa.Context,
  limit = FORM_LIMIT,
): Promise<Record<string, string>> {
  if (!ctx.is('application/x-www-form-urlencoded')) {
    throw new HttpError(415, 'invalid_request', 'send a form (application/x-www-form-urlencoded)');
  }
  const form: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(await readText(ctx, limit))) form[name] ??= value;
  return form;
}

/** Any JSON value. */
export async function readJson(ctx: Koa.Context, limit = FORM_LIMIT): Promise<unknown> {
  if (!ctx.is('application/json'))
    throw new HttpError(415, 'invalid_request', 'send JSON (application/json)');
  const text = await readText(ctx, limit);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new HttpError(400, 'invalid_request', 'the request body is not JSON', { cause });
  }
}

/** Refuses a body of more than `limit` bytes that a later step is going to read: at once by its declared length, else while it is read. */
export function limitBody(limit: number): Koa.Middleware {
  return async function bodyLimit(ctx, next) {
    refuseDeclaredLength(ctx, limit);
    if (ctx.request.length !== undefined) return next();
    const seen = countWhileRead(ctx.req, limit);
    await next();
    if (seen.exceeded) throw tooLarge(limit);
  };
}

function refuseDeclaredLength(ctx: Koa.Context, limit: number): void {
  if ((ctx.request.length ?? 0) > limit) throw tooLarge(limit);
}

/** A body without a declared length is counted as the reader iterates over it, and ends in an error at the limit. */
function countWhileRead(req: IncomingMessage, limit: number): { exceeded: boolean } {
  const seen = { exceeded: false };
  const iterator = req.iterator.bind(req);
  req.iterator = async function* limited(options) {
    let received = 0;
    for await (const chunk of iterator(options) as AsyncIterable<Buffer>) {
      received += chunk.length;
      seen.exceeded = received > limit;
      if (seen.exceeded) throw tooLarge(limit);
      yield chunk;
    }
    return undefined;
  } as typeof req.iterator;
  return seen;
}
