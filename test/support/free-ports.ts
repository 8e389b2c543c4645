import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

// Below the ephemeral port range, from which the system could assign a port to another process at any time.
const FIRST_PORT = 11_000;
const PORTS_PER_WORKER = 1300;
/** The most jobs that `npm test` runs at a time. */
const WORKERS = 16;
/** Ports are in use soon after they were taken, or not at all. */
const MAX_RESERVED = 200;

/** Each worker has its own range and starts at a random offset, so that a port is not reused soon. */
const worker = Number(process.env.MOCHA_WORKER_ID ?? 0) % WORKERS;
let next = Math.floor(Math.random() * PORTS_PER_WORKER);

/** Returns `count` different ports. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = FIRST_PORT + worker * PORTS_PER_WORKER + (next++ % PORTS_PER_WORKER);
    if ((await isFree(port)) && (await reservePort(port))) ports.push(port);
  }
  return ports;
}

const reserved: Server[] = [];

/** Keeps a port from other runs of tests on the same machine until it is in use, by a socket with a name (Linux). Returns whether it is still there. */
export async function reservePort(port: number): Promise<boolean> {
  if (process.platform !== 'linux') return true;
  const name = `\0gatehouse-test-port-${port}`;
  const server = await listening((socket) => socket.listen(name));
  if (!server) return false;
  reserved.push(server.unref());
  if (reserved.length > MAX_RESERVED) reserved.shift()?.close();
  return true;
}

async function isFree(port: number): Promise<boolean> {
  const server = await listening((socket) => socket.listen(port, '127.0.0.1'));
  if (!server) return false;
  await once(server.close(), 'close');
  return true;
}

async function listening(listen: (server: Server) => Server): Promise<Server | undefined> {
  const server = createServer();
  try {
    await once(listen(server), 'listening');
    return server;
  } catch {
    return undefined;
  }
}
