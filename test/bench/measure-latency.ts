// Measures the delay that redis-latency.ts really adds. Runs as a child process with the URL of Redis as its argument.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';

const PINGS = 300;

/** The mean in milliseconds. */
export async function measureLatency(url: string): Promise<number> {
  const { stdout } = await promisify(execFile)(process.execPath, [import.meta.filename, url]);
  return Number(stdout);
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

const [, file, url] = process.argv;
if (file === import.meta.filename && url !== undefined) {
  const near = await pingTime(url);
  await import('./redis-latency.ts');
  console.log((await pingTime(url)) - near);
}
