// JSON-RPC 2.0 over HTTP: reads bodies, and responds with errors.
import type Koa from 'koa';
import { readText } from '../http/body.ts';
import { HttpError, respondWithJson } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';

const MAX_MESSAGES = 20;
const MAX_DEPTH = 100;
const LONG_NUMBER = /\d{16}/;
/** Part of ECMAScript 2026, and missing in TypeScript's types. */
const { rawJSON, isRawJSON } = JSON as typeof JSON & {
  rawJSON: (text: string) => { rawJSON: string };
  isRawJSON: (value: unknown) => value is { rawJSON: string };
};

export type ReadOptions = {
  /** Bytes. */
  limit: number;
  /** Keeps integers of any size, as objects that only `JSON.stringify` understands. */
  keepBigIntegers: boolean;
};

/**
 * Returns the parsed body, or undefined if it is not JSON: the MCP handler responds to that. Throws HttpError 413 above the limit, and 400 if
 * the JSON is nested too deeply or a batch has too many messages.
 */
export async function readBody(
  ctx: Koa.Context,
  { limit, keepBigIntegers }: ReadOptions,
): Promise<unknown> {
  const text = await readText(ctx, limit);
  // Checked before parsing, because later steps recurse through the value.
  if (isDeeperThan(text, MAX_DEPTH))
    throw new HttpError(
      400,
      'invalid_request',
      `the JSON is nested more than ${MAX_DEPTH} levels deep`,
    );
  const body = parse(text, keepBigIntegers);
  if (Array.isArray(body) && body.length > MAX_MESSAGES)
    throw new HttpError(400, 'invalid_request', `the batch has more than ${MAX_MESSAGES} messages`);
  return body;
}

function parse(text: string, keepBigIntegers: boolean): unknown {
  try {
    return keepBigIntegers && LONG_NUMBER.test(text)
      ? JSON.parse(text, exactInteger)
      : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** `JSON.stringify` writes an integer that a double cannot represent with its original digits. */
function exactInteger(_name: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  const isRounded = typeof value === 'number' && !Number.isSafeInteger(value);
  return isRounded && source && /^-?\d+$/.test(source) ? rawJSON(source) : value;
}

/** Converts big integers to strings, so that later readers get every digit. */
export function plainValues(value: unknown): unknown {
  const exactText = (_name: string, part: unknown) => (isRawJSON(part) ? part.rawJSON : part);
  return JSON.parse(JSON.stringify(value, exactText));
}

/** Reads each character once. The result is undefined for text that is not JSON. */
function isDeeperThan(text: string, max: number): boolean {
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (isInString && character === '\\') at += 1;
    else if (character === '"') isInString = !isInString;
    else if (!isInString && (character === '[' || character === '{')) depth += 1;
    else if (!isInString && (character === ']' || character === '}')) depth -= 1;
    if (depth > max) return true;
  }
  return false;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns an empty object for anything that is not an object. */
export function membersOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}

/** JSON-RPC 2.0 section 5.1 reserves -32000 to -32099 for the server. */
const REFUSED = -32_000;
const CODES: Readonly<Record<string, number>> = {
  parse_error: -32_700,
  invalid_message: -32_600,
  header_mismatch: -32_020,
};

/** Responds with the HTTP status and, on MCP endpoints, a JSON-RPC error with the error code in `data`. */
export function respondWithJsonRpcError(ctx: Koa.Context, error: HttpError): void {
  respondWithJson(ctx, error);
  if (!/^(\/connect\/[^/]+)?\/mcp$/.test(ctx.path)) return;
  const { id = null, error: upstreamError } = requestContext(ctx).jsonRpc ?? {};
  ctx.body = {
    jsonrpc: '2.0',
    id,
    error: upstreamError ?? {
      code: CODES[error.code] ?? REFUSED,
      message: error.message,
      data: { error: error.code },
    },
  };
}
