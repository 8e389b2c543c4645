// A restore that began and did not end: no process serves the store before it is repeated.
import type { Store } from '../store/store.ts';

const KEY = 'restore:unfinished';

/** ISO 8601. */
type Unfinished = { since: string };

export function noteUnfinished(store: Store, since: string): Promise<boolean> {
  return store.add<Unfinished>(KEY, { since }, Infinity);
}

export function noteFinished(store: Store): Promise<void> {
  return store.delete(KEY);
}

export async function unfinishedSince(store: Store): Promise<string | undefined> {
  return (await store.get<Unfinished>(KEY))?.value.since;
}
