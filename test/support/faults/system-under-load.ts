// A system on Redis behind a proxy, with clients under load and a recording of their requests.
import { createConnector, type Connector } from '../management-api.ts';
import { connect } from '../connection.ts';
import { type Exchange, recordHistory } from './history.ts';
import { type PersistentRedis, startPersistentRedis } from './persistent-redis.ts';
import { type Load, type LoadOptions, startLoad } from './load.ts';
import { NO_LIMITS } from '../no-limits.ts';
import { type RedisProxy, startRedisProxy } from './redis-proxy.ts';
import { startSystem, type System } from '../system.ts';

export type FaultySystem = {
  redis: PersistentRedis;
  proxy: RedisProxy;
  system: System;
  connector: Connector;
  /** The requests of clients and administrators so far, with their responses. */
  history: readonly Exchange[];
  /** Starts two steady clients, until the load or the system is stopped. */
  startLoad(options?: Omit<LoadOptions, 'steady'>): Promise<Load>;
  close(): Promise<void>;
};

export async function startFaultySystem(): Promise<FaultySystem> {
  const closers: (() => unknown)[] = [];
  const close = async () => {
    for (const step of closers.splice(0).toReversed()) await step();
  };
  try {
    const redis = await startPersistentRedis();
    closers.push(redis.close);
    const proxy = await startRedisProxy(redis);
    closers.push(proxy.close);
    const system = await startSystem({
      storeAddress: proxy.url,
      file: { limits: NO_LIMITS },
    });
    closers.push(system.stop);
    const connector = await createConnector(system);
    const recording = recordHistory([system.auth, system.resource, system.management]);
    closers.push(recording.stop);
    const startClients: FaultySystem['startLoad'] = async (options) => {
      const first = await connect(system, connector);
      const second = await connect(system, connector, { as: { browser: first.browser } });
      const load = startLoad(system, connector, { ...options, steady: [first, second] });
      closers.push(load.stop);
      return load;
    };
    return {
      redis,
      proxy,
      system,
      connector,
      history: recording.exchanges,
      startLoad: startClients,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}
