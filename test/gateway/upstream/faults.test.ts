import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { expect } from 'chai';
import { call, isLimited, postBody, type RpcResponse } from '../../support/mcp.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';
import {
  resultFor,
  echo,
  event,
  json,
  PING,
  type ScriptedUpstream,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { type UpstreamSystem, useUpstream } from '../../support/upstream/system.ts';
import { until } from '../../support/until.ts';

const CANARY = 'at /srv/app/secret-canary.js:42';

function expectFailure({ status, text, rpc, headers }: RpcResponse, expected: number): void {
  expect(status, text).to.equal(expected);
  expect(rpc).to.include({ jsonrpc: '2.0', id: 1 });
  expect(rpc?.error?.message).to.match(/the MCP server behind this address/);
  expect(text).to.not.include('canary');
  expect(headers.has('www-authenticate')).to.equal(false);
}

/** Calls with this response to come: the stream ends with an error for the pending request. */
async function expectBrokenStream(
  { upstream, connected }: UpstreamSystem<ScriptedUpstream>,
  handle: UpstreamHandler,
): Promise<void> {
  const { link, token } = await connected('analytics');
  upstream.respondWith(handle);
  const { status, text } = await call(link, token, PING);
  expect(status).to.equal(200);
  const data = /data: (.*)\n\n$/.exec(text)?.[1] ?? '';
  expect(JSON.parse(data)).to.deep.include({ jsonrpc: '2.0', id: 1 });
  expect(JSON.parse(data).error.message).to.match(/the MCP server behind this address/);
  expect(text).to.not.include('canary');
  await upstream.received.at(-1)?.closed;
}

/** A busy machine may answer some calls after the timeout. */
const untilAnswered = (link: string, token: string) =>
  until('a call to succeed', async () => (await call(link, token, PING)).status === 200);

describe('A faulty upstream', () => {
  // No upstream request ends because of a timeout.
  const settings = { maxAnswerBytes: 2000, timeout: '1h', silence: '1h' };
  const behind = useUpstream(startScriptedUpstream, { settings });
  afterEach(() => behind().upstream.respondWith(echo));

  const ANSWERS: Record<string, [status: number, handle: UpstreamHandler]> = {
    'closes the connection': [502, (req) => req.socket.destroy()],
    'resets the connection': [502, (req) => req.socket.resetAndDestroy()],
    'disconnects in the headers': [502, (req) => req.socket.end('HTTP/1.1 200 OK\r\nContent-Ty')],
    'does not speak HTTP': [502, (req) => req.socket.end(`${CANARY}\r\n\r\n`)],
    'disconnects in the body': [
      502,
      (_req, res) => {
        res.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
        res.write('{"jsonrpc":"2.0"', () => res.destroy());
      },
    ],
    'responds with HTML': [
      502,
      (_req, res) => res.writeHead(200, { 'content-type': 'text/html' }).end(CANARY),
    ],
    'responds with invalid JSON': [
      502,
      (_req, res) => res.writeHead(200, { 'content-type': 'application/json' }).end(CANARY),
    ],
    'responds with JSON that is not a message': [502, (_req, res) => json(res, { canary: CANARY })],
    'responds with an empty batch': [502, (_req, res) => json(res, [])],
    'responds with 202 to a request': [502, (_req, res) => res.writeHead(202).end()],
    'responds with 205 and a message': [502, (_req, res) => json(res, resultFor(PING), 205)],
    'responds with 206 and a message': [502, (_req, res) => json(res, resultFor(PING), 206)],
    redirects: [
      502,
      (_req, res) => res.writeHead(307, { location: behind().system.auth }).end(CANARY),
    ],
    'rejects the caller header': [
      502,
      (_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(CANARY),
    ],
    'responds with 500': [502, (_req, res) => res.writeHead(500).end(CANARY)],
    'responds with 500 and a JSON-RPC error': [
      502,
      (_req, res) =>
        json(res, { jsonrpc: '2.0', id: 1, error: { code: -32_603, message: CANARY } }, 500),
    ],
    'responds with a result without an id': [
      502,
      (_req, res) => json(res, { jsonrpc: '2.0', result: { canary: CANARY } }),
    ],
    'compresses its response': [
      502,
      (_req, res) => {
        res.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
        res.end(gzipSync(JSON.stringify(resultFor(PING))));
      },
    ],
    'sends a session id above 4 kB': [
      502,
      (_req, res) => {
        res.setHeader('mcp-session-id', 'x'.repeat(4097));
        json(res, resultFor(PING));
      },
    ],
    'responds with 403': [502, (_req, res) => res.writeHead(403).end(CANARY)],
    'responds with 403 for a scope of its own': [
      502,
      (_req, res) =>
        res
          .writeHead(403, {
            'www-authenticate': 'Bearer error="insufficient_scope", scope="canary:read"',
          })
          .end(),
    ],
    'responds with 410': [502, (_req, res) => res.writeHead(410).end(CANARY)],
    'responds with 421': [502, (_req, res) => res.writeHead(421).end(CANARY)],
    'responds with 503': [502, (_req, res) => res.writeHead(503).end(CANARY)],
    'sends an invalid session id': [
      502,
      (_req, res) => {
        res.setHeader('mcp-session-id', 'a canary');
        json(res, resultFor(PING));
      },
    ],
  };
  for (const [name, [status, handle]] of Object.entries(ANSWERS)) {
    it(`UPS-23 the response is ${status} if the upstream ${name}, and the next call succeeds`, async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith(handle);
      expectFailure(await call(link, token, PING), status);
      behind().upstream.respondWith(echo);
      expect((await call(link, token, PING)).status).to.equal(200);
    });
  }

  const STREAMS: Record<string, UpstreamHandler> = {
    'ends a stream before the response': (_req, res) => {
      stream(res, event({ jsonrpc: '2.0', method: 'notifications/message', params: {} }));
      res.end();
    },
    'resets a stream': (req, res) => {
      stream(res, ':\n\n');
      setImmediate(() => req.socket.resetAndDestroy());
    },
    'sends a response to another request in a stream': (_req, res) =>
      stream(res, event(resultFor({ id: 2 }, { canary: CANARY }))),
  };
  for (const [name, handle] of Object.entries(STREAMS))
    it(`the stream ends with an error for the pending request if the upstream ${name}`, async () => {
      await expectBrokenStream(behind(), handle);
    });

  it('UPS-17 a response to another request is a 502, and no further request uses its connection', async () => {
    const { link, token } = await behind().connected('analytics');
    const ports: (number | undefined)[] = [];
    const answers =
      (id: number): UpstreamHandler =>
      (req, res) => {
        ports.push(req.socket.remotePort);
        return json(res, resultFor({ id }, { canary: CANARY }));
      };
    behind().upstream.respondWith(answers(1));
    expect((await call(link, token, PING)).status).to.equal(200);
    behind().upstream.respondWith(answers(2));
    expectFailure(await call(link, token, PING), 502);
    behind().upstream.respondWith(answers(1));
    expect((await call(link, token, PING)).status).to.equal(200);
    expect(ports[1]).to.equal(ports[0]);
    expect(ports[2]).to.not.equal(ports[0]);
  });

  it('a response whose id is the text of a number is forwarded, because SDKs accept it', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => json(res, resultFor({ id: '1' })));
    expect((await call(link, token, PING)).rpc).to.deep.equal(resultFor({ id: '1' }));
  });

  const SKIPPED: Record<string, Buffer> = {
    'is not JSON': Buffer.from(`data: ${CANARY}\n\n`),
    'is not JSON-RPC': Buffer.from('data: {"type":"heartbeat"}\n\n'),
    'is not an object': Buffer.from('data: null\n\n'),
    'is not UTF-8': Buffer.concat([
      Buffer.from('data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"caf'),
      Buffer.from([0xe9]),
      Buffer.from('"}}\n\n'),
    ]),
  };
  for (const [what, bytes] of Object.entries(SKIPPED))
    it(`an event that ${what} is skipped, and the response after it is forwarded`, async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith((_req, res) => {
        stream(res);
        res.write(bytes);
        res.end(event(resultFor(PING)));
      });
      const { text } = await call(link, token, PING);
      expect(text).to.equal(`:\n\n${event(resultFor(PING))}`);
    });

  it('an event with a character that replaces others is forwarded if the upstream sent it so', async () => {
    const { link, token } = await behind().connected('analytics');
    const message = resultFor(PING, { text: 'caf\uFFFD' });
    behind().upstream.respondWith((_req, res) => void (stream(res), res.end(event(message))));
    expect((await call(link, token, PING)).text).to.equal(event(message));
  });

  const TOO_LARGE: Record<string, UpstreamHandler> = {
    response: (_req, res) => json(res, resultFor(PING, { text: 'x'.repeat(3000) })),
    event: (_req, res) => stream(res, `data: "${'x'.repeat(3000)}`),
  };
  for (const [what, handle] of Object.entries(TOO_LARGE))
    it(`DOS-09 a call whose ${what} is too large gets a tool error that names the limit`, async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith(handle);
      const ask = async (message: object) => {
        const { status, text } = await call(link, token, message);
        await behind().upstream.received.at(-1)?.closed;
        expect(status).to.equal(200);
        return JSON.parse(text.replace(/^[^]*data: /, ''));
      };
      const { id, result } = await ask(toolCall('whoami'));
      expect([id, result.isError]).to.deep.equal([1, true]);
      expect(result.content[0].text).to.include('larger than 2000 bytes');
      expect((await ask(PING)).error.message).to.include('larger than 2000 bytes');
    });

  const inSeconds = (seconds: number) => new Date(Date.now() + seconds * 1000).toUTCString();
  for (const [what, value, expected] of [
    ['seconds', () => '7', 7],
    ['a date', () => inSeconds(1000), 1000],
    ['a date that is over', () => inSeconds(-1000), 1],
    ['neither seconds nor a date', () => 'soon', undefined],
  ] as const)
    it(`Retry-After of an upstream with ${what} is passed on in seconds, with 409, 429 and 503`, async () => {
      const { link, token } = await behind().connected('analytics');
      const ask = async (status: number, message: object) => {
        behind().upstream.respondWith((_req, res) => {
          res.writeHead(status, { 'retry-after': value() }).end(CANARY);
        });
        const response = await call(link, token, message);
        const seconds = response.headers.get('retry-after');
        return { ...response, seconds: seconds === null ? undefined : Number(seconds) };
      };
      const failed = await ask(503, PING);
      expectFailure(failed, 502);
      const refused = await ask(409, PING);
      expect(refused.status).to.equal(409);
      const limited = [await ask(429, PING), await ask(429, toolCall('whoami'))];
      for (const response of limited) expect(isLimited(response), response.text).to.equal(true);
      if (expected === undefined)
        expect([failed.seconds, refused.seconds]).to.deep.equal([undefined, undefined]);
      else
        for (const { seconds } of [failed, refused, ...limited])
          expect(seconds).to.be.within(Math.max(1, expected - 100), expected);
    });

  it('a stream whose response also has a method ends without an error', async () => {
    const { link, token } = await behind().connected('analytics');
    const response = { ...resultFor(PING), method: 'notifications/message' };
    behind().upstream.respondWith((_req, res) => {
      stream(res, event(response));
      res.end();
    });
    expect((await call(link, token, PING)).text).to.equal(event(response));
  });

  it('a resumable stream that breaks ends without an error, so that the client can resume it', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => {
      stream(res, 'id: 1\nretry: 500\ndata: \n\n');
      res.end();
    });
    const { text } = await call(link, token, PING);
    expect(text).to.match(/^id: [\w-]+\.1\nretry: 500\ndata: \n\n$/);
  });

  it('the request body is not forwarded any further after the client disconnects', async () => {
    const { link, token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    const stop = new AbortController();
    behind().upstream.respondWith((_req, res) => stream(res, ':\n\n'));
    const response = await postBody(link, token, JSON.stringify(PING), { signal: stop.signal });
    expect(response.status).to.equal(200);
    stop.abort();
    await behind().upstream.received[before]?.closed;
  });

  it('the upstream request is aborted if the client disconnects before the response', async () => {
    const { link, token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    behind().upstream.respondWith(() => undefined);
    const stop = new AbortController();
    const sent = postBody(link, token, JSON.stringify(PING), { signal: stop.signal });
    const failed = sent.catch(() => 'gone');
    await until(
      'the upstream to receive the call',
      () => behind().upstream.received.length > before,
    );
    stop.abort();
    expect(await failed).to.equal('gone');
    await behind().upstream.received[before]?.closed;
  });
});

