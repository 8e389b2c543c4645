// Which requests the body of an HTTP request has, without keeping the body.
import type Koa from 'koa';
import { discard } from '../http/large-bodies.ts';
import { parseExact } from './exact-json.ts';
import { membersOf } from '../json-values.ts';
import { idOf, MAX_MESSAGES, type MessageId } from './json-rpc.ts';

export type RequestOutline = { id: MessageId; method: string };

/** The messages that have a response. */
export type Outline = { isBatch: boolean; requests: RequestOutline[] };

/** Of a parsed body, which may be invalid. */
export function outlineOf(body: unknown): Outline {
  const isBatch = Array.isArray(body);
  return { isBatch, requests: isBatch ? body.flatMap(requestIn) : requestIn(body) };
}

/** Of the text of a body that has been read, without parsing all of it. */
export function outlineOfText(text: string): Outline {
  const scanner = new OutlineScanner(Infinity);
  scanner.read(Buffer.from(text));
  return scanner.outline();
}

function requestIn(message: unknown): RequestOutline[] {
  const id = idOf(message);
  const { method } = membersOf(message);
  return id !== undefined && typeof method === 'string' ? [{ id, method }] : [];
}

/** Of these, the ids are read from so many at the same time: nobody counts the requests that are refused. */
const LARGE_BYTES = 64 * 1024;
const MAX_LARGE = 32;
let large = 0;

/**
 * Reads and discards the body. Resolves to an outline without requests if there is none, if it is too large or not JSON, or while many large ones
 * are read.
 */
export async function readOutline(ctx: Koa.Context, maxBytes: number): Promise<Outline> {
  const isLarge = (ctx.request.length ?? maxBytes) > LARGE_BYTES;
  if (!isLarge) return readAll(ctx, maxBytes);
  if (large >= MAX_LARGE) return NO_REQUESTS;
  large += 1;
  try {
    return await readAll(ctx, maxBytes);
  } finally {
    large -= 1;
  }
}

const NO_REQUESTS: Outline = { isBatch: false, requests: [] };

async function readAll(ctx: Koa.Context, maxBytes: number): Promise<Outline> {
  const scanner = new OutlineScanner();
  let received = 0;
  try {
    const chunks: AsyncIterable<Buffer> = ctx.req.iterator({ destroyOnReturn: false });
    for await (const chunk of chunks) {
      received += chunk.length;
      if (received > maxBytes) break;
      scanner.read(chunk);
    }
    // The client reads the answer when it has sent all.
    discard(ctx.req);
    return scanner.outline();
  } catch {
    return NO_REQUESTS;
  }
}

/** Of a name or a value, in bytes. */
const MAX_TOKEN_LENGTH = 300;
/** Names and values. Each costs more than the bytes of large ones, and nobody counts the requests that are refused. */
const MAX_TOKENS = 500;
/** Bytes outside of strings, and for each string as much as finding its end costs. */
const MAX_WORK = 256 * 1024;
const WORK_PER_STRING = 8;
const [QUOTE, COMMA, COLON, BACKSLASH] = [0x22, 0x2c, 0x3a, 0x5c];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Keeps the members `id` and `method` of each message, however large the others are. */
class OutlineScanner {
  #depth = 0;
  #isBatch = false;
  #isInString = false;
  #isEscaped = false;
  #token: number[] = [];
  #tokens = 0;
  #work = 0;
  #name: unknown;
  #message: Record<string, unknown> = {};
  #requests: RequestOutline[] = [];
  readonly #maxWork: number;

  constructor(maxWork = MAX_WORK) {
    this.#maxWork = maxWork;
  }

  read(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length && this.#tokens <= MAX_TOKENS && this.#work <= this.#maxWork)
      at = this.#isInString ? this.#skipString(chunk, at) : this.#readByte(chunk, at);
  }

  outline(): Outline {
    return { isBatch: this.#isBatch, requests: this.#requests };
  }

  #isOuter(): boolean {
    return this.#depth === (this.#isBatch ? 2 : 1);
  }

  /** To the next quote, which may be an escaped one. Returns the index behind it. */
  #skipString(chunk: Buffer, from: number): number {
    this.#work += WORK_PER_STRING;
    const quote = chunk.indexOf(QUOTE, from);
    const end = quote < 0 ? chunk.length : quote;
    let backslashes = 0;
    while (end - backslashes > from && chunk[end - backslashes - 1] === BACKSLASH) backslashes += 1;
    if (this.#isEscaped && end - backslashes === from) backslashes += 1;
    const isEscaped = backslashes % 2 === 1;
    this.#isEscaped = quote < 0 && isEscaped;
    this.#isInString = quote < 0 || isEscaped;
    this.#keep(chunk, from, end + 1);
    return end + 1;
  }

  #readByte(chunk: Buffer, at: number): number {
    this.#work += 1;
    const byte = chunk[at];
    const isOuter = this.#isOuter();
    if (byte === OPENING_BRACKET || byte === OPENING_BRACE) {
      if (this.#depth === 0) this.#isBatch = byte === OPENING_BRACKET;
      this.#depth += 1;
    } else if (byte === CLOSING_BRACKET || byte === CLOSING_BRACE) {
      if (isOuter) this.#endMessage();
      this.#depth -= 1;
    } else if (isOuter && byte === COLON) this.#name = this.#takeToken();
    else if (isOuter && byte === COMMA) this.#endMember();
    else {
      this.#isInString = byte === QUOTE;
      this.#keep(chunk, at, at + 1);
    }
    return at + 1;
  }

  #keep(chunk: Buffer, from: number, to: number): void {
    if (!this.#isOuter()) return;
    const end = Math.min(to, from + MAX_TOKEN_LENGTH - this.#token.length);
    this.#token.push(...chunk.subarray(from, end));
  }

  #takeToken(): unknown {
    const text = Buffer.from(this.#token).toString('utf8');
    this.#token = [];
    this.#tokens += 1;
    try {
      return parseExact(text);
    } catch {
      return undefined;
    }
  }

  #endMember(): void {
    const value = this.#takeToken();
    if (this.#name === 'id' || this.#name === 'method') this.#message[this.#name] = value;
  }

  #endMessage(): void {
    this.#endMember();
    if (this.#requests.length < MAX_MESSAGES) this.#requests.push(...requestIn(this.#message));
    this.#message = {};
  }
}
