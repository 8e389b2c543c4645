import { expect } from 'chai';
import {
  echo,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

describe('Streams on which the upstream sends nothing', () => {
  async function open(message?: object): Promise<ReadableStreamDefaultReader<string>> {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => stream(res));
    const { body } = await fetch(link, {
      method: message ? 'POST' : 'GET',
      headers: {
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
      },
      ...(message ? { body: JSON.stringify(message) } : {}),
    });
    if (!body) throw new Error('the response has no body');
    return body.pipeThrough(new TextDecoderStream()).getReader();
  }

  const behind = useUpstream(startScriptedUpstream, { resourceServer: { heartbeat: '1s' } });
  afterEach(() => behind().upstream.respondWith(echo));

  const subscription = {
    jsonrpc: '2.0',
    id: 1,
    method: 'subscriptions/listen',
    params: { notifications: { toolsListChanged: true } },
  };
  for (const [what, message] of [
    ['the stream of a session', undefined],
    ['a subscription', subscription],
    ['a tool call', toolCall('whoami')],
  ] as const)
    it(`${what} gets a comment each time it was idle for the heartbeat`, async () => {
      const reader = await open(message);
      for (let n = 0; n < 3; n += 1) expect((await reader.read()).value).to.equal(':\n\n');
      await reader.cancel();
    });
});

describe('The first byte of a stream that only listens', () => {
  const behind = useUpstream(startScriptedUpstream, { resourceServer: { heartbeat: '10m' } });

  it('is a comment that comes at once', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => stream(res));
    const { body } = await fetch(link, {
      headers: { accept: 'text/event-stream', authorization: `Bearer ${token}` },
    });
    const reader = body?.getReader();
    expect(Buffer.from((await reader?.read())?.value ?? []).toString()).to.equal(':\n\n');
    await reader?.cancel();
  });
});
