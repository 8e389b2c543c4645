import type { IncomingMessage } from 'node:http';
import type Koa from 'koa';
import { HttpError } from './errors.ts';

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
export async function readText(ctx: Koa.Context, maxBytes: number): Promise<string> {
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
      if (received <= maxBytes) return pace(req, received, chunk.length);
      // Reads the rest, so that the connection can serve the next request.
      req.off('data', read).resume();
      chunks = [];
      reject(bodyTooLarge(maxBytes));
    };
    req.on('data', read);
    req.once('end', () => {
      resolve((chunks[1] ? Buffer.concat(chunks) : chunks[0])?.toString('utf8') ?? '');
      // The request lives as long as its response.
      chunks = [];
    });
    req.once('error', reject);
    req.once('close', () => {
      if (!req.readableEnded) reject(new Error('the request was aborted'));
    });
  });
}

/** Larger bodies take turns, so that many of them delay no small request. */
const LARGE_BYTES = 64 * 1024;
/** Of large bodies, read in one turn of the event loop. */
const TURN_BYTES = 1024 * 1024;
/** Each sends at most 64 kB in a turn. */
const RESUMED_IN_TURN = TURN_BYTES / LARGE_BYTES;

let readInTurn = 0;
let isNextTurnPlanned = false;
const waiting: IncomingMessage[] = [];

function pace(req: IncomingMessage, received: number, bytes: number): void {
  if (received <= LARGE_BYTES) return;
  readInTurn += bytes;
  if (readInTurn > TURN_BYTES) {
    req.pause();
    waiting.push(req);
  }
  planNextTurn();
}

function planNextTurn(): void {
  if (isNextTurnPlanned) return;
  isNextTurnPlanned = true;
  setImmediate(() => {
    isNextTurnPlanned = false;
    readInTurn = 0;
    for (const req of waiting.splice(0, RESUMED_IN_TURN)) req.resume();
    if (waiting.length > 0) planNextTurn();
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
