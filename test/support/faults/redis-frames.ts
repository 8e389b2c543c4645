// Splits a byte stream into values of the Redis protocol (RESP2 and RESP3) without parsing them.

const CRLF = '\r\n';
const TEXTS = '$!=';
const LISTS: Record<string, number> = { '*': 1, '~': 1, '>': 1, '%': 2 };

/** Takes chunks and returns the raw bytes of each complete value. */
export function createFrameParser(): (chunk: Buffer) => Buffer[] {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    const frames: Buffer[] = [];
    for (let end = endOfValue(rest, 0); end !== undefined; end = endOfValue(rest, 0)) {
      frames.push(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
    return frames;
  };
}

/** The end of the value that starts at `start`; undefined if it is incomplete. */
function endOfValue(bytes: Buffer, start: number): number | undefined {
  const endOfLine = bytes.indexOf(CRLF, start);
  if (endOfLine < 0) return undefined;
  const type = String.fromCharCode(bytes[start] ?? 0);
  const size = Number(bytes.toString('latin1', start + 1, endOfLine));
  const end = endOfLine + CRLF.length;
  if (TEXTS.includes(type)) return size < 0 ? end : within(bytes, end + size + CRLF.length);
  const perItem = LISTS[type];
  return perItem === undefined ? end : endOfValues(bytes, end, size * perItem);
}

function endOfValues(bytes: Buffer, start: number, count: number): number | undefined {
  let end: number | undefined = start;
  for (let i = 0; i < count && end !== undefined; i++) end = endOfValue(bytes, end);
  return end;
}

function within(bytes: Buffer, end: number): number | undefined {
  return end <= bytes.length ? end : undefined;
}

/** RESP3: a message that is not a reply to a command. */
export function isPush(frame: Buffer): boolean {
  return frame[0] === '>'.charCodeAt(0);
}

/** The arguments of a command, which is an array of bulk strings. */
export function wordsOf(frame: Buffer): Buffer[] {
  const words: Buffer[] = [];
  let at = frame.indexOf(CRLF) + CRLF.length;
  while (at < frame.length) {
    const endOfLine = frame.indexOf(CRLF, at);
    const size = Number(frame.toString('latin1', at + 1, endOfLine));
    const start = endOfLine + CRLF.length;
    words.push(frame.subarray(start, start + size));
    at = start + size + CRLF.length;
  }
  return words;
}
