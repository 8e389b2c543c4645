// What trips to the identity provider are checked against when they come back: a few for each flow, in one record, each good once.
import { randomUUID } from 'node:crypto';
import { HttpError } from '../../http/errors.ts';
import { KEEP, type Store } from '../../store/store.ts';
import { notTrusted } from './code-exchange.ts';
import type { IdentityProvider, SignInChecks } from './identity-provider.ts';

/** `identityProvider`: the id of the one that was left for, when there are several. `until`: seconds since the epoch. */
type StoredChecks = SignInChecks & { identityProvider?: string; takenBy?: string; until: number };

/** `checks`: oldest first. */
type StoredTrips = { checks: StoredChecks[] };

export type Keeping = { store: Store; now: () => number };

const LIFETIME = 600;
/** Tabs and reloads of one flow whose answers still count: strangers who load a page again and again leave no more than this. */
const MOST = 4;

const STATE = /^([\w-]{16,64})\.[\w-]{16,128}$/;
const tripsKey = (uid: string) => `sign-in:${uid}`;

/** The flow or trip that an answer says it belongs to. */
export function tripIn(state: unknown): string | undefined {
  const [, uid] = STATE.exec(String(state ?? '')) ?? [];
  return uid;
}

export async function keepChecks(
  { store, now }: Keeping,
  uid: string,
  checks: SignInChecks,
  { id }: IdentityProvider,
): Promise<void> {
  const identityProvider = id === undefined ? {} : { identityProvider: id };
  const stored = { ...checks, ...identityProvider, until: now() + LIFETIME };
  await store.update<StoredTrips>(tripsKey(uid), (trips) => {
    const others = trips?.checks.filter(({ state }) => state !== stored.state) ?? [];
    return { value: { checks: [...others, stored].slice(-MOST) }, ttl: LIFETIME };
  });
}

/**
 * Of all who ask, one gets them, also when its question had to be sent again over a new connection. An answer at the callback of another
 * provider than was left for gets none, and uses none up (RFC 9700 section 4.4.2.2).
 */
export async function takeChecks(
  { store, now }: Keeping,
  uid: string,
  state: string,
  { id }: IdentityProvider,
): Promise<SignInChecks> {
  const takenBy = randomUUID();
  const isGood = (checks: StoredChecks) =>
    checks.state === state &&
    checks.takenBy === undefined &&
    checks.identityProvider === id &&
    now() < checks.until;
  const after = await store.update<StoredTrips>(tripsKey(uid), (trips) =>
    trips?.checks.some(isGood)
      ? {
          value: { checks: trips.checks.map((c) => (isGood(c) ? { ...c, takenBy } : c)) },
          ttl: LIFETIME,
        }
      : KEEP,
  );
  const found = after?.value.checks.find((checks) => checks.state === state);
  if (found && found.identityProvider !== id)
    throw notTrusted('the answer came from another identity provider than the one asked');
  if (found?.takenBy === takenBy) return found;
  throw new HttpError(
    400,
    'expired',
    'this answer of the identity provider was used already, or is too old',
  );
}
