import type { Store } from './store.ts';

/** The store for steps of one request that read the same records: of each key, the first `get` or `members` is the result of all. */
export function readingOnce<S extends Store>(store: S): S {
  const values = new Map<string, Promise<unknown>>();
  const once = <T>(key: string, read: () => Promise<T>): Promise<T> => {
    const reading = (values.get(key) as Promise<T> | undefined) ?? read();
    values.set(key, reading);
    return reading;
  };
  return {
    ...store,
    get: (key: string) => once(key, () => store.get(key)),
    members: (key: string) => once(key, () => store.members(key)),
  };
}
