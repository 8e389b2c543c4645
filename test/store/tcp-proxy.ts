import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type TcpProxy = {
  port: number;
  /** Forwards the next request that contains `text`, discards its reply and closes the connection. */
  loseReplyTo(text: string): void;
  /** Resolves when a reply was discarded. */
  replyLost(): Promise<void>;
  /** Open connections stay open but carry no more data. New connections work. */
  silence(): void;
  close(): Promise<void>;
};

export async function startProxy(target: number): Promise<TcpProxy> {
  const silent = new WeakSet<Socket>();
  const open = new Set<Socket>();
  let loseNext: string | undefined;
  let lost = Promise.withResolvers<void>();

  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    let losing = false;
    const destroyBoth = () => {
      client.destroy();
      upstream.destroy();
    };
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', destroyBoth);
      socket.on('close', () => {
        open.delete(socket);
        destroyBoth();
      });
    }
    client.on('data', (data) => {
      if (silent.has(client)) return;
      if (loseNext && data.includes(loseNext)) {
        losing = true;
        loseNext = undefined;
      }
      upstream.write(data);
    });
    upstream.on('data', (data) => {
      if (silent.has(upstream)) return;
      if (!losing) return client.write(data);
      destroyBoth();
      lost.resolve();
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    port: (server.address() as AddressInfo).port,
    loseReplyTo(text) {
      lost = Promise.withResolvers<void>();
      loseNext = text;
    },
    replyLost: () => lost.promise,
    silence: () => open.forEach((socket) => silent.add(socket)),
    async close() {
      open.forEach((socket) => socket.destroy());
      server.close();
      await once(server, 'close');
    },
  };
}
