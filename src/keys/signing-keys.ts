// The keys that sign access tokens (RFC 9068, RFC 7517): made at first start, kept sealed in the store, published before they sign and
// for as long after as anything they signed is good.
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import type { Store } from '../store/store.ts';

export const SIGNING_ALGORITHM = 'ES256';

/** Tells every process that the keys changed. */
export const SIGNING_KEYS_CHANNEL = 'signing-keys';

/** Times are seconds since the epoch. */
export type SigningKey = { jwk: JWK & { kid: string }; signsFrom: number; publishedUntil?: number };

/** In seconds: how long a new key is published before it signs, and an old one after it stopped. */
export type RotationTimes = { publishedBefore: number; publishedAfter: number };

const KEYS = 'signing-keys:access-token';

/** Newest first. Every process that starts with the same store gets the same keys. */
export async function openSigningKeys(store: Store, now: number): Promise<SigningKey[]> {
  const stored = await store.get<SigningKey[]>(KEYS);
  if (stored) return stored.value;
  await store.add(KEYS, [{ jwk: await createKey(), signsFrom: now }], Infinity);
  const added = await store.get<SigningKey[]>(KEYS);
  if (!added) throw new Error('the signing keys that were just written are not in the store');
  return added.value;
}

/** Publishes a new key, which takes over when every verifier has had time to see it. Returns all keys, newest first. */
export async function rotateSigningKeys(
  store: Store,
  times: RotationTimes,
  now: number,
): Promise<SigningKey[]> {
  await openSigningKeys(store, now);
  const jwk = await createKey();
  const after = await store.update<SigningKey[]>(KEYS, (keys = []) => {
    const signsFrom = now + times.publishedBefore;
    const publishedUntil = signsFrom + times.publishedAfter;
    const older = keys
      .filter((key) => isPublished(key, now))
      .map((key) => ({ ...key, publishedUntil: key.publishedUntil ?? publishedUntil }));
    return { value: [{ jwk, signsFrom }, ...older], ttl: Infinity };
  });
  await store.publish(SIGNING_KEYS_CHANNEL, jwk.kid).catch(() => undefined);
  return after?.value ?? [];
}

/** The key that signs now: the newest that was published long enough. */
export function signingKey(keys: readonly SigningKey[], now: number): SigningKey {
  const key = keys.find(({ signsFrom }) => signsFrom <= now) ?? keys.at(-1);
  if (!key) throw new Error('there is no signing key');
  return key;
}

/** What verifiers may see: the public part of every key that signs, is about to, or did so lately. */
export function publicJwks(keys: readonly SigningKey[], now: number): { keys: JWK[] } {
  const published = keys.filter((key) => isPublished(key, now));
  return {
    keys: published.map(({ jwk: { kty, crv, x, y, kid, alg, use } }) => ({
      kty,
      crv,
      x,
      y,
      kid,
      alg,
      use,
    })),
  };
}

function isPublished({ publishedUntil }: SigningKey, now: number): boolean {
  return publishedUntil === undefined || publishedUntil > now;
}

async function createKey(): Promise<SigningKey['jwk']> {
  const { privateKey } = await generateKeyPair(SIGNING_ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: SIGNING_ALGORITHM, use: 'sig' };
}
