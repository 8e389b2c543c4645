// Reads large messages of the upstream without building the values that nobody here reads: their bytes are validated, and passed on as they are.
import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { nextTurn } from '../event-loop.ts';
import { READ_MEMBERS } from './filter.ts';
import { JsonScanner } from './json-scanner.ts';
import {
  decodeUtf8,
  MAX_JSON,
  parseMessages,
  type ReadMessages,
  requireSimple,
} from './messages.ts';

/** Bytes. The parser of the runtime reads smaller messages as fast. */
export const LARGE_MESSAGE = 16 * 1024;
/** Of members that are worth it. */
const MIN_UNREAD_LENGTH = 128;
/** A few milliseconds of work. */
const BYTES_PER_TURN = 512 * 1024;

/** In place of members that nobody reads, the messages have one with a secret name. */
export type LargeMessages = ReadMessages & { unread: readonly Buffer[] };

export const NOTHING_UNREAD: readonly Buffer[] = [];

/** Like `readMessages`: parses the same values from what is left. */
export async function readLargeMessages(
  body: Buffer,
  minLength = MIN_UNREAD_LENGTH,
): Promise<LargeMessages> {
  const bytes = withoutMark(isUtf8(body) ? body : Buffer.from(decodeUtf8(body)));
  const scanner = new JsonScanner(bytes, { max: MAX_JSON, read: READ_MEMBERS, minLength });
  do {
    const turn = nextTurn(bytes.length);
    if (turn) await turn;
  } while (scanner.read(BYTES_PER_TURN));
  requireSimple(scanner.size);
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
  const turn = nextTurn(text.length);
  if (turn) await turn;
  return { ...parseMessages(text), unread };
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
