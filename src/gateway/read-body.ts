// Reads the JSON of an authenticated request, within the limits of its size and of what is held in memory.
import type Koa from 'koa';
import { readText, requireLength } from '../http/body.ts';
import { HttpError } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';
import { hasRepeatedMember, type JsonSize, measureJson, parseExact } from './exact-json.ts';
import type { Hold } from './held-bytes.ts';
import { MAX_MESSAGES, withoutNulls } from './json-rpc.ts';
import { nextTurn } from './event-loop.ts';
import { type Outline, outlineOfText } from './request-outline.ts';

/** Later steps recurse through the values. */
const MAX_JSON: JsonSize = { depth: 100, values: 200_000 };
/** Of memory, in a parsed body. */
const BYTES_PER_VALUE = 60;

export type ReadOptions = {
  /** Bytes. */
  limit: number;
  /** Keeps integers of any size, as objects that only `JSON.stringify` understands. */
  keepBigIntegers: boolean;
  /** Refuses an object that has a member twice. */
  refuseRepeated?: boolean;
  /** Counts the bytes of the body before they are read, and of its values before it is parsed. */
  hold?: Hold;
  /** Called with the outline of a body whose values wait in vain. */
  onRefused?: (outline: Outline) => void;
};

/**
 * Returns the parsed body, or undefined if it is not JSON: the MCP handler responds to that. Throws HttpError 413 above the limit, and 400 if
 * the JSON is nested too deeply or has too many values, or a batch has too many messages.
 */
export async function readBody(
  ctx: Koa.Context,
  { limit, keepBigIntegers, refuseRepeated = false, hold, onRefused }: ReadOptions,
): Promise<unknown> {
  const wait = hold?.set(requireLength(ctx, limit));
  if (wait) await wait;
  const text = await readText(ctx, limit);
  requestContext(ctx).receivedBytes = ctx.request.length ?? Buffer.byteLength(text);
  const turn = nextTurn(text.length);
  if (turn) await turn;
  const { depth, values } = measureJson(text, MAX_JSON);
  if (depth > MAX_JSON.depth)
    throw tooComplex(`the JSON is nested more than ${MAX_JSON.depth} levels deep`);
  if (values > MAX_JSON.values)
    throw tooComplex(`the JSON has more than ${MAX_JSON.values} values`);
  const waitForValues = hold?.set(text.length + values * BYTES_PER_VALUE);
  if (waitForValues) {
    await waitForValues.catch((error: unknown) => {
      onRefused?.(outlineOfText(text));
      throw error;
    });
    await nextTurn(text.length);
  }
  const parsed = parse(text, keepBigIntegers);
  if (refuseRepeated && parsed !== undefined && hasRepeatedMember(text))
    throw new HttpError(400, 'invalid_message', 'an object of the request has a member twice');
  const body = Array.isArray(parsed) ? parsed.map(withoutNulls) : withoutNulls(parsed);
  if (Array.isArray(body) && body.length > MAX_MESSAGES)
    throw new HttpError(400, 'invalid_request', `the batch has more than ${MAX_MESSAGES} messages`);
  return body;
}

function tooComplex(message: string): HttpError {
  return new HttpError(400, 'invalid_request', message);
}

/** RFC 8259 section 8.1 lets parsers ignore it. */
const BYTE_ORDER_MARK = /^\uFEFF/;

function parse(given: string, keepBigIntegers: boolean): unknown {
  const text = given.replace(BYTE_ORDER_MARK, '');
  try {
    return keepBigIntegers ? parseExact(text) : JSON.parse(text);
  } catch {
    return undefined;
  }
}
