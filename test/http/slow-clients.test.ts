// A client that sends its request a byte at a time is cut off, and does not keep a connection for as long as it likes (RFC 9110 section 15.5.9).
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import { useSystem } from '../support/system.ts';

const SECOND = 1000;
const LEAST_SECONDS = 9;
const MOST_SECONDS = 20;

type End = { seconds: number; answer: string };

/** Sends `start` at once, then a byte a second for as long as the server lets it. */
async function trickle(base: string, start: string): Promise<End> {
  const { port } = new URL(base);
  const socket = connect(Number(port), '127.0.0.1');
  // The server has gone while a byte was on its way.
  socket.on('error', () => {});
  let answer = '';
  socket.setEncoding('utf8').on('data', (text) => (answer += text));
  await once(socket, 'connect');
  const started = performance.now();
  socket.write(start);
  const sending = setInterval(() => socket.writable && socket.write('x'), SECOND);
  const givingUp = setTimeout(() => socket.destroy(), (MOST_SECONDS + 2) * SECOND);
  // Not `once` of node:events, which throws when the server resets the connection.
  await new Promise((resolve) => socket.once('close', resolve));
  clearInterval(sending);
  clearTimeout(givingUp);
  return { seconds: (performance.now() - started) / SECOND, answer };
}

describe('A client that sends slowly', () => {
  const system = useSystem();

  it('DOS-01 is cut off after about fifteen seconds, with 408', async function () {
    this.timeout(30_000);
    const { auth, resource, management } = system();
    const head = (base: string, path: string) =>
      `POST ${path} HTTP/1.1\r\nHost: ${new URL(base).host}\r\n`;
    const form = 'Content-Type: application/x-www-form-urlencoded\r\n';
    const ends = await Promise.all([
      trickle(auth, `${head(auth, '/oauth/token')}${form}Content-Length: 1000\r\n\r\n`),
      trickle(auth, `${head(auth, '/oauth/token')}${form}X-Slow: `),
      trickle(resource, `${head(resource, '/mcp')}X-Slow: `),
      trickle(management, `${head(management, '/api/v1/connectors')}X-Slow: `),
    ]);
    for (const { seconds, answer } of ends) {
      expect(answer).to.match(/^HTTP\/1\.1 408 /);
      expect(seconds).to.be.within(LEAST_SECONDS, MOST_SECONDS);
    }
  });

  it('DOS-01 keeps nobody else waiting, not as one of a thousand', async () => {
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
