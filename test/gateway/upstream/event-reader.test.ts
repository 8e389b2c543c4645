import { expect } from 'chai';
import { EventReader } from '../../../src/gateway/upstream/messages.ts';

describe('The events of an MCP server', () => {
  /** The params of the messages of a stream that comes in these chunks, and why events were skipped. */
  function read(chunks: readonly Uint8Array[]) {
    const skipped: string[] = [];
    const reader = new EventReader(10_000, {
      onSkipped: (reason) => void skipped.push(reason),
    });
    const events = chunks.flatMap((chunk) => reader.read(chunk));
    const params = events.flatMap((event) =>
      event === 'comment'
        ? []
        : (reader.messagesIn(event)?.messages.map((message) => message['params']) ?? []),
    );
    return { params, skipped };
  }

  const eventOf = (text: string) =>
    Buffer.from(`data: ${JSON.stringify({ jsonrpc: '2.0', method: 'm', params: { text } })}\n\n`);

  function inChunks(bytes: Uint8Array, size: number): Uint8Array[] {
    const count = Math.ceil(bytes.length / size);
    return Array.from({ length: count }, (_, n) => bytes.subarray(n * size, (n + 1) * size));
  }

  it('a text with U+FFFD, and characters of two to four bytes, arrives wherever its bytes are divided', () => {
    const text = '\uFFFD, é, 😀 and \uFFFD';
    const bytes = eventOf(text);
    for (let size = 1; size <= bytes.length; size += 1) {
      const expected = { params: [{ text }], skipped: [] };
      expect(read(inChunks(bytes, size)), `chunks of ${size} bytes`).to.deep.equal(expected);
    }
  });

  it('lines end with any line end, wherever its bytes are divided', () => {
    const [text, next] = ['one', 'two'];
    for (const end of ['\n', '\r\n', '\r']) {
      const lines = ['data: {"jsonrpc":"2.0",', 'data: "method":"m",', 'data: "params":', 'data: '];
      const bytes = Buffer.from(
        [text, next]
          .map(
            (each) =>
              `${[...lines, ''].join(end).slice(0, -end.length)}${JSON.stringify({ text: each })}}${end}${end}`,
          )
          .join(''),
      );
      for (let size = 1; size <= bytes.length; size += 1)
        expect(read(inChunks(bytes, size)), `chunks of ${size} bytes`).to.deep.equal({
          params: [{ text }, { text: next }],
          skipped: [],
        });
    }
  });

  it('comments that come together are one', () => {
    const reader = new EventReader(10_000, { onSkipped: () => undefined });
    const events = reader.read(Buffer.from(`${':\n'.repeat(1000)}data: 1\n\n${':\n'.repeat(3)}`));
    expect(events.map((event) => (event === 'comment' ? event : event.data))).to.deep.equal([
      'comment',
      '1',
      'comment',
    ]);
  });

  it('errors have their stacks again after a stream with lines that mean nothing, and after one that is too large', () => {
    const limit = Error.stackTraceLimit;
    const reader = new EventReader(10, { onSkipped: () => undefined });
    expect(reader.read(Buffer.from('xxx:\nretry: x\n'))).to.deep.equal([]);
    expect(() => reader.read(Buffer.from(`data: ${'x'.repeat(100)}`))).to.throw('10 bytes');
    expect(limit).to.be.above(0);
    expect(Error.stackTraceLimit).to.equal(limit);
  });

  it('a byte order mark is ignored at the beginning only', () => {
    const text = '\uFEFF and \uFEFF';
    const bytes = Buffer.concat([Buffer.from('\uFEFF'), eventOf(text), eventOf(text)]);
    for (let size = 1; size <= bytes.length; size += 1) {
      const expected = { params: [{ text }, { text }], skipped: [] };
      expect(read(inChunks(bytes, size)), `chunks of ${size} bytes`).to.deep.equal(expected);
    }
  });

  it('an event that ends within a character is skipped, and the next one is read', () => {
    const cut = eventOf('€?');
    const at = cut.indexOf('?');
    const bytes = Buffer.concat([cut.subarray(0, at - 1), cut.subarray(at), eventOf('next')]);
    for (const size of [1, 2, 3, bytes.length]) {
      const expected = { params: [{ text: 'next' }], skipped: ['is not UTF-8'] };
      expect(read(inChunks(bytes, size)), `chunks of ${size} bytes`).to.deep.equal(expected);
    }
  });

  it('an event with bytes that are not UTF-8 is skipped, also beside a U+FFFD', () => {
    const text = eventOf('\uFFFD?');
    text[text.indexOf('?')] = 0xff;
    const expected = { params: [], skipped: ['is not UTF-8'] };
    expect(read([text])).to.deep.equal(expected);
    expect(read([...text].map((byte) => Uint8Array.of(byte)))).to.deep.equal(expected);
  });
});
