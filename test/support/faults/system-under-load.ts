// A system on Redis behind a proxy, with clients under load and a recording of their requests.
import { createConnector, type Connector } from '../management-api.ts';
import { connect } from '../connection.ts';
import { type Exchange, recordHistory } from './history.ts';
import { type PersistentRedis, startPersistentRedis } from './persistent-redis.ts';
import { type Load, startLoad } from './load.ts';
import { NO_LIMITS } from '../no-limits.ts';
import { type RedisProxy, startRedisProxy } from './redis-proxy.ts';
import { startSystem, type System } from '../system.ts';

export type SystemUnderLoad = {
  redis: PersistentRedis;
  proxy: RedisProxy;
  system: System;
  connector: Connector;
  /** The requests of clients and administrators so far, with their responses. */
  history: readonly Exchange[];
  load: Load;
  close(): Promise<void>;
};

const STEADY_CLIENTS = 2;

export async function startSystemUnderLoad(): Promise<SystemUnderLoad> {
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
    const steady = [];
    for (let i = 0; i < STEADY_CLIENTS; i++) steady.push(await connect(system, connector));
    const load = startLoad(system, connector, steady);
    closers.push(load.stop);
    return { redis, proxy, system, connector, history: recording.exchanges, load, close };
  } catch (error) {
    await close();
    throw error;
  }
}
