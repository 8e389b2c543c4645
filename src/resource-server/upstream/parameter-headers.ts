// The headers `Mcp-Param-*` of a tool call, which repeat arguments for those who do not read the body (MCP 2026-07-28, SEP-2243).
import type { IncomingHttpHeaders } from 'node:http';
import { LRUCache } from 'lru-cache';
import { HttpError } from '../../http/errors.ts';
import { isObject, membersOf, plainValues } from '../messages.ts';
import type { Message } from './message.ts';

/** Where the value of a header is in the arguments of a call, as the schema of its tool declares it (`x-mcp-header`). */
type Declaration = { header: string; path: readonly string[] };

/**
 * A server may go by the header, and audit and levels go by the body: a header that is passed on repeats the body. The declarations come
 * from the lists of tools that this process has passed on. For a tool in none of them, such as after a restart, a header stands for
 * the argument of its own name. A header that no argument can be found for is left out; an upstream that needs it answers -32020, on
 * which clients list the tools again.
 */
export type ParameterHeaders = {
  learn(tools: readonly unknown[]): void;
  /** What may be passed on. Throws HttpError 400 for a header that says something else than its argument. */
  verified(headers: IncomingHttpHeaders, message: Message): Record<string, string>;
};

const PREFIX = 'mcp-param-';
const MAX_TOOLS = 5000;
const MAX_DEPTH = 20;
const ENCODED = /^=\?base64\?(.*)\?=$/;
/** RFC 9110 section 5.5: others are read in one way here and perhaps in another one there. */
const PLAIN = /^[\t\x20-\x7e]*$/;
/** Without leading zeros, which some parsers read as octal. */
const DECIMAL = /^-?(0|[1-9]\d*)(\.\d+)?$/;

export function openParameterHeaders(): ParameterHeaders {
  const declared = new LRUCache<string, Declaration[]>({ max: MAX_TOOLS });
  return {
    learn(tools) {
      for (const { name, inputSchema } of tools.map(membersOf))
        if (typeof name === 'string') declared.set(name, declarationsIn(inputSchema));
    },
    verified(headers, { method, params }) {
      const sent = Object.entries(headers).filter(([header]) => header.startsWith(PREFIX));
      if (method !== 'tools/call' || sent.length === 0) return {};
      const { name, arguments: given } = membersOf(params);
      const declarations =
        declared.get(String(name)) ??
        declarationsByName(given, new Set(sent.map(([each]) => each)));
      const byHeader = Map.groupBy(declarations, ({ header }) => header);
      const verified = sent.filter(([header, value]) => {
        const mirrored = byHeader.get(header) ?? [];
        if (mirrored.some(({ path }) => !repeats(String(value), valueAt(given, path))))
          throw headerMismatch(header);
        return mirrored.length > 0;
      });
      return Object.fromEntries(verified) as Record<string, string>;
    },
  };
}

/** Only `properties` lead to an argument that always is at the same place. */
function declarationsIn(schema: unknown, path: readonly string[] = []): Declaration[] {
  const { 'x-mcp-header': header, properties } = membersOf(schema);
  const own = typeof header === 'string' ? [{ header: PREFIX + header.toLowerCase(), path }] : [];
  if (path.length === MAX_DEPTH) return own;
  const nested = Object.entries(membersOf(properties)).flatMap(([name, property]) =>
    declarationsIn(property, [...path, name]),
  );
  return [...own, ...nested];
}

/** `wanted`: the headers that were sent, of which there are few; there may be very many arguments. */
function declarationsByName(given: unknown, wanted: ReadonlySet<string>): Declaration[] {
  return Object.keys(membersOf(given)).flatMap((name) =>
    [name, name.replaceAll('_', '-')]
      .map((header) => ({ header: PREFIX + header.toLowerCase(), path: [name] }))
      .filter(({ header }) => wanted.has(header)),
  );
}

function valueAt(given: unknown, path: readonly string[]): unknown {
  return path.reduce((value, name) => {
    const members = membersOf(value);
    return Object.hasOwn(members, name) ? members[name] : undefined;
  }, given);
}

function repeats(header: string, value: unknown): boolean {
  const text = decodedHeader(header);
  if (text === undefined) return false;
  if (typeof value === 'number' && DECIMAL.test(text)) return Number(text) === value;
  const plain = isObject(value) ? plainValues(value) : value;
  return ['string', 'number', 'boolean'].includes(typeof plain) && String(plain) === text;
}

/** The text of a header that repeats the body; undefined when it can be read in more than one way. */
export function decodedHeader(value: string): string | undefined {
  if (!PLAIN.test(value)) return undefined;
  const [, base64] = ENCODED.exec(value) ?? [];
  if (base64 === undefined) return value;
  const bytes = Buffer.from(base64, 'base64');
  const text = bytes.toString('utf8');
  const isCanonical = bytes.toString('base64') === base64 && Buffer.from(text).equals(bytes);
  return isCanonical ? text : undefined;
}

export function headerMismatch(header: string): HttpError {
  return new HttpError(400, 'header_mismatch', `${header} says something else than the body`);
}
