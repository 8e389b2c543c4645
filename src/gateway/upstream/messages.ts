// Reads the messages of an upstream as servers really write them, for the proxy and for Gatehouse's own requests.
import {
  createParser,
  type EventSourceMessage,
  type EventSourceParser,
  type ParseError,
} from 'eventsource-parser';
import { type JsonSize, measureJson, parseExact } from '../exact-json.ts';
import { responseTooComplex, responseTooLarge } from '../in-band-error.ts';
import { membersOf } from '../../json-values.ts';
import { isSameId, type MessageId, withoutNulls } from '../json-rpc.ts';
import { printable } from '../../printable-text.ts';

/** The media type without parameters. */
export function mediaType(type: string | null | undefined): string | undefined {
  return type === 'application/json' ? type : type?.split(';', 1)[0]?.trim().toLowerCase();
}

/** Gatehouse asks for `identity` only, so that no byte expands. */
export class CompressedResponse extends Error {
  override name = 'CompressedResponse';
  readonly encoding: string;

  constructor(encoding: string) {
    super(`the response of the upstream is compressed (${encoding})`);
    this.encoding = encoding;
  }
}

/** Throws CompressedResponse. */
export function requireIdentity(encoding: string | null | undefined): void {
  const text = encoding?.trim().toLowerCase() ?? '';
  if (text === '' || text === 'identity') return;
  throw new CompressedResponse(`Content-Encoding: ${printable(text, 40)}`);
}

/** Decodes UTF-8 without a byte order mark, which RFC 8259 section 8.1 lets parsers ignore. Replaces bytes that are not UTF-8. */
const decoder = new TextDecoder();

