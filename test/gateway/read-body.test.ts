import { Readable } from 'node:stream';
import { expect } from 'chai';
import type Koa from 'koa';
import { limitReached } from '../../src/gateway/in-band-error.ts';
import { readBody } from '../../src/gateway/read-body.ts';
import type { Outline } from '../../src/gateway/request-outline.ts';

describe('A body that was read, and for whose values there is no memory', () => {
  it('DOS-09 is refused with its ids', async () => {
    const list = Array.from({ length: 150_000 }, () => 1);
    const text = JSON.stringify({ method: 'ping', params: { list }, jsonrpc: '2.0', id: 7 });
    const refusal = limitReached('send less', 5);
    let sets = 0;
    const hold = {
      set: () => (++sets === 1 ? undefined : Promise.reject(refusal)),
      reduce: () => undefined,
      bytes: 0,
      release: () => undefined,
    };
    const outlines: Outline[] = [];
    const ctx = {
      req: Readable.from([Buffer.from(text)]),
      request: { length: text.length },
      state: {},
    } as unknown as Koa.Context;
    const reading = readBody(ctx, {
      limit: 1_000_000,
      keepBigIntegers: false,
      hold,
      onRefused: (outline) => void outlines.push(outline),
    });
    expect(await reading.catch((error: unknown) => error)).to.equal(refusal);
    expect(outlines).to.deep.equal([{ isBatch: false, requests: [{ id: 7, method: 'ping' }] }]);
  });
});
