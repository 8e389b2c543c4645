// Loopback ports that nothing listens on.
import { once } from 'node:events';
import { createServer } from 'node:net';

// Below the ports that the system gives to outgoing connections and to whoever listens on port 0, which would take them any time.
const FIRST_PORT = 11_000;
const PORTS_PER_WORKER = 9000;

/** Every worker of a run has a range of its own and goes through it from somewhere, so that a port is not given again soon. */
const worker = Number(process.env.MOCHA_WORKER_ID ?? 0) % 2;
let next = Math.floor(Math.random() * PORTS_PER_WORKER);

/** `count` different ports. */
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
