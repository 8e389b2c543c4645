// JSON whose integers keep all digits, without the reviver of `JSON.parse`, which takes ten times as long.
import { randomUUID } from 'node:crypto';
import { rawJSON } from '../json-values.ts';

const LONG_NUMBER = /\d{16}/;

/** Keeps integers of any size, as objects that only `JSON.stringify` understands. Throws SyntaxError. */
export function parseExact(text: string): unknown {
  const marked = replaceBigIntegers(text, (digits) => `["${MARK}${digits}"]`);
  const value: unknown = JSON.parse(marked);
  return marked === text ? value : unmarked(value);
}

/** Converts big integers to strings, so that later readers get every digit. */
export function plainValues(value: unknown): unknown {
  return JSON.parse(replaceBigIntegers(JSON.stringify(value), (digits) => `"${digits}"`));
}

/** Nobody outside knows it. In an array, because a string could be the name of a member, which a number cannot. */
const MARK = randomUUID();

/** Replaces what stands for a big integer. */
function unmarked(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const first: unknown = value[0];
    if (typeof first === 'string' && first.startsWith(MARK))
      return rawJSON(first.slice(MARK.length));
    for (let at = 0; at < value.length; at += 1) value[at] = unmarked(value[at]);
    return value;
  }
  const members = value as Record<string, unknown>;
  for (const name in members) members[name] = unmarked(members[name]);
  return value;
}

/** Replaces integers that a double cannot represent. Text that is not JSON stays so. */
function replaceBigIntegers(text: string, replace: (digits: string) => string): string {
  if (!LONG_NUMBER.test(text)) return text;
  const parts: string[] = [];
  let done = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === MINUS || isDigit(code)) {
      const end = endOfNumber(text, at);
      const number = end - at < 16 ? '' : text.slice(at, end);
      if (INTEGER.test(number) && !Number.isSafeInteger(Number(number))) {
        parts.push(text.slice(done, at), replace(number));
        done = end;
      }
      at = end - 1;
    }
  }
  return done === 0 ? text : parts.join('') + text.slice(done);
}

const INTEGER = /^-?[1-9]\d+$/;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [PLUS, MINUS, DOT] = [0x2b, 0x2d, 0x2e];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];
const COMMA = 0x2c;

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** The index after the number that begins at `start`. */
function endOfNumber(text: string, start: number): number {
  let at = start;
  for (; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const isExponent = (code | 0x20) === 0x65;
    if (!isDigit(code) && code !== DOT && code !== MINUS && code !== PLUS && !isExponent) break;
  }
  return at;
}

/** The index of the quote that ends the string, or the length of the text. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = end;
    while (text.charCodeAt(escapes - 1) === BACKSLASH) escapes -= 1;
    if ((end - escapes) % 2 === 0) return end;
  }
  return text.length;
}

export type JsonSize = { depth: number; values: number };

/**
 * Reads each character once, before a parser builds values that take many times the memory of the text. Counts each member, element and
 * bracket, until there are more than the maximum.
 */
export function measureJson(text: string, max: JsonSize): JsonSize {
  let depth = 0;
  const size = { depth: 0, values: 1 };
  for (let at = 0; at < text.length; at += 1) {
    if (size.values > max.values || depth > max.depth) break;
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COMMA) size.values += 1;
    else if (code === OPENING_BRACKET || code === OPENING_BRACE) {
      depth += 1;
      size.values += 1;
      if (depth > size.depth) size.depth = depth;
    } else if (code === CLOSING_BRACKET || code === CLOSING_BRACE) depth -= 1;
  }
  return size;
}

/** Whether an object has a member twice. Of two, servers may take either. The text must be JSON. */
export function hasRepeatedMember(text: string): boolean {
  /** For each open bracket, the names so far; undefined for lists. */
  const open: (Set<string> | undefined)[] = [];
  let isName = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      const names = isName ? open.at(-1) : undefined;
      if (names) {
        const name = String(JSON.parse(text.slice(at, end + 1)));
        if (names.has(name)) return true;
        names.add(name);
      }
      isName = false;
      at = end;
    } else if (code === OPENING_BRACE || code === OPENING_BRACKET) {
      open.push(code === OPENING_BRACE ? new Set() : undefined);
      isName = code === OPENING_BRACE;
    } else if (code === CLOSING_BRACE || code === CLOSING_BRACKET) open.pop();
    else if (code === COMMA) isName = open.at(-1) !== undefined;
  }
  return false;
}
