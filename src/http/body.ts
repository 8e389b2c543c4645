import type { IncomingMessage } from 'node:http';
import type Koa from 'koa';
import { HttpError } from './errors.ts';
import { discard, paceReading } from './large-bodies.ts';

const MAX_FORM_BYTES = 64 * 1024;

/** Reads the body of a request or response. Throws `tooLarge()` as soon as more than `maxBytes` arrive. */
export async function readBytes(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  tooLarge: () => Error,
): Promise<Buffer<ArrayBuffer>> {
  return Buffer.concat(await Array.fromAsync(limitBytes(body, maxBytes, tooLarge)));
}

async function* limitBytes(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  tooLarge: () => Error,
): AsyncGenerator<Uint8Array, undefined> {
  let received = 0;
  for await (const chunk of body) {
    received += chunk.length;
    if (received > maxBytes) throw tooLarge();
    yield chunk;
  }
  return undefined;
}

function bodyTooLarge(maxBytes: number): HttpError {
  const message = `the request body is larger than ${maxBytes} bytes`;
  return new HttpError(413, 'invalid_request', message);
}

/** The most bytes that the body can have. Throws 413. */
export function requireLength(ctx: Koa.Context, maxBytes: number): number {
  refuseDeclaredLength(ctx, maxBytes);
  return ctx.request.length ?? maxBytes;
}

/** Decodes UTF-8. Throws 413. */
export function readText(ctx: Koa.Context, maxBytes: number): Promise<string> {
  refuseDeclaredLength(ctx, maxBytes);
  return readRequest(ctx.req, maxBytes);
}

/** Listens to events, because the iterator of a stream takes longer than the rest of a small request. Discards what comes above the limit. */
function readRequest(req: IncomingMessage, maxBytes: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let chunks: Buffer[] = [];
    let received = 0;
    const read = (chunk: Buffer) => {
      received += chunk.length;
      chunks.push(chunk);
      if (received <= maxBytes) return paceReading(req, received, chunk.length);
      req.off('data', read);
      discard(req);
      chunks = [];
      reject(bodyTooLarge(maxBytes));
    };
    req.on('data', read);
    req.on('end', () => {
      resolve((chunks[1] ? Buffer.concat(chunks) : chunks[0])?.toString('utf8') ?? '');
      // The request lives as long as its response.
      chunks = [];
    });
    req.on('error', reject);
    req.on('close', () => {
      if (!req.readableEnded) reject(new Error('the request was aborted'));
    });
  });
}

/** Parses `application/x-www-form-urlencoded`. Uses the first value of a repeated field. Throws 413 and 415. */
export async function readForm(
  ctx: Koa.Context,
  maxBytes = MAX_FORM_BYTES,
): Promise<Record<string, string>> {
  if (!ctx.is('application/x-www-form-urlencoded')) {
    throw new HttpError(415, 'invalid_request', 'send a form (application/x-www-form-urlencoded)');
  }
  const form: Record<string, string> = Object.create(null);
  for (const [name, value] of new URLSearchParams(await readText(ctx, maxBytes)))
    form[name] ??= value;
  return form;
}

/** Parses `application/json`. Throws 400, 413 and 415. */
export async function readJson(ctx: Koa.Context, maxBytes = MAX_FORM_BYTES): Promise<unknown> {
  if (!ctx.is('application/json'))
    throw new HttpError(415, 'invalid_request', 'send JSON (application/json)');
  const text = await readText(ctx, maxBytes);
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new HttpError(400, 'invalid_request', 'the request body is not JSON', { cause });
  }
}

/** Refuses larger bodies that a later step reads (413): at once by `Content-Length`, otherwise as the bytes arrive. */
export function limitBody(maxBytes: number): Koa.Middleware {
  return async function bodyLimit(ctx, next) {
    refuseDeclaredLength(ctx, maxBytes);
    if (ctx.request.length !== undefined) return next();
    const reading = limitIterator(ctx.req, maxBytes);
    await next();
    if (reading.isTooLarge) throw bodyTooLarge(maxBytes);
  };
}

function refuseDeclaredLength(ctx: Koa.Context, maxBytes: number): void {
  if ((ctx.request.length ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
}

/** The engine reads bodies with `req.iterator`, and responds to its errors itself. */
function limitIterator(req: IncomingMessage, maxBytes: number): { isTooLarge: boolean } {
  const reading = { isTooLarge: false };
  const iterator = req.iterator.bind(req);
  req.iterator = (options) =>
    limitBytes(iterator(options), maxBytes, () => {
      reading.isTooLarge = true;
      return bodyTooLarge(maxBytes);
    });
  return reading;
}
