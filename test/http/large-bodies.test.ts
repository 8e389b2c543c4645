import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import { expect } from 'chai';
import Koa from 'koa';
import { closeAll, listenAll } from '../../src/http/listen.ts';
import { freePorts } from '../support/free-ports.ts';
import { connectPerson, useUpstream } from '../support/upstream/system.ts';
import { startScriptedUpstream } from '../support/upstream/scripted-upstream.ts';

describe('A body above the limit', () => {
  const behind = useUpstream(startScriptedUpstream);

  it('is refused, and its connection serves the next request', async () => {
    const { link, token } = await connectPerson(behind().system, 'analytics');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const statusOf = (chunks: string[]) =>
      new Promise<number | undefined>((resolve, reject) => {
        const sent = request(link, { method: 'POST', agent, headers }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode));
        });
        sent.once('error', reject);
        for (const chunk of chunks) sent.write(chunk);
        sent.end();
      });
    try {
      // Sent in chunks, so that no Content-Length announces the size.
      const large = Array.from({ length: 40 }, () => 'x'.repeat(64 * 1024));
      expect(await statusOf(large)).to.equal(413);
      const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
      expect(await statusOf([ping])).to.equal(200);
    } finally {
      agent.destroy();
    }
  });

  it('DOS-11 is discarded after a refusal that did not read it, and its connection serves the next request', async () => {
    const { link, token } = await connectPerson(behind().system, 'analytics');
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const sockets = new Set<object>();
    const statusOf = (authorization: string, body: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = {
          authorization,
          'content-type': 'application/json',
          'content-length': body.length,
        };
        const sent = request(link, { method: 'POST', agent, headers }, (response) => {
          response.resume().once('end', () => resolve(response.statusCode));
        });
        sent.once('socket', (socket) => sockets.add(socket)).once('error', reject);
        sent.end(body);
      });
    try {
      expect(await statusOf('Bearer wrong', 'x'.repeat(8 * 1024 * 1024))).to.equal(401);
      const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
      expect(await statusOf(`Bearer ${token}`, ping)).to.equal(200);
      expect(sockets).to.have.length(1);
    } finally {
      agent.destroy();
    }
  });
});

describe('Requests with large bodies that arrive together', () => {
  it('DOS-11 are begun a few in each turn of the event loop, after small ones', async () => {
    const [port = 0] = await freePorts(1);
    const url = `http://127.0.0.1:${port}`;
    const begun: string[] = [];
    let begunInTurn = 0;
    let mostInTurn = 0;
    let isWatching = true;
    const watch = () => {
      mostInTurn = Math.max(mostInTurn, begunInTurn);
      begunInTurn = 0;
      if (isWatching) setImmediate(watch);
    };
    const app = new Koa();
    app.use((ctx) => {
      begun.push(ctx.path);
      begunInTurn += 1;
      ctx.body = '';
    });
    const listen = { host: '127.0.0.1', port };
    const servers = await listenAll([
      { app, url, listen, setting: 'the port of the test', owns: () => true },
    ]);
    const requestOf = (path: string, length: number) =>
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: ${length}\r\n\r\nx`;
    const sockets = Array.from({ length: 41 }, () => connect(port, '127.0.0.1'));
    try {
      const send = async (isLarge: (n: number) => boolean) => {
        const answers = sockets.map((socket) => once(socket, 'data'));
        for (const [n, socket] of sockets.entries())
          socket.write(isLarge(n) ? requestOf('/large', 1024 * 1024) : requestOf('/small', 1));
        await Promise.all(answers);
      };
      // Otherwise they could arrive one by one, as their connections are accepted.
      await send(() => false);
      begun.splice(0);
      begunInTurn = 0;
      watch();
      await send((n) => n < 40);
    } finally {
      isWatching = false;
      for (const socket of sockets) socket.destroy();
      await closeAll(servers);
    }
    expect(mostInTurn).to.be.within(1, 9);
    expect(begun).to.have.length(41);
    expect(begun.at(-1)).to.equal('/large');
  });
});
