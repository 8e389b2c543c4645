import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import { useSystem } from '../support/system.ts';

const SECOND = 1000;
const MIN_SECONDS = 9;
const MAX_SECONDS = 20;

type Outcome = { seconds: number; response: string };

/** Sends `start`, then one byte a second until the server closes the connection. */
async function trickle(base: string, start: string): Promise<Outcome> {
  const { port } = new URL(base);
  const socket = connect(Number(port), '127.0.0.1');
  // The server may close the connection during a write.
  socket.on('error', () => {});
  let response = '';
  socket.setEncoding('utf8').on('data', (text) => (response += text));
  await once(socket, 'connect');
  const started = performance.now();
  socket.write(start);
  const sending = setInterval(() => socket.writable && socket.write('x'), SECOND);
  const deadline = setTimeout(() => socket.destroy(), (MAX_SECONDS + 2) * SECOND);
  // Not `once` of node:events, which throws when the server resets the connection.
  await new Promise((resolve) => socket.once('close', resolve));
  clearInterval(sending);
  clearTimeout(deadline);
  return { seconds: (performance.now() - started) / SECOND, response };
}

describe('slow clients', () => {
  const system = useSystem();

  it('DOS-01 a slow client gets 408 after about fifteen seconds (RFC 9110 section 15.5.9)', async function () {
    this.timeout(30_000);
    const { auth, resource, management } = system();
    const head = (base: string, path: string) =>
      `POST ${path} HTTP/1.1\r\nHost: ${new URL(base).host}\r\n`;
    const form = 'Content-Type: application/x-www-form-urlencoded\r\n';
    const outcomes = await Promise.all([
      trickle(auth, `${head(auth, '/oauth/token')}${form}Content-Length: 1000\r\n\r\n`),
      trickle(auth, `${head(auth, '/oauth/token')}${form}X-Slow: `),
      trickle(resource, `${head(resource, '/mcp')}X-Slow: `),
      trickle(management, `${head(management, '/api/v1/connectors')}X-Slow: `),
    ]);
    for (const { seconds, response } of outcomes) {
      expect(response).to.match(/^HTTP\/1\.1 408 /);
      expect(seconds).to.be.within(MIN_SECONDS, MAX_SECONDS);
    }
  });

  it('DOS-01 a thousand slow clients do not delay other clients', async () => {
    const { auth } = system();
    const { port, host } = new URL(auth);
    const head = `POST /oauth/token HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 1000\r\n`;
    const sockets = Array.from({ length: 1000 }, () => connect(Number(port), '127.0.0.1'));
    await Promise.all(
      sockets.map(async (socket) => {
        socket.on('error', () => {});
        await once(socket, 'connect');
        socket.write(head);
      }),
    );
    const times: number[] = [];
    for (let n = 0; n < 20; n += 1) {
      const started = performance.now();
      const body = new URLSearchParams({ grant_type: 'refresh_token', client_id: 'x' });
      const response = await fetch(`${auth}/oauth/token`, { method: 'POST', body });
      expect(response.status).to.be.oneOf([400, 401]);
      times.push(performance.now() - started);
    }
    sockets.forEach((socket) => socket.destroy());
    expect(times.toSorted((a, b) => a - b)[10]).to.be.below(SECOND / 2);
  });
});
