import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import Koa from 'koa';
import { closeAll, listenAll } from '../../src/http/listen.ts';
import { useSystem } from '../support/system.ts';

const BETWEEN_BYTES_MS = 20;
const SLOW_CLIENTS = 1000;

/** Sends `start`, then a byte at a time until the server closes the connection. Resolves to the response. */
async function trickle(base: string, start: string): Promise<string> {
  const { port } = new URL(base);
  const socket = connect(Number(port), '127.0.0.1');
  // The server may close the connection during a write.
  socket.on('error', () => {});
  let response = '';
  socket.setEncoding('utf8').on('data', (text) => (response += text));
  await once(socket, 'connect');
  socket.write(start);
  // After the response is read, which a reset would discard.
  const send = () => setImmediate(() => socket.writable && socket.write('x'));
  const sending = setInterval(send, BETWEEN_BYTES_MS);
  // Not `once` of node:events, which throws when the server resets the connection.
  await new Promise((resolve) => socket.once('close', resolve));
  clearInterval(sending);
  return response;
}

const head = (base: string, path: string) =>
  `POST ${path} HTTP/1.1\r\nHost: ${new URL(base).host}\r\n`;
const FORM = 'Content-Type: application/x-www-form-urlencoded\r\n';

describe('Timeouts of requests', () => {
  it('DOS-01 a request may take fifteen seconds, and its header ten', async () => {
    const [server] = await listenAll([
      {
        app: new Koa(),
        url: 'http://localhost',
        listen: { host: '127.0.0.1', port: 0 },
        setting: 'none',
        owns: () => true,
      },
    ]);
    if (!server) throw new Error('nothing listens');
    await closeAll([server]);
    expect([server.requestTimeout, server.headersTimeout]).to.deep.equal([15_000, 10_000]);
  });

  describe('Clients that are slower', () => {
    const system = useSystem({ timeouts: { request: 300, headers: 200, check: 50 } });

    it('DOS-01 a slow client gets 408 on every host (RFC 9110 section 15.5.9)', async () => {
      const { auth, resource, management } = system();
      const responses = await Promise.all([
        trickle(auth, `${head(auth, '/oauth/token')}${FORM}Content-Length: 1000\r\n\r\n`),
        trickle(auth, `${head(auth, '/oauth/token')}${FORM}X-Slow: `),
        trickle(resource, `${head(resource, '/mcp')}X-Slow: `),
        trickle(management, `${head(management, '/api/v1/connectors')}X-Slow: `),
      ]);
      for (const response of responses) expect(response).to.match(/^HTTP\/1\.1 408 /);
    });
  });

  describe('Clients beside slow ones', () => {
    const system = useSystem({ timeouts: { request: 600_000, headers: 600_000 } });

    it('DOS-01 clients get responses while a thousand slow clients send requests', async () => {
      const { auth } = system();
      const start = `${head(auth, '/oauth/token')}Content-Length: 1000\r\n`;
      const { port } = new URL(auth);
      const sockets = Array.from({ length: SLOW_CLIENTS }, () =>
        connect(Number(port), '127.0.0.1'),
      );
      await Promise.all(
        sockets.map(async (socket) => {
          socket.on('error', () => {});
          await once(socket, 'connect');
          socket.write(start);
        }),
      );
      for (let n = 0; n < 5; n += 1) {
        const body = new URLSearchParams({ grant_type: 'refresh_token', client_id: 'x' });
        const response = await fetch(`${auth}/oauth/token`, { method: 'POST', body });
        expect(response.status).to.be.oneOf([400, 401]);
      }
      const open = sockets.filter(
        ({ readyState, bytesRead }) => readyState === 'open' && !bytesRead,
      );
      expect(open).to.have.length(SLOW_CLIENTS);
      sockets.forEach((socket) => socket.destroy());
    });
  });
});
