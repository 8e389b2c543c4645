import { type StoreVerb, storeVerbs } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import { traced } from '../observability/tracing.ts';
import { kindOf } from './encryption.ts';
import type { OpenedStore } from './open.ts';
import { type Store, StoreUnavailable } from './store.ts';

export type Instrumentation = {
  metrics: Pick<Metrics, 'storeLatency' | 'storeError' | 'noticeDelay'>;
  /** Value of `db.system.name` in spans. */
  system: 'redis' | 'sqlite';
  /** Seconds since the epoch. Processes compare it to compute the delay of a notice. */
  now: () => number;
};

type KeyedVerb = Exclude<
  keyof Store,
  | 'getMany'
  | 'sizes'
  | 'publish'
  | 'subscribe'
  | 'freeBytes'
  | 'ping'
  | 'close'
  | 'logTerm'
  | 'tokenMs'
>;

const isKeyed = (verb: StoreVerb): verb is KeyedVerb =>
  verb !== 'publish' && verb !== 'ping' && verb !== 'count';

/** Records latency and errors by verb, the delay of notices, and a span for each command within a traced request. */
export function instrumentedStore(
  store: OpenedStore,
  { metrics, system, now }: Instrumentation,
): OpenedStore {
  const measure = async <T>(verb: StoreVerb, command: Promise<T>): Promise<T> => {
    const started = performance.now();
    try {
      return await command;
    } catch (error) {
      if (isStoreError(error)) metrics.storeError(verb);
      throw error;
    } finally {
      metrics.storeLatency(verb, (performance.now() - started) / 1000);
    }
  };
  /** `collection` is a kind of key or a channel, never a key or a value. */
  const run = <T>(verb: StoreVerb, collection: string, command: () => Promise<T>): Promise<T> => {
    const span = () => describe(system, verb, collection);
    return traced(span, () => measure(verb, command()), isStoreError);
  };
  const keyed = storeVerbs.filter(isKeyed).map((verb) => {
    const command = store[verb] as (key: string, ...rest: unknown[]) => Promise<unknown>;
    const instrumented = (key: string, ...rest: unknown[]) =>
      run(verb, kindOf(key), () => command(key, ...rest));
    return [verb, instrumented];
  });
  const { callWindows } = store;
  return {
    ...store,
    ...(Object.fromEntries(keyed) as Pick<Store, KeyedVerb>),
    getMany: (keys, seen) =>
      keys[0] === undefined
        ? store.getMany(keys, seen)
        : run('get', kindOf(keys[0]), () => store.getMany(keys, seen)),
    sizes: (keys, limit) =>
      keys[0] === undefined
        ? Promise.resolve([])
        : run('members', kindOf(keys[0]), () => store.sizes(keys, limit)),
    ping: () => measure('ping', store.ping()),
    publish: (channel, message) =>
      run('publish', channel, () => store.publish(channel, `${now()} ${message}`)),
    subscribe: (channel, listener) =>
      store.subscribe(channel, (stamped) => {
        const { message, delay } = openNotice(stamped, now());
        if (delay !== undefined) metrics.noticeDelay(channel, delay);
        listener(message);
      }),
    openCounter(name, seconds) {
      const count = store.openCounter(name, seconds);
      return (id, times) => run('count', 'limit', () => count(id, times));
    },
    callWindows: {
      ...callWindows,
      add: (additions) => run('count', 'limit', () => callWindows.add(additions)),
    },
  };
}

/** An error that the caller's `change` function throws is not an error of the store. */
function isStoreError(error: unknown): boolean {
  return error instanceof StoreUnavailable;
}

function describe(system: string, verb: StoreVerb, collection: string) {
  return {
    name: `${verb} ${collection}`,
    attributes: {
      'db.system.name': system,
      'db.operation.name': verb,
      'db.collection.name': collection,
    },
  };
}

/** Other versions may send a notice without a time. The delay is at least zero, because clocks differ. */
export function openNotice(stamped: string, now: number): { message: string; delay?: number } {
  const [, time, message] = /^(\d+(?:\.\d+)?) (.*)$/s.exec(stamped) ?? [];
  if (time === undefined || message === undefined) return { message: stamped };
  return { message, delay: Math.max(0, now - Number(time)) };
}
