import { once } from 'node:events';
import { createServer } from 'node:net';

// Below the ephemeral port range, from which the system could assign a port to another process at any time.
const FIRST_PORT = 11_000;
const PORTS_PER_WORKER = 1300;
/** The most jobs that `npm test` runs at a time. */
const WORKERS = 16;

/** Each worker has its own range and starts at a random offset, so that a port is not reused soon. */
const worker = Number(process.env.MOCHA_WORKER_ID ?? 0) % WORKERS;
let next = Math.floor(Math.random() * PORTS_PER_WORKER);

/** Returns `count` different ports. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = FIRST_PORT + worker * PORTS_PER_WORKER + (next++ % PORTS_PER_WORKER);
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return true;
  } catch {
    return false;
  } finally {
    if (server.listening) await once(server.close(), 'close');
  }
}
