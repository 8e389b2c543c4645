// The store with a span for every question within a traced request: verb and kind of record, never a key or a value.
import { traced } from '../observability/spans.ts';
import type { StoreVerb } from '../observability/labels.ts';
import type { OpenedStore } from './open.ts';
import { StoreUnavailable } from './store.ts';

/** Only where traces are on. `system` is what the store is, in the words of OpenTelemetry. */
export function tracedStore(store: OpenedStore, system: 'redis' | 'sqlite'): OpenedStore {
  const ask = <T>(verb: StoreVerb, kind: string, question: () => Promise<T>): Promise<T> =>
    traced(() => describe(system, verb, kind), question, isOwnFault);
  return {
    ...store,
    get: (key) => ask('get', kindOf(key), () => store.get(key)),
    set: (key, value, ttl) => ask('set', kindOf(key), () => store.set(key, value, ttl)),
    add: (key, value, ttl) => ask('add', kindOf(key), () => store.add(key, value, ttl)),
    take: (key) => ask('take', kindOf(key), () => store.take(key)),
    delete: (key) => ask('delete', kindOf(key), () => store.delete(key)),
    update: (key, change, seen) =>
      ask('update', kindOf(key), () => store.update(key, change, seen)),
    replicated: (key) => ask('replicated', kindOf(key), () => store.replicated(key)),
    addMember: (key, member, ttl) =>
      ask('addMember', kindOf(key), () => store.addMember(key, member, ttl)),
    removeMember: (key, member) =>
      ask('removeMember', kindOf(key), () => store.removeMember(key, member)),
    members: (key) => ask('members', kindOf(key), () => store.members(key)),
    append: (key, value, ttl) => ask('append', kindOf(key), () => store.append(key, value, ttl)),
    range: (key, options) => ask('range', kindOf(key), () => store.range(key, options)),
    publish: (channel, message) => ask('publish', channel, () => store.publish(channel, message)),
    openCounter(name, seconds) {
      const count = store.openCounter(name, seconds);
      return (who, times) => ask('count', 'limit', () => count(who, times));
    },
  };
}

function describe(system: string, verb: StoreVerb, kind: string) {
  const name = `${verb} ${kind}`;
  return {
    name,
    attributes: {
      'db.system.name': system,
      'db.operation.name': verb,
      'db.collection.name': kind,
    },
  };
}

/** Keys are `<kind>:<id>`. */
function kindOf(key: string): string {
  return key.slice(0, Math.max(key.indexOf(':'), 0));
}

/** What the caller's own change throws is no fault of the store. */
function isOwnFault(error: unknown): boolean {
  return error instanceof StoreUnavailable;
}
