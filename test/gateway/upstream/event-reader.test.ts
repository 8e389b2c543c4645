import { expect } from 'chai';
import { openEventReader } from '../../../src/gateway/upstream/messages.ts';

describe('The events of an MCP server', () => {
  /** The params of the messages of a stream that comes in these chunks, and why events were skipped. */
  function read(chunks: readonly Uint8Array[]) {
    const skipped: string[] = [];
    const reader = openEventReader(10_000, (reason) => void skipped.push(reason));
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

  it('a text with U+FFFD arrives wherever its bytes are divided', () => {
    const bytes = eventOf('\uFFFD, é and \uFFFD');
    for (let size = 1; size <= bytes.length; size += 1) {
      const count = Math.ceil(bytes.length / size);
      const chunks = Array.from({ length: count }, (_, n) =>
        bytes.subarray(n * size, (n + 1) * size),
      );
      const expected = { params: [{ text: '\uFFFD, é and \uFFFD' }], skipped: [] };
      expect(read(chunks), `chunks of ${size} bytes`).to.deep.equal(expected);
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
