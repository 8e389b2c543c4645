// A way to Redis on which every answer is late: bytes go as they come, so it costs the same however many commands they are.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Redis } from 'ioredis';

const PINGS = 300;
/** In turn: timers know whole milliseconds only and are a little late, which makes two and a half of them. */
const LATE_MS = [2, 2, 3];

export type SlowLink = { url: string; close(): Promise<void> };

export async function startSlowLink(target: { port: number }): Promise<SlowLink> {
  const open = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: target.port, host: '127.0.0.1', noDelay: true });
    const late = openDelay((bytes) => client.write(bytes));
    client.on('data', (bytes) => upstream.write(bytes));
    upstream.on('data', late);
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        client.destroy();
        upstream.destroy();
        open.delete(socket);
      });
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** When a time is over the first in line is delivered, whosever time it was: the order never changes. */
function openDelay(deliver: (bytes: Buffer) => void) {
  const late: Buffer[] = [];
  let turn = 0;
  const deliverFirst = () => late.splice(0, 1).forEach(deliver);
  return (bytes: Buffer) => {
    late.push(bytes);
    setTimeout(deliverFirst, LATE_MS[turn++ % LATE_MS.length]);
  };
}

/** Milliseconds that an answer is late in truth, timers being what they are: the mean of many. */
export async function measureLink({ url }: SlowLink, direct: string): Promise<number> {
  const [slow = NaN, fast = NaN] = [await pingTime(url), await pingTime(direct)];
  return slow - fast;
}

async function pingTime(url: string): Promise<number> {
  const redis = new Redis(url);
  await redis.ping();
  const begun = performance.now();
  for (let ping = 0; ping < PINGS; ping += 1) await redis.ping();
  const time = (performance.now() - begun) / PINGS;
  redis.disconnect();
  return time;
}
