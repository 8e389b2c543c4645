import { Readable } from 'node:stream';
import { expect } from 'chai';
import { assert, asyncProperty, integer, record, stringMatching } from 'fast-check';
import type Koa from 'koa';
import { type Outline, readOutline } from '../../src/gateway/request-outline.ts';

function outlineOf(body: string, chunkBytes = body.length): Promise<Outline> {
  const bytes = Buffer.from(body);
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunkBytes) }, (_, n) =>
    bytes.subarray(n * chunkBytes, (n + 1) * chunkBytes),
  );
  const req = Readable.from(chunks);
  const request = { length: bytes.length };
  return readOutline({ req, request } as unknown as Koa.Context, 1_000_000);
}

describe('The outline of a body that was refused before it was read', () => {
  it('DOS-09 has the ids of requests, also after large params', async () => {
    const params = { text: 'x'.repeat(100_000), list: Array.from({ length: 1000 }, () => ({})) };
    const body = { method: 'ping', params, jsonrpc: '2.0', id: 7 };
    expect((await outlineOf(JSON.stringify(body))).requests).to.deep.equal([
      { id: 7, method: 'ping' },
    ]);
    const batch = Array.from({ length: 20 }, (_, id) => ({ ...body, id }));
    expect(
      (await outlineOf(JSON.stringify(batch.map((each) => ({ ...each, params: {} }))))).requests,
    ).to.have.length(20);
  });

  it('DOS-09 is not read from a message with more members than any has, nor from later messages', async () => {
    const members = Array.from({ length: 1000 }, (_, n) => `"m${n}":1`).join(',');
    const { requests } = await outlineOf(`{${members},"id":1,"method":"ping"}`);
    expect(requests).to.deep.equal([]);
    const batch = [{ id: 1, method: 'ping' }, ...Array.from({ length: 1000 }, () => ({ a: 1 }))];
    const found = await outlineOf(JSON.stringify([...batch, { id: 2, method: 'ping' }]));
    expect(found.requests).to.deep.equal([{ id: 1, method: 'ping' }]);
  });

  it('DOS-09 is the same however the body is divided, and whatever its strings contain', async () => {
    const text = stringMatching(/^(?:\\|"|[[\]{},:]|a|é)*$/);
    await assert(
      asyncProperty(
        record({ id: text, text, name: text }),
        integer({ min: 1, max: 9 }),
        async ({ id, text: given, name }, chunkBytes) => {
          const params = { [name]: [given, { id: given, method: 'other' }] };
          const message = { [`x${name}`]: given, method: 'ping', params, id };
          const { requests } = await outlineOf(JSON.stringify(message), chunkBytes);
          expect(requests).to.deep.equal([{ id, method: 'ping' }]);
        },
      ),
    );
  });

  it('DOS-09 is not searched for in more than a part of many small values', async () => {
    const numbers = `[${'1,'.repeat(150_000)}1]`;
    expect(await outlineOf(`{"params":${numbers},"id":1,"method":"ping"}`)).to.deep.include({
      requests: [],
    });
  });

  it('DOS-09 is not read from more than 32 large bodies at the same time', async () => {
    const text = JSON.stringify({ id: 1, method: 'ping', params: { text: 'x'.repeat(100_000) } });
    const outlines = await Promise.all(Array.from({ length: 40 }, () => outlineOf(text)));
    expect(outlines.filter(({ requests }) => requests.length === 1)).to.have.length(32);
    expect((await outlineOf(text)).requests).to.have.length(1);
  });

  it('DOS-09 the rest of a body above the limit is discarded, so that its client can read the answer', async () => {
    const chunks = Array.from({ length: 40 }, () => Buffer.alloc(1000, ' '));
    const req = Readable.from([Buffer.from('{"id":1,"method":"ping"}'), ...chunks]);
    const ctx = { req, request: { length: undefined } } as unknown as Koa.Context;
    const ended = new Promise((resolve) => req.once('end', () => resolve('ended')));
    const broken = new Promise((resolve) => req.once('close', () => resolve('destroyed')));
    expect((await readOutline(ctx, 10_000)).requests).to.deep.equal([{ id: 1, method: 'ping' }]);
    expect(await Promise.race([ended, broken])).to.equal('ended');
  });
});
