import { EventEmitter } from 'node:events';
import { expect } from 'chai';
import type Koa from 'koa';
import { Lifetime } from '../../../src/gateway/upstream/lifetime.ts';
import { forwardResponse } from '../../../src/gateway/upstream/response.ts';
import { openStream } from '../../../src/gateway/upstream/stream.ts';

const ANSWER = { jsonrpc: '2.0', id: 1, result: { tools: [{ name: 'secret' }] } };

type Response = Parameters<typeof forwardResponse>;
type Stream = Parameters<typeof openStream>;

describe('A call that ends while its answer is filtered', () => {
  let written: string[];
  let ctx: Koa.Context;
  let lifetime: Lifetime;
  beforeEach(() => {
    written = [];
    const res = Object.assign(new EventEmitter(), {
      destroyed: false,
      writeHead: () => undefined,
      flushHeaders: () => undefined,
      write: (text: string) => written.push(String(text)) > 0,
      end: (text = '') => void written.push(String(text)),
    });
    ctx = { res, state: {}, method: 'POST' } as unknown as Koa.Context;
    lifetime = new Lifetime(ctx, 60, () => undefined);
  });

  const revoked = new Error('the connection was revoked');
  let answered: unknown[];
  beforeEach(() => {
    answered = [];
  });
  const common = {
    bindSession: (id: string) => id,
    localResponses: [],
    onAnswer: (message: object) => void answered.push(message),
    requestIds: [1],
    requireActive: () => lifetime.requireActive(),
  };

  it('CNX-18 gets no result in a body', async () => {
    const filter = async (message: object) => {
      lifetime.abort(revoked);
      return message;
    };
    const response = {
      status: 200,
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(ANSWER)),
      ownsBody: false,
      isStream: false as const,
    };
    const forwarding = forwardResponse({ ctx } as unknown as Response[0], response, {
      ...common,
      filter,
      secrets: {},
    } as unknown as Response[2]);
    expect(await forwarding?.catch((error: unknown) => error)).to.equal(revoked);
    expect(written).to.deep.equal([]);
    expect(answered).to.deep.equal([]);
  });

  const notice = { jsonrpc: '2.0', method: 'notifications/message', params: { n: 'secret' } };

  it('CNX-18 gets an error in place of a result in a stream', () => isWithheld([ANSWER]));

  it('CNX-18 gets an error in place of events in a stream', () => isWithheld([notice, ANSWER]));

  async function isWithheld(messages: readonly object[]): Promise<void> {
    const end = new Promise<void>((resolve) => {
      const filter = async (message: object) => {
        lifetime.abort(revoked);
        return message;
      };
      const options = {
        ...common,
        maxEventLength: 10_000,
        answersAny: false,
        holdBytes: () => undefined,
        filter,
        mask: (data: string) => data,
        bindEvent: (id: string) => id,
        onSkipped: () => undefined,
        isListening: false,
        heartbeat: 60,
        onData: () => undefined,
        onEnd: resolve,
        onSuspended: () => undefined,
        onBreak: () => ({
          responseTo: (id: unknown) => ({
            jsonrpc: '2.0',
            id,
            error: { code: 1, message: 'over' },
          }),
          retry: undefined,
          notification: undefined,
        }),
      };
      const control = { pause: () => undefined, resume: () => undefined };
      const headers = { 'content-type': 'text/event-stream' };
      const reader = openStream(ctx, headers, control, options as unknown as Stream[3]);
      lifetime.onAbort({ abort: (reason) => reader.fail(reason) });
      const events = messages.map((each) => `data: ${JSON.stringify(each)}\n\n`);
      reader.read(Buffer.from(events.join('')));
    });
    await end;
    expect(written.join('')).to.contain('over').and.not.contain('secret');
    expect(answered).to.deep.equal([]);
  }
});