export function decodeUtf8(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

/** `isBatch` tells how to write them again. */
export type ReadMessages = { messages: readonly RpcMessage[]; isBatch: boolean };
export type RpcMessage = Record<string, unknown>;

/** Parsed values take up to a hundred times the memory of their text. */
export const MAX_JSON: JsonSize = { depth: 1000, values: 1_000_000 };
/** Shorter messages have fewer brackets than this depth takes. */
const MIN_MEASURED_LENGTH = 2 * MAX_JSON.depth;

/** Parses the body of a response. Throws InBandError if it has too many values, and another error if it is anything but JSON-RPC. */
export function readMessages(body: Uint8Array): ReadMessages {
  return parseMeasured(decodeUtf8(body));
}

function parseMeasured(text: string): ReadMessages {
  if (text.length > MIN_MEASURED_LENGTH) requireSimple(measureJson(text, MAX_JSON));
  return parseMessages(text);
}

class NotJsonRpc extends Error {
  override name = 'NotJsonRpc';
}

/** Throws SyntaxError or NotJsonRpc if it is anything but JSON-RPC. */
export function parseMessages(text: string): ReadMessages {
  const parsed = parseExact(text);
  const messages = (Array.isArray(parsed) ? parsed : [parsed]).map(asMessage);
  if (messages.length === 0 || !messages.every((message) => message !== undefined))
    throw new NotJsonRpc('the response of the upstream is not JSON-RPC');
  return { messages, isBatch: Array.isArray(parsed) };
}

/** Throws InBandError. */
export function requireSimple({ depth, values }: JsonSize): void {
  if (values > MAX_JSON.values) throw responseTooComplex(`has more than ${MAX_JSON.values} values`);
  if (depth > MAX_JSON.depth)
    throw responseTooComplex(`is nested more than ${MAX_JSON.depth} levels deep`);
}

export function writeMessages({ messages, isBatch }: ReadMessages): string {
  return JSON.stringify(isBatch ? messages : messages[0]);
}

/** Returns undefined for anything that is not JSON-RPC 2.0. */
function asMessage(value: unknown): RpcMessage | undefined {
  const members = membersOf(withoutNulls(value));
  if (members['jsonrpc'] !== '2.0') return undefined;
  if (!('result' in members || 'error' in members || 'method' in members)) return undefined;
  if (members['id'] !== null) return members;
  const { id: _null, ...others } = members;
  return others;
}

/** A response that also has a method is a response, because a client may read it as one. */
export function isResponse({ method, result, error }: RpcMessage): boolean {
  return result !== undefined || (method === undefined && error !== undefined);
}

/**
 * Returns the messages with the ids of their requests: an error without an id gets that of the only request. Throws if a response answers none
 * of them: on a kept-alive connection, it may be the late response to another caller.
 */
export function matchResponses(
  messages: readonly RpcMessage[],
  requestIds: readonly MessageId[],
): RpcMessage[] {
  const only = requestIds.length === 1 ? requestIds[0] : undefined;
  return messages.map((message) => {
    if (!isResponse(message)) return message;
    const { id, result } = message;
    if (id === undefined && result === undefined)
      return only === undefined ? message : { ...message, id: only };
    if (requestIds.some((requestId) => isSameId(requestId, id))) return message;
    throw new ForeignResponse('the upstream sent a response to another request');
  });
}

/** The connection that it came on must serve no further request. */
export class ForeignResponse extends Error {
  override name = 'ForeignResponse';
}

// Event streams

export type Comment = 'comment';
export type ReceivedEvent = EventSourceMessage & { retry: number | undefined };

const REPLACEMENT = '\uFFFD';
/** Its bytes, one in each character. */
const REPLACEMENT_BYTES = Buffer.from(REPLACEMENT).toString('latin1');
const BYTE_ORDER_MARK = '\uFEFF';

export type SkippedEvents = {
  /** Called for an event that is skipped. */
  onSkipped(reason: string): undefined;
};

/** For readers that need not know what was skipped. */
export const UNREPORTED: SkippedEvents = { onSkipped: () => undefined };

/** A class, because functions of each stream take memory for as long as it lasts. */
export class EventReader {
  readonly #parser: EventSourceParser;
  readonly #skipped: SkippedEvents;
  #received: (ReceivedEvent | Comment)[] = [];
  #retry: number | undefined;
  /** The beginning of a character whose other bytes come in the next chunk. */
  #incomplete: Uint8Array | undefined;
  #hasBegun = false;
  /** A line feed that comes next belongs to it. */
  #endsWithReturn = false;
  #hasInvalidBytes = false;

  /** `maxEventLength` is in characters. */
  constructor(maxEventLength: number, skipped: SkippedEvents) {
    this.#skipped = skipped;
    this.#parser = createParser({
      maxBufferSize: maxEventLength,
      onEvent: (event) => {
        this.#received.push({ ...event, retry: this.#retry });
        this.#retry = undefined;
      },
      // Of a thousand comments together, each would be written.
      onComment: () => {
        if (this.#received.at(-1) !== 'comment') this.#received.push('comment');
      },
      onRetry: (milliseconds) => void (this.#retry = milliseconds),
      onError: (error) => refuseTooLarge(error, maxEventLength),
    });
  }

  /** Returns the events and comments that are complete. Throws if one is too large. */
  read(chunk: Uint8Array): (ReceivedEvent | Comment)[] {
    this.#feed(this.#withLineFeeds(this.#decode(chunk)));
    const received = this.#received;
    this.#received = [];
    return received;
  }

  /** Returns undefined, after `onSkipped`, for an event that SDKs skip: one that is not UTF-8, JSON or JSON-RPC. Throws if it has too many values. */
  messagesIn({ data }: ReceivedEvent): ReadMessages | undefined {
    if (this.#isInvalid(data)) return this.#skipped.onSkipped('is not UTF-8');
    try {
      return parseMeasured(data);
    } catch (error) {
      return this.#skip(error);
    }
  }

  /** The same, where `read` parses the data. */
  async messagesBy<Read extends ReadMessages>(
    read: (data: string) => Promise<Read>,
    { data }: ReceivedEvent,
  ): Promise<Read | undefined> {
    if (this.#isInvalid(data)) return this.#skipped.onSkipped('is not UTF-8');
    try {
      return await read(data);
    } catch (error) {
      return this.#skip(error);
    }
  }

  /** The parser makes an error for each line without a meaning, and its stack takes longer than all else. */
  #feed(text: string): void {
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    try {
      this.#parser.feed(text);
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
    }
  }

  /** The parser looks through all that is left for each carriage return. */
  #withLineFeeds(text: string): string {
    const isDivided = this.#endsWithReturn && text.startsWith('\n');
    if (text !== '') this.#endsWithReturn = text.endsWith('\r');
    const rest = isDivided ? text.slice(1) : text;
    return rest.includes('\r') ? rest.replaceAll(/\r\n?/g, '\n') : rest;
  }

  /** A `TextDecoder` for each stream would take more time and memory. */
  #decode(chunk: Uint8Array): string {
    const bytes = this.#incomplete
      ? Buffer.concat([this.#incomplete, chunk])
      : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    const end = endOfCharacters(bytes);
    // In memory of its own: a part of the chunk, or of a pool, would keep all of that.
    this.#incomplete = end < bytes.length ? new Uint8Array(bytes.subarray(end)) : undefined;
    const text = bytes.toString('utf8', 0, end);
    if (text.includes(REPLACEMENT)) {
      const sent = countOf(bytes.toString('latin1', 0, end), REPLACEMENT_BYTES);
      if (countOf(text, REPLACEMENT) > sent) this.#hasInvalidBytes = true;
    }
    const isFirst = !this.#hasBegun && text !== '';
    if (isFirst) this.#hasBegun = true;
    return isFirst && text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text;
  }

  #isInvalid(data: string): boolean {
    return this.#hasInvalidBytes && data.includes(REPLACEMENT);
  }

  #skip(error: unknown): undefined {
    if (error instanceof SyntaxError) return this.#skipped.onSkipped('is not JSON');
    if (error instanceof NotJsonRpc) return this.#skipped.onSkipped('is not JSON-RPC');
    throw error;
  }
}

/** The index after the last character, without one whose end is missing (RFC 3629 section 3). */
function endOfCharacters(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    const length = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return length > back ? bytes.length - back : bytes.length;
  }
  return bytes.length;
}

function countOf(text: string, part: string): number {
  return text.split(part).length - 1;
}

function refuseTooLarge({ type }: ParseError, maxBytes: number): void {
  if (type === 'max-buffer-size-exceeded') throw responseTooLarge(maxBytes);
}

export function encodeEvent({
  event,
  id,
  data,
  retry,
}: EventSourceMessage & { retry?: number | undefined }): string {
  const lines = [
    ...(event === undefined ? [] : [`event: ${event}`]),
    ...(id === undefined ? [] : [`id: ${id}`]),
    ...(retry === undefined ? [] : [`retry: ${retry}`]),
    ...data.split('\n').map((line) => `data: ${line}`),
  ];
  return `${lines.join('\n')}\n\n`;
}
