// What several generations of hosts share (server.ts): opened by the first that needs it, closed after the last one.
import { createResources, type Resources } from './resources.ts';
import type { OpenedStore } from './store/open.ts';

/** What `open` gets: a store whose subscriptions end with what is opened, and a place for what must be closed then. */
export type KeepOptions = { store: OpenedStore; resources: Resources };

/**
 * Returns what an earlier generation opened under the key, if it is still open, or opens it. So what the key does not name must not depend on the
 * settings.
 */
export type Keep = <T>(key: string, open: (options: KeepOptions) => T | Promise<T>) => Promise<T>;

type Kept = { value: Promise<unknown>; users: number; resources: Resources };

/** Returns what makes the `keep` of one generation, whose `resources` release what it used. */
export function openKeeper(store: OpenedStore): (generation: Resources) => Keep {
  const open = new Map<string, Kept>();
  const release = async (key: string, kept: Kept) => {
    kept.users -= 1;
    if (kept.users > 0) return;
    if (open.get(key) === kept) open.delete(key);
    await kept.resources.close();
  };
  return (generation) =>
    async function keep<T>(
      key: string,
      openOne: (options: KeepOptions) => T | Promise<T>,
    ): Promise<T> {
      let kept = open.get(key);
      if (!kept) {
        const resources = createResources();
        const options = { store: withSubscriptions(store, resources), resources };
        kept = { value: (async () => openOne(options))(), users: 0, resources };
        open.set(key, kept);
      }
      const used = kept;
      used.users += 1;
      generation.defer(() => release(key, used));
      try {
        return (await used.value) as T;
      } catch (error) {
        // The next one tries again.
        if (open.get(key) === used) open.delete(key);
        throw error;
      }
    };
}

/** The store, with subscriptions that end when the resources are closed. */
export function withSubscriptions(store: OpenedStore, resources: Resources): OpenedStore {
  return {
    ...store,
    async subscribe(channel, listener) {
      const end = await store.subscribe(channel, listener);
      resources.defer(end);
      return end;
    },
  };
}
