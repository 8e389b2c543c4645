// A Redis server that keeps its data and port across restarts.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { type RedisServer, startRedis } from '../redis-server.ts';

export type PersistentRedis = {
  url: string;
  port: number;
  /** Resolves when the process has ended. `SIGTERM` is a clean shutdown. */
  stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
  /** Resolves when the server responds with all its data. `args` apply to this start only. */
  start(args?: string[]): Promise<void>;
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void;
  /** Sends one command on its own connection, also while the server loads its data. */
  command(...words: [string, ...(string | number)[]]): Promise<unknown>;
  close(): Promise<void>;
};

export async function startPersistentRedis(): Promise<PersistentRedis> {
  const dataDir = await mkdtemp(join(tmpdir(), 'persistent-redis-'));
  let server: RedisServer = await startRedis({ dataDir });
  const { url, port } = server;
  return {
    url,
    port,
    stop: (signal) => server.stop(signal),
    async start(args = []) {
      server = await startRedis({ dataDir, args, port });
    },
    signal: (signal) => server.kill(signal),
    async command(name, ...words) {
      const raw = new Redis(url, { enableReadyCheck: false, retryStrategy: () => null });
      raw.on('error', () => undefined);
      try {
        return await raw.call(name, ...words);
      } finally {
        raw.disconnect();
      }
    },
    async close() {
      await server.stop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}
