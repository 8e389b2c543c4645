// Calls and streams over bare sockets, so that the load costs as little as possible.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';

export type Target = { url: string; token?: string };

const END_OF_HEAD = '\r\n\r\n';
const LAST_CHUNK = '0\r\n\r\n';

function requestHead({ url, token }: Target, method: string, more: string): string {
  const { host, pathname } = new URL(url);
  const authorization = token === undefined ? '' : `Authorization: Bearer ${token}\r\n`;
  return `${method} ${pathname} HTTP/1.1\r\nHost: ${host}\r\nMcp-Protocol-Version: 2025-11-25\r\n${authorization}${more}\r\n`;
}

async function open({ url }: Target): Promise<Socket> {
  const { port } = new URL(url);
  const socket = connect({ host: '127.0.0.1', port: Number(port), noDelay: true });
  await once(socket, 'connect');
  return socket;
}

function callRequest(target: Target, message: object): Buffer {
  const body = JSON.stringify(message);
  const more = `Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  return Buffer.from(requestHead(target, 'POST', more) + body);
}

async function send(socket: Socket, request: Buffer): Promise<void> {
  socket.write(request);
  await readResponse(socket);
}

/** Calls one after the other on one connection, while `mayStart()`. Returns the milliseconds of each. Throws if one is not 200. */
export async function callWhile(
  target: Target,
  message: object,
  mayStart: () => boolean,
): Promise<number[]> {
  const request = callRequest(target, message);
  const socket = await open(target);
  const times: number[] = [];
  try {
    while (mayStart()) {
      const begun = performance.now();
      await send(socket, request);
      times.push(performance.now() - begun);
    }
    return times;
  } finally {
    socket.destroy();
  }
}

export type Pace = { perSecond: number; connections: number; seconds: number };

/**
 * Calls at a fixed rate, on each connection in turn. Returns the milliseconds of each since its planned start, so that waiting for the
 * connection counts. Throws if one is not 200.
 */
export async function callAtRate(
  target: Target,
  message: object,
  { perSecond, connections, seconds }: Pace,
): Promise<number[]> {
  const request = callRequest(target, message);
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(target)));
  const times: number[] = [];
  const failures: unknown[] = [];
  try {
    // The first call on a connection costs the server more.
    const last = sockets.map((socket) => send(socket, request));
    await Promise.all(last);
    const begun = performance.now();
    for (let n = 0; n < perSecond * seconds && failures.length === 0; n += 1) {
      const planned = begun + (n * 1000) / perSecond;
      // A timer would be up to a millisecond late.
      while (performance.now() < planned) await nextTurn();
      const [socket, earlier] = [sockets[n % connections], last[n % connections]];
      if (!socket) throw new Error('needs a connection');
      const call = async () => {
        await earlier;
        await send(socket, request);
        times.push(performance.now() - planned);
      };
      last[n % connections] = call().catch((error) => void failures.push(error));
    }
    await Promise.all(last);
    if (failures.length > 0) throw failures[0];
    return times;
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

function readResponse(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let head = '';
    let left = -1;
    let end = '';
    const finish = (error?: Error) => {
      socket.off('data', read).off('error', finish).off('close', closed);
      if (error) reject(error);
      else resolve();
    };
    const closed = () =>
      finish(new Error(`the connection was closed after: ${head.slice(0, 500)}`));
    const read = (chunk: Buffer) => {
      let rest = chunk;
      if (left === -1 && end === '') {
        head += chunk.toString('latin1');
        const at = head.indexOf(END_OF_HEAD);
        if (at === -1) return;
        if (!head.startsWith('HTTP/1.1 200')) return finish(new Error(head));
        const [, length] = /\r\ncontent-length: (\d+)/i.exec(head.slice(0, at)) ?? [];
        rest = Buffer.from(head.slice(at + END_OF_HEAD.length), 'latin1');
        if (length !== undefined) left = Number(length);
        else end = END_OF_HEAD;
      }
      if (left !== -1) {
        left -= rest.length;
        if (left <= 0) finish();
      } else {
        end = (end + rest.toString('latin1', Math.max(0, rest.length - 7))).slice(-7);
        if (end.endsWith(LAST_CHUNK)) finish();
      }
    };
    socket.on('data', read).on('error', finish).on('close', closed);
  });
}

export type Stream = { close(): void };

/** Opens the stream of a session (GET). `onEvent` gets the milliseconds since the server sent an event. */
export async function openStream(
  target: Target,
  onEvent: (delay: number) => void = () => undefined,
): Promise<Stream> {
  const socket = await open(target);
  socket.write(requestHead(target, 'GET', 'Accept: text/event-stream\r\n'));
  const [first] = (await once(socket, 'data')) as [Buffer];
  if (!first.toString('latin1').startsWith('HTTP/1.1 200')) throw new Error(first.toString());
  socket.on('data', (chunk) => {
    const arrived = process.hrtime.bigint();
    for (const [, sent = ''] of chunk.toString('latin1').matchAll(/"data":"(\d+)"/g))
      onEvent(Number(arrived - BigInt(sent)) / 1e6);
  });
  socket.on('error', () => undefined);
  return { close: () => socket.destroy() };
}
