// A system on a Redis of its own, behind a proxy that can delay, hold and lose commands.
import { type RedisServer, startRedis } from '../redis-server.ts';
import { startSystem, type System } from '../system.ts';
import { type RedisProxy, startRedisProxy } from './redis-proxy.ts';

export type ProxiedSystem = {
  redis: RedisServer;
  proxy: RedisProxy;
  system: System;
  close(): Promise<void>;
};

export async function startProxiedSystem(): Promise<ProxiedSystem> {
  const closers: (() => Promise<void>)[] = [];
  const close = async () => {
    for (const step of closers.splice(0).toReversed()) await step();
  };
  try {
    const redis = await startRedis();
    closers.push(() => redis.stop());
    const proxy = await startRedisProxy(redis);
    closers.push(proxy.close);
    const system = await startSystem({ storeAddress: proxy.url });
    closers.push(system.stop);
    return { redis, proxy, system, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** One for all tests of the surrounding `describe`, each of which begins with a working Redis. Call the returned function while a test runs. */
export function useProxiedSystem(): () => ProxiedSystem {
  let proxied: ProxiedSystem | undefined;
  before(async () => {
    proxied = await startProxiedSystem();
  });
  afterEach(() => {
    proxied?.proxy.delayReplies(0);
    proxied?.proxy.release();
  });
  after(() => proxied?.close());
  return () => {
    if (!proxied) throw new Error('the system runs only during tests');
    return proxied;
  };
}