describe('A slow upstream', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { timeout: '1s', silence: '1s' } });
  afterEach(() => behind().upstream.respondWith(echo));

  const ANSWERS: Record<string, UpstreamHandler> = {
    'never responds': () => undefined,
    'never completes its response': (_req, res) =>
      res.writeHead(200, { 'content-type': 'application/json' }).write('{'),
  };
  for (const [name, handle] of Object.entries(ANSWERS))
    it(`the response is 504 if the upstream ${name}, and the next call succeeds`, async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith(handle);
      expectFailure(await call(link, token, PING), 504);
      behind().upstream.respondWith(echo);
      await untilAnswered(link, token);
    });

  it('the stream ends with an error for the pending request if the upstream is silent in a stream beyond the timeout', async () => {
    await expectBrokenStream(behind(), (_req, res) => stream(res, ':\n\n'));
  });
});

describe('An upstream that streams for a long time', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { timeout: '1s' } });

  it('a stream that lasts longer than the timeout is forwarded completely', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith(async (_req, res) => {
      stream(res, ': still here\n\n');
      await delay(1100);
      res.end(event(resultFor(PING)));
    });
    // A busy machine may start some responses after the timeout.
    await until('a complete stream', async () =>
      (await call(link, token, PING)).text.includes('"result":{}'),
    );
  });
});

describe('An unavailable upstream', () => {
  const away = openNothing();
  const behind = useUpstream(
    async () => ({ ...(await startScriptedUpstream()), url: await away.open() }),
    {
      settings: { timeout: '1s' },
    },
  );
  after(() => away.close());

  it('calls return 504 while the upstream hangs, 502 while it is down, and succeed when it is back', async () => {
    const { link, token } = await behind().connected('analytics');
    expectFailure(await call(link, token, PING), 504);
    await away.close();
    expectFailure(await call(link, token, PING), 502);
    const back = createHttpServer((_req, res) => json(res, resultFor(PING)));
    back.listen(Number(new URL(away.address()).port), '127.0.0.1');
    await once(back, 'listening');
    await untilAnswered(link, token);
    back.close();
    back.closeAllConnections();
  });
});

/** A server that accepts connections and never sends anything. */
function openNothing() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => void sockets.add(socket));
  let url = '';
  return {
    address: () => url,
    async open() {
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
      return url;
    },
    async close() {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
