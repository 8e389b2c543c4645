// A way to Redis on which every answer is late: bytes go as they come, so it costs the same however many commands they are.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import { median } from './rates.ts';

const PINGS = 200;

export type SlowLink = { url: string; close(): Promise<void> };

export async function startSlowLink(
  target: { port: number },
  milliseconds: number,
): Promise<SlowLink> {
  const open = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: target.port, host: '127.0.0.1', noDelay: true });
    const late = openDelay(milliseconds, (bytes) => client.write(bytes));
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
function openDelay(milliseconds: number, deliver: (bytes: Buffer) => void) {
  const late: Buffer[] = [];
  const deliverFirst = () => late.splice(0, 1).forEach(deliver);
  return (bytes: Buffer) => {
    late.push(bytes);
    setTimeout(deliverFirst, milliseconds);
  };
}

/** Milliseconds that an answer is late in truth, timers being what they are: the median of many. */
export async function measureLink({ url }: SlowLink, direct: string): Promise<number> {
  const [slow = NaN, fast = NaN] = [await pingTime(url), await pingTime(direct)];
  return slow - fast;
}

async function pingTime(url: string): Promise<number> {
  const redis = new Redis(url);
  const times: number[] = [];
  for (let ping = 0; ping < PINGS; ping += 1) {
    const begun = performance.now();
    await redis.ping();
    times.push(performance.now() - begun);
  }
  redis.disconnect();
  return median(times);
}
