// Which sign-ins belong to a session at an identity provider (`sid`), so that a logout token can end them.
import { MAX_ENDED_SIGN_INS } from '../people/account.ts';
import { HttpError } from '../http/errors.ts';
import { KEEP, type Store } from '../store/store.ts';
import { STOPPED } from './errors.ts';

/** Unique together. */
export type ProviderSession = { issuer: string; sid: string };

/** `at` is in seconds since the epoch. */
export type SignIn = { account: string; at: number };

/** `ended`: no further sign-in can belong to it. */
type StoredSession = { signIns: SignIn[]; ended?: true };

const sessionKey = ({ issuer, sid }: ProviderSession) => `provider-session:${issuer}\n${sid}`;

/** `ttl` in seconds; no session of ours lasts longer. Throws 400 if the session at the provider has ended in the meantime. */
export async function addSignIn(
  store: Store,
  session: ProviderSession,
  signIn: SignIn,
  ttl: number,
): Promise<void> {
  const after = await store.update<StoredSession>(sessionKey(session), (current) => {
    if (current?.ended) return KEEP;
    const signIns = [...(current?.signIns ?? []), signIn].slice(-MAX_ENDED_SIGN_INS);
    return { value: { signIns }, ttl };
  });
  if (!after?.value.ended) return;
  const message = 'the session at the identity provider has ended: sign in again';
  throw new HttpError(400, 'access_denied', message, { about: STOPPED });
}

/** Returns the sign-ins that belonged to the session. */
export async function endProviderSession(
  store: Store,
  session: ProviderSession,
  ttl: number,
): Promise<SignIn[]> {
  const after = await store.update<StoredSession>(sessionKey(session), (current) => ({
    value: { signIns: current?.signIns ?? [], ended: true },
    ttl,
  }));
  return after?.value.signIns ?? [];
}
