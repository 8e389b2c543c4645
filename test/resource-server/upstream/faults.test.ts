// An MCP server that is dead, slow, or talks nonsense: the caller is told so in bounded time, and nothing of what it said.
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { expect } from 'chai';
import { call, type RpcResponse } from '../../support/mcp.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';
import {
  resultFor,
  echo,
  event,
  json,
  PING,
  startScriptedUpstream,
  stream,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';
import { until } from '../../store/condition.ts';

const CANARY = 'at /srv/app/secret-canary.js:42';
const SETTINGS = { timeout: '1s', silence: '1s', maxAnswerBytes: 2000 };

function expectFailure({ status, text, rpc, headers }: RpcResponse, expected: number): void {
  expect(status, text).to.equal(expected);
  expect(rpc).to.include({ jsonrpc: '2.0', id: 1 });
  expect(rpc?.error?.message).to.match(/the MCP server behind this address/);
  expect(text).to.not.include('canary');
  expect(headers.has('www-authenticate')).to.equal(false);
}

describe('When the MCP server behind it', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: SETTINGS });
  afterEach(() => behind().upstream.respondWith(echo));

  const ANSWERS: Record<string, [status: number, handle: UpstreamHandler]> = {
    'closes the connection': [502, (req) => req.socket.destroy()],
    'resets the connection': [502, (req) => req.socket.resetAndDestroy()],
    'breaks off in the headers': [502, (req) => req.socket.end('HTTP/1.1 200 OK\r\nContent-Ty')],
    'does not speak HTTP': [502, (req) => req.socket.end(`${CANARY}\r\n\r\n`)],
    'breaks off in the body': [
      502,
      (_req, res) => {
        res.writeHead(200, { 'content-type': 'application/json', 'content-length': 1000 });
        res.write('{"jsonrpc":"2.0"', () => res.destroy());
      },
    ],
    'says nothing': [504, () => undefined],
    'begins an answer and says no more': [
      504,
      (_req, res) => res.writeHead(200, { 'content-type': 'application/json' }).write('{'),
    ],
    'answers with a page': [
      502,
      (_req, res) => res.writeHead(200, { 'content-type': 'text/html' }).end(CANARY),
    ],
    'answers with what is not JSON': [
      502,
      (_req, res) => res.writeHead(200, { 'content-type': 'application/json' }).end(CANARY),
    ],
    'answers with JSON that is no message': [502, (_req, res) => json(res, { canary: CANARY })],
    'answers with an empty batch': [502, (_req, res) => json(res, [])],
    'answers with nothing where an answer is due': [502, (_req, res) => res.writeHead(202).end()],
    'answers with more than is allowed': [
      502,
      (_req, res) => json(res, resultFor(PING, { text: 'x'.repeat(3000) })),
    ],
    'sends the caller elsewhere': [
      502,
      (_req, res) => res.writeHead(307, { location: behind().system.auth }).end(CANARY),
    ],
    'does not believe who calls': [
      502,
      (_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(CANARY),
    ],
    'has an internal error': [502, (_req, res) => res.writeHead(500).end(CANARY)],
    'has an internal error and tells of it in JSON-RPC': [
      502,
      (_req, res) =>
        json(res, { jsonrpc: '2.0', id: 1, error: { code: -32_603, message: CANARY } }, 500),
    ],
    'is unavailable': [502, (_req, res) => res.writeHead(503).end(CANARY)],
    'gives out a session id that is none': [
      502,
      (_req, res) => {
        res.setHeader('mcp-session-id', 'a canary');
        json(res, resultFor(PING));
      },
    ],
  };
  for (const [name, [status, handle]] of Object.entries(ANSWERS)) {
    it(`${name}, the answer is ${status}, and the next call works`, async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith(handle);
      expectFailure(await call(link, token, PING), status);
      behind().upstream.respondWith(echo);
      expect((await call(link, token, PING)).status).to.equal(200);
    });
  }

  const STREAMS: Record<string, UpstreamHandler> = {
    'ends a stream before it answered': (_req, res) => {
      stream(res, event({ jsonrpc: '2.0', method: 'notifications/message', params: {} }));
      res.end();
    },
    'resets a stream': (req, res) => {
      stream(res, ':\n\n');
      setImmediate(() => req.socket.resetAndDestroy());
    },
    'is silent in a stream': (_req, res) => stream(res, ':\n\n'),
    'sends an event that is not JSON': (_req, res) => stream(res, `data: ${CANARY}\n\n`),
    'sends an event that is no message': (_req, res) => stream(res, 'data: 7\n\n'),
    'sends bytes that are no text': (_req, res) => {
      stream(res);
      res.write(Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a, 0x0a]));
    },
    'sends an event without an end': (_req, res) => stream(res, `data: "${'x'.repeat(3000)}`),
  };
  for (const [name, handle] of Object.entries(STREAMS)) {
    it(`${name}, the stream ends with an error for what was not answered`, async () => {
      const { link, token } = await behind().connected('analytics');
      behind().upstream.respondWith(handle);
      const { status, text } = await call(link, token, PING);
      expect(status).to.equal(200);
      const data = /data: (.*)\n\n$/.exec(text)?.[1] ?? '';
      expect(JSON.parse(data)).to.deep.include({ jsonrpc: '2.0', id: 1 });
      expect(JSON.parse(data).error.message).to.match(/the MCP server behind this address/);
      expect(text).to.not.include('canary');
      await behind().upstream.received.at(-1)?.closed;
    });
  }

  it('breaks a stream that can be taken up again, the client is left to do that', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => {
      stream(res, 'id: 1\nretry: 500\ndata: \n\n');
      res.end();
    });
    const { text } = await call(link, token, PING);
    expect(text).to.match(/^id: [\w-]+\.1\nretry: 500\ndata: \n\n$/);
  });

  it('answers with a stream that goes on for longer than the timeout, all of it arrives', async () => {
    const { link, token } = await behind().connected('analytics');
    behind().upstream.respondWith((_req, res) => {
      stream(res);
      let count = 0;
      const timer = setInterval(() => {
        count += 1;
        res.write(': still here\n\n');
        if (count < 7) return;
        clearInterval(timer);
        res.end(event(resultFor(PING)));
      }, 200);
    });
    const { text } = await call(link, token, PING);
    expect(text).to.include('"result":{}');
  });

  it('is not told the rest of a call whose client went away', async () => {
    const { link, token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    const stop = new AbortController();
    behind().upstream.respondWith((_req, res) => stream(res, ':\n\n'));
    const response = await fetch(link, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(PING),
      signal: stop.signal,
    });
    expect(response.status).to.equal(200);
    stop.abort();
    await behind().upstream.received[before]?.closed;
  });

  it('is left waiting by a client that goes away before the answer, it is told so', async () => {
    const { link, token } = await behind().connected('analytics');
    const before = behind().upstream.received.length;
    behind().upstream.respondWith(() => undefined);
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const body = JSON.stringify(PING);
    const sent = fetch(link, { method: 'POST', headers, body, signal: stop.signal });
    const failed = sent.catch(() => 'gone');
    await until('the call is there', () => behind().upstream.received.length > before);
    stop.abort();
    expect(await failed).to.equal('gone');
    await behind().upstream.received[before]?.closed;
  });
});

describe('While the MCP server behind it', () => {
  const away = openNothing();
  const behind = useUpstream(
    async () => ({ ...(await startScriptedUpstream()), url: await away.open() }),
    {
      settings: { timeout: '1s' },
    },
  );
  after(() => away.close());

  it('takes connections and does nothing, every call is 504; is away, 502; and is back, works again', async () => {
    const { link, token } = await behind().connected('analytics');
    expectFailure(await call(link, token, PING), 504);
    await away.close();
    expectFailure(await call(link, token, PING), 502);
    const back = createHttpServer((_req, res) => json(res, resultFor(PING)));
    back.listen(Number(new URL(away.address()).port), '127.0.0.1');
    await once(back, 'listening');
    expect((await call(link, token, PING)).status).to.equal(200);
    back.close();
    back.closeAllConnections();
  });
});

/** Something that takes connections and never says a word. */
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
