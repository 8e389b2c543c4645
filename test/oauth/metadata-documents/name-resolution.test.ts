import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { expect } from 'chai';
import { resolveName } from '../../../src/http/guarded-request.ts';

const A = 1;
const AAAA = 28;
const NAME_ERROR = 3;

const RECORDS: Record<string, Partial<Record<number, string[]>>> = {
  'both.example.com': { [A]: ['01020304', '7f000001'], [AAAA]: ['26064700'.padEnd(32, '0')] },
  'four.example.com': { [A]: ['01020304'] },
  'six.example.com': { [AAAA]: [`${'0'.repeat(31)}1`] },
};

/** Returns the response to a message with one question. Undefined sends none. */
function answerTo(query: Buffer): Buffer | undefined {
  const labels: string[] = [];
  let at = 12;
  for (let size = query.readUInt8(at); size > 0; size = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + size));
    at += 1 + size;
  }
  const name = labels.join('.').toLowerCase();
  if (name === 'silent.example.com') return undefined;
  const type = query.readUInt16BE(at + 1);
  const found = RECORDS[name]?.[type] ?? [];
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(0x8180 | (name in RECORDS ? 0 : NAME_ERROR), 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(found.length, 6);
  return Buffer.concat([header, query.subarray(12, at + 5), ...found.map(recordOf(type))]);
}

/** Returns a record for the name of the question, with a TTL of a minute. */
function recordOf(type: number): (data: string) => Buffer {
  return (data) => {
    const fixed = Buffer.from('c00c000000010000003c0000', 'hex');
    fixed.writeUInt16BE(type, 2);
    fixed.writeUInt16BE(data.length / 2, 10);
    return Buffer.concat([fixed, Buffer.from(data, 'hex')]);
  };
}

describe('name resolution for metadata documents (RFC 1035)', () => {
  let server: Socket;
  let servers: string[];
  before(async () => {
    server = createSocket('udp4', (query, from) => {
      const answer = answerTo(query);
      if (answer) server.send(answer, from.port, from.address);
    });
    server.bind(0, '127.0.0.1');
    await once(server, 'listening');
    servers = [`127.0.0.1:${server.address().port}`];
  });
  after(() => server.close());

  const resolve = (name: string, signal = new AbortController().signal) =>
    resolveName(name, signal, servers);

  it('a name resolves to all its IPv4 and IPv6 addresses', async () => {
    expect(await resolve('both.example.com')).to.deep.equal([
      '1.2.3.4',
      '127.0.0.1',
      '2606:4700::',
    ]);
  });

  it('a name may have addresses of one family only', async () => {
    expect(await resolve('four.example.com')).to.deep.equal(['1.2.3.4']);
    expect(await resolve('six.example.com')).to.deep.equal(['::1']);
  });

  it('a name that does not exist is an error', async () => {
    const failure = await resolve('none.example.com').catch((error: Error) => error);
    expect(failure).to.have.property('code', 'ENOTFOUND');
  });

  it('resolution stops when the signal aborts, even if the server does not respond', async () => {
    const stop = new AbortController();
    const asked = once(server, 'message');
    const resolution = resolve('silent.example.com', stop.signal).catch((error: Error) => error);
    await asked;
    stop.abort();
    // The resolver's own timeout would end in ETIMEOUT.
    expect(await resolution).to.have.property('code', 'ECANCELLED');
  });
});
