// Stored state, nonce and PKCE verifier of pending sign-ins, in one record for each interaction. Each is single-use.
import { randomUUID } from 'node:crypto';
import { HttpError } from '../http/errors.ts';
import { KEEP, type Store } from '../store/store.ts';
import { notTrusted } from './errors.ts';
import type { IdentityProvider, LoginState } from './provider.ts';

/** `identityProvider` is the provider's id, if several are configured. `until` is in seconds since the epoch. */
type StoredLoginState = LoginState & { identityProvider?: string; takenBy?: string; until: number };

/** `checks`: oldest first. */
type StoredLoginStates = { checks: StoredLoginState[] };

export type LoginStateOptions = { store: Store; now: () => number };

const LIFETIME_SECONDS = 600;
/** Bounds the record when a page is loaded repeatedly. Four tabs or reloads can still complete. */
const MAX_PENDING = 4;

const STATE = /^([\w-]{16,64})\.[\w-]{16,128}$/;
const loginStatesKey = (uid: string) => `sign-in:${uid}`;

/** Returns the uid of the login request for which a `state` was created. */
export function uidOfState(state: unknown): string | undefined {
  const [, uid] = STATE.exec(String(state ?? '')) ?? [];
  return uid;
}

export async function saveLoginState(
  { store, now }: LoginStateOptions,
  uid: string,
  loginState: LoginState,
  { id }: IdentityProvider,
): Promise<void> {
  const identityProvider = id === undefined ? {} : { identityProvider: id };
  const stored = { ...loginState, ...identityProvider, until: now() + LIFETIME_SECONDS };
  await store.update<StoredLoginStates>(loginStatesKey(uid), (record) => {
    const others = record?.checks.filter(({ state }) => state !== stored.state) ?? [];
    return { value: { checks: [...others, stored].slice(-MAX_PENDING) }, ttl: LIFETIME_SECONDS };
  });
}

/**
 * Returns the login state to exactly one caller, also when the store command is retried. A response at another provider's callback is
 * rejected and consumes nothing (RFC 9700 section 4.4.2.2).
 */
export async function consumeLoginState(
  { store, now }: LoginStateOptions,
  uid: string,
  state: string,
  { id }: IdentityProvider,
): Promise<LoginState> {
  const takenBy = randomUUID();
  const isValid = (checks: StoredLoginState) =>
    checks.state === state &&
    checks.takenBy === undefined &&
    checks.identityProvider === id &&
    now() < checks.until;
  const after = await store.update<StoredLoginStates>(loginStatesKey(uid), (record) =>
    record?.checks.some(isValid)
      ? {
          value: { checks: record.checks.map((c) => (isValid(c) ? { ...c, takenBy } : c)) },
          ttl: LIFETIME_SECONDS,
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
