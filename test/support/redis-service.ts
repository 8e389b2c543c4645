// A Redis server that looks like another service: some commands are answered by the proxy in front of it, and INFO is changed.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createFrameParser, isPush, wordsOf } from './faults/redis-frames.ts';

/** A reply in the Redis protocol, or undefined for that of the server. `words` are the command in upper case and its arguments. */
export type Answer = (words: readonly string[]) => string | undefined;

export type RedisServiceShape = {
  /** By command, in upper case. */
  answers?: Readonly<Record<string, Answer>>;
  info?: (text: string) => string;
};

export type RedisService = { url: string; port: number; close(): Promise<void> };

export const unknownCommand: Answer = ([name = '', first = '']) =>
  `-ERR unknown command '${name}', with args beginning with: '${first}' \r\n`;

export const noPermission: Answer = ([name = '']) =>
  `-NOPERM User gatehouse has no permissions to run the '${name.toLowerCase()}' command\r\n`;

export async function startRedisService(
  target: { port: number },
  shape: RedisServiceShape,
): Promise<RedisService> {
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect({ port: target.port, host: '127.0.0.1', noDelay: true });
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => undefined);
    }
    client.on('close', () => upstream.destroy());
    upstream.on('close', () => client.destroy());
    answerConnection(shape, client, upstream);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    async close() {
      open.forEach((socket) => socket.destroy());
      server.close();
      await once(server, 'close');
    },
  };
}

type Pending = { isInfo: boolean; reply?: string };

/** Keeps the order of replies. */
function answerConnection({ answers = {}, info }: RedisServiceShape, client: Socket, to: Socket) {
  const pending: Pending[] = [];
  const sendOwn = () => {
    while (pending[0]?.reply !== undefined) client.write(pending.shift()?.reply ?? '');
  };
  const commands = createFrameParser();
  const replies = createFrameParser();
  client.on('data', (chunk) => {
    for (const frame of commands(chunk)) {
      const [name = '', ...args] = wordsOf(frame).map((word) => word.toString('latin1'));
      const upper = name.toUpperCase();
      const reply = answers[upper]?.([upper, ...args]);
      // In RESP3 the reply to a subscription is a push message.
      const isSubscription = reply === undefined && upper.endsWith('SUBSCRIBE');
      if (!isSubscription)
        pending.push({ isInfo: upper === 'INFO', ...(reply === undefined ? {} : { reply }) });
      if (reply === undefined) to.write(frame);
    }
    sendOwn();
  });
  to.on('data', (chunk) => {
    for (const frame of replies(chunk)) {
      const { isInfo } = (isPush(frame) ? undefined : pending.shift()) ?? { isInfo: false };
      client.write(isInfo && info ? changed(frame, info) : frame);
      sendOwn();
    }
  });
}

/** INFO replies with a bulk string, or in RESP3 with a verbatim string, which begins with its format. */
function changed(frame: Buffer, info: (text: string) => string): string {
  const text = frame.toString('utf8');
  const start = text.indexOf('\r\n') + 2;
  const format = text.startsWith('=') ? text.slice(start, start + 4) : '';
  const content = format + info(text.slice(start + format.length, -2));
  return `${text[0]}${Buffer.byteLength(content)}\r\n${content}\r\n`;
}
