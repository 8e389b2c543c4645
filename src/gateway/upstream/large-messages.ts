// Reads large messages of the upstream without building the values that nobody here reads: their bytes are validated, and passed on as they are.
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { nextTurn } from '../event-loop.ts';
import { READ_MEMBERS } from './filter.ts';
import { JsonScanner } from './json-scanner.ts';
import { MAX_JSON, parseMessages, type ReadMessages, requireSimple } from './messages.ts';

/** Bytes. The parser of the runtime reads smaller messages as fast. */
export const LARGE_MESSAGE = 16 * 1024;
/** Of runs of members that nobody reads. With more of them, all is parsed: each takes longer than to parse a small one. */
const MAX_UNREAD = 1000;
/** Or characters: a few milliseconds of work. */
const BYTES_PER_TURN = 512 * 1024;

/** In place of members that nobody reads, the messages have one with a secret name. */
export type LargeMessages = ReadMessages & { unread: readonly Buffer[] };

export const NOTHING_UNREAD: readonly Buffer[] = [];

/** Throws if the call that the messages are for has ended. */
type RequireActive = () => void;

/** Like `readMessages`: parses the same values from what is left. */
export async function readLargeBody(
  body: Buffer,
  requireActive: RequireActive,
): Promise<LargeMessages> {
  const bytes = withoutMark(body);
  return readLarge(
    isUtf8(bytes) ? bytes : await replaceInvalid(bytes, requireActive),
    requireActive,
  );
}

/** Of the data of an event. */
export async function readLargeEvent(
  data: string,
  requireActive: RequireActive,
): Promise<LargeMessages> {
  return readLarge(await encode(data, requireActive), requireActive);
}

async function readLarge(bytes: Buffer, requireActive: RequireActive): Promise<LargeMessages> {
  const scanner = new JsonScanner(bytes, {
    max: MAX_JSON,
    read: READ_MEMBERS,
    maxUnread: MAX_UNREAD,
  });
  do await turnFor(bytes.length, requireActive);
  while (scanner.read(BYTES_PER_TURN));
  requireSimple(scanner.size);
  if (scanner.unread.length > MAX_UNREAD)
    return { ...parseMessages(bytes.toString()), unread: NOTHING_UNREAD };
  const texts: string[] = [];
  const unread: Buffer[] = [];
  let done = 0;
  for (const { start, end } of scanner.unread) {
    texts.push(bytes.toString('utf8', done, start), `"${MARK}${unread.length}":0`);
    unread.push(bytes.subarray(start, end));
    done = end;
  }
  texts.push(bytes.toString('utf8', done));
  const text = texts.join('');
  await turnFor(text.length, requireActive);
  return { ...parseMessages(text), unread };
}

/** Waits for a turn of the event loop if there is much to do. */
async function turnFor(bytes: number, requireActive: RequireActive): Promise<void> {
  const turn = nextTurn(bytes);
  if (!turn) return;
  await turn;
  requireActive();
}

async function replaceInvalid(bytes: Buffer, requireActive: RequireActive): Promise<Buffer> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += BYTES_PER_TURN) {
    await turnFor(bytes.length, requireActive);
    const part = bytes.subarray(at, at + BYTES_PER_TURN);
    parts.push(Buffer.from(decoder.decode(part, { stream: true })));
  }
  return Buffer.concat([...parts, Buffer.from(decoder.decode())]);
}

async function encode(text: string, requireActive: RequireActive): Promise<Buffer> {
  if (text.length <= BYTES_PER_TURN) return Buffer.from(text);
  const parts: Buffer[] = [];
  for (let at = 0, end = 0; at < text.length; at = end) {
    await turnFor(text.length, requireActive);
    end = at + BYTES_PER_TURN;
    if (isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    parts.push(Buffer.from(text.slice(at, end)));
  }
  return Buffer.concat(parts);
}

/** The first half of a character above U+FFFF. */
function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00;
}

/** Nobody outside knows it. */
const MARK = randomUUID();
const MARKED = new RegExp(`"${MARK}(\\d+)":0`);

/** The text of messages, with the unread members in their places. */
export function withUnread(text: string, unread: readonly Buffer[]): (string | Buffer)[] {
  return text.split(MARKED).map((part, n) => (n % 2 === 0 ? part : (unread[Number(part)] ?? part)));
}

const BYTE_ORDER_MARK = Buffer.from('\uFEFF');

/** RFC 8259 section 8.1 lets parsers ignore it. */
function withoutMark(bytes: Buffer): Buffer {
  const { length } = BYTE_ORDER_MARK;
  return bytes.subarray(0, length).equals(BYTE_ORDER_MARK) ? bytes.subarray(length) : bytes;
}
