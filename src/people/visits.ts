// When a person was last on the account page, which marks what was connected since.
import type { Store } from '../store/store.ts';

/** Times in seconds. `since`: the end of the visit before this one; absent in the first. */
export type Visit = { seenAt: number; since?: number };

/** Views of the page that follow sooner are one visit. */
const VISIT_SECONDS = 1800;

const visitKey = (account: string) => `account-visit:${account}`;

/** Stores a view of the page. Resolves to the visit that it is part of. */
export async function recordVisit(
  store: Store,
  account: string,
  { now, lifetime }: { now: number; lifetime: number },
): Promise<Visit> {
  const next = (visit: Visit | undefined): Visit => {
    const isNew = visit && now - visit.seenAt > VISIT_SECONDS;
    const since = isNew ? visit.seenAt : visit?.since;
    return { seenAt: Math.floor(now), ...(since === undefined ? {} : { since }) };
  };
  const stored = await store.update<Visit>(visitKey(account), (visit) => ({
    value: next(visit),
    ttl: lifetime,
  }));
  return stored?.value ?? next(undefined);
}

export async function findVisit(store: Store, account: string): Promise<Visit | undefined> {
  return (await store.get<Visit>(visitKey(account)))?.value;
}

export function forgetVisits(store: Store, account: string): Promise<void> {
  return store.delete(visitKey(account));
}
