import { connect } from 'node:net';
import { expect } from 'chai';
import { releaseMemory, acquireMemory } from '../../../src/gateway/upstream/body-memory.ts';
import { call } from '../../support/mcp.ts';
import {
  echo,
  json,
  resultFor,
  startScriptedUpstream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const MEGABYTE = 1024 * 1024;
/** Together more than the buffers of a connection on loopback. */
const UNREAD_CALLS = 12;
const OTHER_CALLS = 12;

/** About a megabyte, of another size for each. */
function textFor(id: number): string {
  return `${id} `.padStart(8, '0').repeat(125_000 + 100 * (id % 7));
}

describe('The memory of large answers', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  it('UPS-29 the memory of an answer is not reused before the client has read it, or the bytes of another caller would be in it', async () => {
    const { upstream, connected } = behind();
    const [reader, other] = [await connected('full'), await connected('full')];
    upstream.respondWith((_req, res, body) => {
      const { id } = body as { id: number };
      json(res, resultFor({ id }, { content: [{ type: 'text', text: textFor(id) }] }));
    });
    const unread = sendWithoutReading(
      reader,
      Array.from({ length: UNREAD_CALLS }, (_, n) => n),
    );
    for (let id = 100; id < 100 + OTHER_CALLS; id += 1) {
      const { text } = await call(other.link, other.token, toolCall('whoami', id));
      expect(text.includes(textFor(id)), `answer ${id}`).to.equal(true);
    }
    const read = await unread.read();
    for (let id = 0; id < UNREAD_CALLS; id += 1)
      expect(read.includes(`"${textFor(id)}"`), `answer ${id}`).to.equal(true);
  });

  it('the memory of an answer is reused for one of about the same size, up to 16 MB together, at most 64 kB larger than needed', () => {
    const first = acquireMemory(MEGABYTE - 100);
    expect(first.length).to.equal(MEGABYTE);
    releaseMemory(first.subarray(0, 10));
    expect(acquireMemory(MEGABYTE - 50_000).buffer).to.equal(first.buffer);
    expect(acquireMemory(MEGABYTE).buffer).to.not.equal(first.buffer);
    releaseMemory(first);
    const many = Array.from({ length: 16 }, () => acquireMemory(MEGABYTE + 1));
    many.forEach(releaseMemory);
    const lengths = [first, ...many].map(({ length }) => length);
    expect(lengths.filter((length) => length === 0)).to.have.length(lengths.length - 15);
    const large = acquireMemory(3 * MEGABYTE);
    releaseMemory(large);
    expect(large.length).to.equal(0);
  });
});

type Caller = { link: string; token: string };

/** Calls one after the other on one connection. */
function sendWithoutReading({ link, token }: Caller, ids: readonly number[]) {
  const { host, port, pathname } = new URL(link);
  const socket = connect({ host: '127.0.0.1', port: Number(port) });
  for (const id of ids) {
    const body = JSON.stringify(toolCall('whoami', id));
    const headers = [
      `POST ${pathname} HTTP/1.1`,
      `Host: ${host}`,
      `Authorization: Bearer ${token}`,
      'Accept: application/json, text/event-stream',
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      ...(id === ids.at(-1) ? ['Connection: close'] : []),
    ];
    socket.write(`${headers.join('\r\n')}\r\n\r\n${body}`);
  }
  return {
    async read() {
      const chunks: Buffer[] = [];
      for await (const chunk of socket) chunks.push(chunk);
      return Buffer.concat(chunks).toString();
    },
  };
}
