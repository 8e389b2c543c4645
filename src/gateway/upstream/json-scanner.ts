// Validates large JSON messages without building their values, and finds the members that nobody here reads.
import { type JsonSize } from '../exact-json.ts';

/** Of members that nobody reads, one after the other: where the first name begins, and where the comma or closing bracket after the last value is. */
export type Range = { start: number; end: number };

const [TAB, LINE_FEED, CARRIAGE_RETURN, SPACE] = [0x09, 0x0a, 0x0d, 0x20];
const [QUOTE, PLUS, COMMA, MINUS, DOT] = [0x22, 0x2b, 0x2c, 0x2d, 0x2e];
const [ZERO, NINE, COLON, BACKSLASH, SMALL_E, SMALL_U] = [0x30, 0x39, 0x3a, 0x5c, 0x65, 0x75];
const [OPENING_BRACKET, CLOSING_BRACKET, OPENING_BRACE, CLOSING_BRACE] = [0x5b, 0x5d, 0x7b, 0x7d];

/** What comes next. */
const VALUE = 0;
const FIRST_ELEMENT = 1;
const NAME = 2;
const FIRST_NAME = 3;
const COLON_NEXT = 4;
const AFTER_VALUE = 5;
const IN_TEXT = 6;
const IN_NAME = 7;

/** By member of a message: the names in its object that are read. Names in the objects of other members all are. */
export type ReadMembers = Readonly<Record<string, ReadonlySet<string>>>;

export type ScanOptions = {
  max: JsonSize;
  read: ReadMembers;
  /** Of ranges. One more is kept, which says that there are too many. */
  maxUnread: number;
};

/** A name in ASCII that is written with escapes has at most so many times its length. */
const BYTES_PER_ESCAPE = 6;
/** Longer names are of no member that is read. */
const LONGEST_NAME = 64;

/** Reads each byte once. The bytes must be UTF-8. */
export class JsonScanner {
  /** In their order. */
  readonly unread: Range[] = [];
  readonly #bytes: Buffer;
  /** The same bytes, aligned: the first word begins `#shift` bytes before the first byte. */
  readonly #words: Int32Array;
  readonly #shift: number;
  readonly #options: ScanOptions;
  /** Of each open bracket: 1 if it is that of an object. */
  readonly #isObject: Uint8Array;
  #at = 0;
  #next = VALUE;
  #depth = 0;
  #values = 1;
  /** The depth of the members of a message, which may be in a batch. */
  #messageDepth = 1;
  #nameStart = 0;
  /** Of the object that comes next, if one does, and of the object of a message's member that is open. */
  #nextNames: ReadonlySet<string> | undefined;
  #names: ReadonlySet<string> | undefined;
  /** Of the members so far that nobody reads; -1 if the last one is read. */
  #unreadStart = -1;
  /** Of the last member. */
  #end = 0;

  constructor(bytes: Buffer, options: ScanOptions) {
    this.#bytes = bytes;
    this.#shift = bytes.byteOffset & 3;
    this.#words = new Int32Array(
      bytes.buffer,
      bytes.byteOffset - this.#shift,
      (bytes.length + this.#shift) >> 2,
    );
    this.#options = options;
    this.#isObject = new Uint8Array(options.max.depth + 2);
  }

