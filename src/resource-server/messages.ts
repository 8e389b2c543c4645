// The JSON-RPC messages in the body of a call (JSON-RPC 2.0 section 6), with limits on what one request may ask for.
import type Koa from 'koa';
import { readText } from '../http/body.ts';
import { HttpError } from '../http/errors.ts';

const MOST_MESSAGES = 20;
const DEEPEST = 100;
const LONG_NUMBER = /\d{16}/;
/** In the language since 2025, and not yet in the types of the compiler. */
const { rawJSON, isRawJSON } = JSON as typeof JSON & {
  rawJSON: (text: string) => { rawJSON: string };
  isRawJSON: (value: unknown) => value is { rawJSON: string };
};

/** `exactly`: integers of any size are kept, as objects that only `JSON.stringify` understands. */
export type Reading = { exactly: boolean };

/**
 * The parsed body, of at most `limit` bytes. What is not JSON is undefined: the MCP server says so in its own words. Throws
 * HttpError 400 for JSON that is nested too deeply and for too many messages in a batch.
 */
export async function readMessages(
  ctx: Koa.Context,
  limit: number,
  { exactly }: Reading = { exactly: false },
): Promise<unknown> {
  const text = await readText(ctx, limit);
  // Before it is parsed: whatever walks through it afterwards does so by recursion.
  if (isDeeperThan(text, DEEPEST))
    throw new HttpError(
      400,
      'invalid_request',
      `JSON is nested at most ${DEEPEST} levels deep here`,
    );
  const body = parsed(text, exactly);
  if (Array.isArray(body) && body.length > MOST_MESSAGES)
    throw new HttpError(
      400,
      'invalid_request',
      `a batch has at most ${MOST_MESSAGES} messages here`,
    );
  return body;
}

function parsed(text: string, exactly: boolean): unknown {
  try {
    return exactly && LONG_NUMBER.test(text) ? JSON.parse(text, exactInteger) : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What no double holds stays as it was written: `JSON.stringify` writes it again digit by digit. */
function exactInteger(_name: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  const isRounded = typeof value === 'number' && !Number.isSafeInteger(value);
  return isRounded && source && /^-?\d+$/.test(source) ? rawJSON(source) : value;
}

/** As plain values: integers that were kept exactly become text, so that whoever reads them back later has every digit. */
export function plainValues(value: unknown): unknown {
  const exactText = (_name: string, part: unknown) => (isRawJSON(part) ? part.rawJSON : part);
  return JSON.parse(JSON.stringify(value, exactText));
}

/** Each character is looked at once, whatever it is. Of text that is not JSON it may say anything. */
function isDeeperThan(text: string, most: number): boolean {
  let depth = 0;
  let isInString = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (isInString && character === '\\') at += 1;
    else if (character === '"') isInString = !isInString;
    else if (!isInString && (character === '[' || character === '{')) depth += 1;
    else if (!isInString && (character === ']' || character === '}')) depth -= 1;
    if (depth > most) return true;
  }
  return false;
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Every member that an object has, none for anything else. */
export function membersOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}
