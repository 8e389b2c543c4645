import { EventEmitter } from 'node:events';
import { expect } from 'chai';
import type Koa from 'koa';
import { HttpError } from '../../../src/http/errors.ts';
import { sendWithCredential } from '../../../src/gateway/upstream/forward.ts';
import { Lifetime } from '../../../src/gateway/upstream/lifetime.ts';
import { endWithCredential } from '../../../src/gateway/upstream/without-credential.ts';

type Sent = Parameters<typeof sendWithCredential>;

function newContext(): Koa.Context {
  const res = Object.assign(new EventEmitter(), { destroyed: false });
  return { res, state: {} } as unknown as Koa.Context;
}

/** An exchange whose response never ends. */
function openExchange(status: number) {
  const ended: unknown[] = [];
  return {
    ended,
    response: { status, headers: {}, body: Buffer.alloc(0), ownsBody: false, isStream: false },
    abort: (reason: unknown) => void ended.push(reason),
  };
}

describe('What a call has at the MCP server', () => {
  const newLifetime = (ctx = newContext()) => new Lifetime(ctx, 60, () => undefined);

  it('DOS-13 a response of 401 is ended before the request is sent again, also if the server does not end it', async () => {
    const lifetime = newLifetime();
    const exchanges = [openExchange(401), openExchange(200)];
    let sent = 0;
    const send = async () => {
      const exchange = exchanges[sent++];
      if (!exchange) throw new Error('sent too often');
      lifetime.onAbort(exchange);
      return exchange.response;
    };
    const request = { renewal: { renew: async () => ({}) }, headers: {} };
    const response = await sendWithCredential(
      { send } as unknown as Sent[0],
      request as unknown as Sent[1],
      {} as Sent[2],
      lifetime,
    );
    expect(response.status).to.equal(200);
    expect(exchanges.map(({ ended }) => ended.length)).to.deep.equal([1, 0]);
    lifetime.abort(new Error('the end'));
    expect(exchanges.map(({ ended }) => ended.length)).to.deep.equal([1, 1]);
  });

  it('DOS-13 all that was sent for a call ends with it', () => {
    const lifetime = newLifetime();
    const exchanges = [openExchange(200), openExchange(200)];
    exchanges.forEach((exchange) => lifetime.onAbort(exchange));
    lifetime.abort(new Error('the end'));
    expect(exchanges.map(({ ended }) => ended.length)).to.deep.equal([1, 1]);
  });

  it('DOS-13 no credential is watched for a stream whose client has left', () => {
    const ctx = newContext();
    const lifetime = newLifetime(ctx);
    ctx.res.emit('close');
    let watched = 0;
    const credentials = {
      stored: async () => undefined,
      onChange() {
        watched += 1;
        return () => void (watched -= 1);
      },
    };
    type Watched = Parameters<typeof endWithCredential>;
    const begin = () =>
      endWithCredential(
        { credentials } as unknown as Watched[0],
        { ctx, caller: {} } as unknown as Watched[1],
        { epoch: 'one' } as Watched[2],
        lifetime,
      );
    expect(begin).to.throw(HttpError, 'the client disconnected');
    expect(watched).to.equal(0);
  });
});