  /** What was found so far is larger than `max` if this is. */
  get size(): JsonSize {
    return { depth: this.#depth, values: this.#values };
  }

  /** Reads about so many more bytes. Returns false at the end, and when there is more than the maximum. Throws SyntaxError if it is not JSON. */
  read(length: number): boolean {
    const { max } = this.#options;
    const bytes = this.#bytes;
    const stop = Math.min(this.#at + length, bytes.length);
    let at = this.#at;
    let next = this.#next;
    while (at < stop) {
      if (next >= IN_TEXT) {
        at = endOfText(bytes, this.#words, this.#shift, at, stop);
        if (at >= stop) break;
        if (next === IN_NAME) this.#endName(at);
        next = next === IN_NAME ? COLON_NEXT : AFTER_VALUE;
        at += 1;
        continue;
      }
      const byte = bytes[at] as number;
      if (byte <= SPACE) {
        if (byte !== SPACE && byte !== LINE_FEED && byte !== CARRIAGE_RETURN && byte !== TAB)
          throw notJson(at);
        at += 1;
      } else if (next === AFTER_VALUE) {
        if (this.#depth === 0) throw notJson(at);
        if (byte === COMMA) {
          if (this.#depth === this.#messageDepth + 1) this.#end = at;
          this.#values += 1;
          if (this.#values > max.values) return false;
          next = this.#isObject[this.#depth] === 1 ? NAME : VALUE;
        } else this.#close(byte, at);
        at += 1;
      } else if (next === COLON_NEXT) {
        if (byte !== COLON) throw notJson(at);
        next = VALUE;
        at += 1;
      } else if (next === NAME || next === FIRST_NAME) {
        if (byte === QUOTE) {
          this.#nameStart = at + 1;
          next = IN_NAME;
        } else if (next === FIRST_NAME && byte === CLOSING_BRACE) {
          this.#close(byte, at);
          next = AFTER_VALUE;
        } else throw notJson(at);
        at += 1;
      } else if (byte === CLOSING_BRACKET && next === FIRST_ELEMENT) {
        this.#close(byte, at);
        next = AFTER_VALUE;
        at += 1;
      } else {
        if (this.#nextNames !== undefined) {
          if (byte === OPENING_BRACE) this.#names = this.#nextNames;
          this.#nextNames = undefined;
        }
        if (byte === QUOTE) {
          next = IN_TEXT;
          at += 1;
        } else if (byte === OPENING_BRACE || byte === OPENING_BRACKET) {
          if (!this.#open(byte)) return false;
          next = byte === OPENING_BRACE ? FIRST_NAME : FIRST_ELEMENT;
          at += 1;
        } else {
          at = endOfScalar(bytes, at);
          next = AFTER_VALUE;
        }
      }
    }
    this.#at = at;
    this.#next = next;
    if (at < bytes.length) return true;
    if (next !== AFTER_VALUE || this.#depth > 0) throw notJson(at);
    return false;
  }

  #open(byte: number): boolean {
    const { max } = this.#options;
    const isObject = byte === OPENING_BRACE;
    if (this.#depth === 0) this.#messageDepth = isObject ? 1 : 2;
    this.#depth += 1;
    this.#values += 1;
    if (this.#depth > max.depth || this.#values > max.values) return false;
    this.#isObject[this.#depth] = isObject ? 1 : 0;
    return true;
  }

  #close(byte: number, at: number): void {
    const isObject = this.#isObject[this.#depth] === 1;
    if (byte !== (isObject ? CLOSING_BRACE : CLOSING_BRACKET)) throw notJson(at);
    if (this.#names !== undefined && this.#depth === this.#messageDepth + 1) {
      this.#end = at;
      this.#endUnread();
      this.#names = undefined;
    }
    this.#depth -= 1;
  }

  #endName(end: number): void {
    const depth = this.#depth - this.#messageDepth;
    if (depth === 0) this.#nextNames = this.#namesIn(end);
    else if (depth === 1 && this.#names !== undefined) {
      if (this.#isRead(this.#names, end)) this.#endUnread();
      else if (this.#unreadStart < 0) this.#unreadStart = this.#nameStart - 1;
    }
  }

  #namesIn(end: number): ReadonlySet<string> | undefined {
    const { read } = this.#options;
    if (end - this.#nameStart > LONGEST_NAME) return undefined;
    const name = this.#bytes.toString('latin1', this.#nameStart, end);
    return Object.hasOwn(read, name) ? read[name] : undefined;
  }

  #isRead(names: ReadonlySet<string>, end: number): boolean {
    if (end - this.#nameStart > LONGEST_NAME * BYTES_PER_ESCAPE) return false;
    const name = this.#bytes.toString('utf8', this.#nameStart, end);
    // Equal names must be read or not, however they are written: only then do members of one name stay in their order.
    return names.has(name.includes('\\') ? (JSON.parse(`"${name}"`) as string) : name);
  }

  #endUnread(): void {
    const start = this.#unreadStart;
    if (start >= 0 && this.unread.length <= this.#options.maxUnread)
      this.unread.push({ start, end: this.#end });
    this.#unreadStart = -1;
  }
}

function notJson(at: number): SyntaxError {
  return new SyntaxError(`not JSON at byte ${at}`);
}

/** The index of the quote that ends the text, or of the first character that does not begin before `end`. Throws SyntaxError. */
function endOfText(
  bytes: Buffer,
  words: Int32Array,
  shift: number,
  start: number,
  end: number,
): number {
  let at = start;
  while (at < end) {
    // Few characters to the next escape or to the end are the most usual.
    const near = Math.min(at + NEAR, end);
    while (at < near && SPECIAL[bytes[at] as number] === 0) at += 1;
    if (at === near && at < end) {
      at = endOfPlain(words, shift, at, end);
      while (at < end && SPECIAL[bytes[at] as number] === 0) at += 1;
    }
    if (at >= end || bytes[at] === QUOTE) return at;
    at = endOfEscape(bytes, at);
  }
  return at;
}

/** Of words of four bytes, because a large text is most of a large message. Returns an index at most seven before the next special byte. */
function endOfPlain(words: Int32Array, shift: number, start: number, end: number): number {
  let word = (start + shift) >> 2;
  const last = (end + shift) >> 2;
  while (word < last && !hasSpecial(words[word] as number)) word += 1;
  // The first word may begin before: NEAR bytes there are plain.
  return Math.max(start, (word << 2) - shift);
}

const NEAR = 8;
/** 1 for quotes, backslashes and control characters. */
const SPECIAL = Uint8Array.from({ length: 256 }, (_, byte) =>
  Number(byte < SPACE || byte === QUOTE || byte === BACKSLASH),
);

/** Whether one of four bytes is special: subtraction borrows from the highest bit of a byte that is too small. */
function hasSpecial(word: number): boolean {
  const quotes = word ^ 0x22222222;
  const backslashes = word ^ 0x5c5c5c5c;
  const controls = (word - 0x20202020) & ~word;
  return (
    ((controls | ((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes)) &
      0x80808080) !==
    0
  );
}

const ESCAPES = Buffer.from('"\\/bfnrt');
/** 1 for what may follow a backslash, but for `u`. */
const ESCAPED = Uint8Array.from({ length: 256 }, (_, byte) => Number(ESCAPES.includes(byte)));

/** The index after the escape. Throws SyntaxError if there is none. */
function endOfEscape(bytes: Buffer, start: number): number {
  if (bytes[start] !== BACKSLASH) throw notJson(start);
  const byte = bytes[start + 1] ?? 0;
  if (ESCAPED[byte] === 1) return start + 2;
  if (byte !== SMALL_U) throw notJson(start);
  for (let at = start + 2; at < start + 6; at += 1) if (!isHex(bytes[at])) throw notJson(at);
  return start + 6;
}

function isHex(byte = 0): boolean {
  const letter = byte | 0x20;
  return isDigit(byte) || (letter >= 0x61 && letter <= 0x66);
}

function isDigit(byte = 0): boolean {
  return byte >= ZERO && byte <= NINE;
}

const LITERALS = ['true', 'false', 'null'].map((word) => Buffer.from(word));

/** The index after the number or literal. Throws SyntaxError. */
function endOfScalar(bytes: Buffer, start: number): number {
  const first = bytes[start] as number;
  if (first === MINUS || isDigit(first)) return endOfNumber(bytes, start);
  for (const word of LITERALS)
    if (word[0] === first && word.every((byte, n) => byte === bytes[start + n]))
      return start + word.length;
  throw notJson(start);
}

function endOfNumber(bytes: Buffer, start: number): number {
  const begin = bytes[start] === MINUS ? start + 1 : start;
  let at = bytes[begin] === ZERO ? begin + 1 : endOfDigits(bytes, begin);
  if (bytes[at] === DOT) at = endOfDigits(bytes, at + 1);
  if (((bytes[at] ?? 0) | 0x20) === SMALL_E) {
    const sign = bytes[at + 1];
    at = endOfDigits(bytes, sign === PLUS || sign === MINUS ? at + 2 : at + 1);
  }
  return at;
}

/** The index after at least one digit. Throws SyntaxError. */
function endOfDigits(bytes: Buffer, start: number): number {
  let at = start;
  while (isDigit(bytes[at])) at += 1;
  if (at === start) throw notJson(at);
  return at;
}
