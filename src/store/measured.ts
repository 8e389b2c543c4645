// The store with its latency and errors measured, by verb, and how long notices of changes take to arrive.
import type { StoreVerb } from '../observability/labels.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { OpenedStore } from './open.ts';
import { StoreUnavailable } from './store.ts';

type StoreMetrics = Pick<Metrics, 'stored' | 'storeError' | 'notice'>;

type Measure = <T>(verb: StoreVerb, answer: Promise<T>) => Promise<T>;

/** `now` is seconds since the epoch, by which processes tell how old a notice is. */
export function measuredStore(
  store: OpenedStore,
  metrics: StoreMetrics,
  now: () => number,
): OpenedStore {
  const measure = measureWith(metrics);
  return {
    ...store,
    get: (key) => measure('get', store.get(key)),
    set: (key, value, ttl) => measure('set', store.set(key, value, ttl)),
    add: (key, value, ttl) => measure('add', store.add(key, value, ttl)),
    take: (key) => measure('take', store.take(key)),
    delete: (key) => measure('delete', store.delete(key)),
    update: (key, change, seen) => measure('update', store.update(key, change, seen)),
    replicated: (key) => measure('replicated', store.replicated(key)),
    addMember: (key, member, ttl) => measure('addMember', store.addMember(key, member, ttl)),
    removeMember: (key, member) => measure('removeMember', store.removeMember(key, member)),
    members: (key) => measure('members', store.members(key)),
    append: (key, value, ttl) => measure('append', store.append(key, value, ttl)),
    range: (key, options) => measure('range', store.range(key, options)),
    ping: () => measure('ping', store.ping()),
    publish: (channel, message) =>
      measure('publish', store.publish(channel, `${now()} ${message}`)),
    subscribe: (channel, listener) =>
      store.subscribe(channel, (stamped) => {
        const { message, age } = openNotice(stamped, now());
        if (age !== undefined) metrics.notice(channel, age);
        listener(message);
      }),
    openCounter(name, seconds) {
      const count = store.openCounter(name, seconds);
      return (id, times) => measure('count', count(id, times));
    },
  };
}

function measureWith({ stored, storeError }: StoreMetrics): Measure {
  return async function measured(verb, answer) {
    const started = performance.now();
    try {
      return await answer;
    } catch (error) {
      // What the caller's own change throws is no fault of the store.
      if (error instanceof StoreUnavailable) storeError(verb);
      throw error;
    } finally {
      stored(verb, (performance.now() - started) / 1000);
    }
  };
}

/** A notice of another version may have no time. Clocks differ a little, so that one may seem to come from the future. */
function openNotice(stamped: string, now: number): { message: string; age?: number } {
  const [, time, message] = /^(\d+(?:\.\d+)?) (.*)$/s.exec(stamped) ?? [];
  if (time === undefined || message === undefined) return { message: stamped };
  return { message, age: Math.max(0, now - Number(time)) };
}
