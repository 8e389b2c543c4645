// The keys that sign access tokens (RFC 9068, RFC 7517): kept sealed in the store, published before they sign and until what they signed expired.
import { calculateJwkThumbprint, exportJWK, generateKeyPair, type JWK } from 'jose';
import { KEEP, type Store } from '../store/store.ts';

export const SIGNING_ALGORITHM = 'ES256';

/** Tells every process that the keys changed; carries the id of the new one. */
export const SIGNING_KEYS_CHANNEL = 'signing-keys';

/** Times are seconds since the epoch. */
export type SigningKey = {
  jwk: JWK & { kid: string };
  signsFrom: number;
  /** Set when a newer key takes over. */
  publishedUntil?: number;
  /** The least that `publishedUntil` will be, for tokens that live longer than access tokens. */
  neededUntil?: number;
};

/**
 * `accessTokenLifetime` in seconds. `atOnce` is for a key that leaked: the new key signs now, the others are published no longer,
 * and what they signed is good no longer.
 */
export type Rotation = { accessTokenLifetime: number; atOnce?: boolean };

/** `next` waits to sign, `retiring` signed before. */
export const SIGNING_KEY_STATES = ['next', 'signing', 'retiring'] as const;
export type SigningKeyState = (typeof SIGNING_KEY_STATES)[number];

export type PublishedKey = SigningKey & { state: SigningKeyState };

/** A new key is published already and does not sign yet. */
export class RotationPending extends Error {
  /** When it signs, in seconds since the epoch. */
  readonly signsFrom: number;

  constructor(signsFrom: number) {
    super('a new signing key is published and does not sign yet');
    this.name = 'RotationPending';
    this.signsFrom = signsFrom;
  }
}

/**
 * In seconds, before a key signs and after the last token of an old one expired. Longer than verifiers keep what we publish: the
 * document may be cached for 5 minutes, and some clocks are wrong.
 */
const MARGIN = 600;
/** Their place in the store. */
export const SIGNING_KEYS = 'signing-keys:access-token';

/** Newest first. Every process that uses the store gets the same keys; `held` are put back into a store that lost its data. */
export async function openSigningKeys(
  store: Store,
  now: number,
  held: readonly SigningKey[] = [],
): Promise<readonly SigningKey[]> {
  const stored = await store.get<SigningKey[]>(SIGNING_KEYS);
  if (stored) return stored.value;
  const keys = held.length > 0 ? held : [{ jwk: await createKey(), signsFrom: now }];
  await store.add(SIGNING_KEYS, keys, Infinity);
  const added = await store.get<SigningKey[]>(SIGNING_KEYS);
  if (!added) throw new Error('the signing keys that were just written are not in the store');
  return added.value;
}

/** Publishes a new key, which takes over when every verifier has had time to see it. Returns all keys, newest first. Throws RotationPending. */
export async function rotateSigningKeys(
  store: Store,
  { accessTokenLifetime, atOnce = false }: Rotation,
  now: number,
): Promise<SigningKey[]> {
  await openSigningKeys(store, now);
  const jwk = await createKey();
  const after = await store.update<SigningKey[]>(SIGNING_KEYS, (keys = []) => ({
    value: atOnce ? [{ jwk, signsFrom: now }] : publish(keys, jwk, accessTokenLifetime, now),
    ttl: Infinity,
  }));
  // Listeners read again every minute anyway, so a message that cannot be sent undoes nothing.
  await store.publish(SIGNING_KEYS_CHANNEL, jwk.kid).catch(() => undefined);
  return after?.value ?? [];
}

function publish(
  keys: readonly SigningKey[],
  jwk: SigningKey['jwk'],
  accessTokenLifetime: number,
  now: number,
): SigningKey[] {
  const waiting = keys.find((key) => key.signsFrom > now);
  if (waiting) throw new RotationPending(waiting.signsFrom);
  const signsFrom = now + MARGIN;
  const publishedUntil = signsFrom + accessTokenLifetime + MARGIN;
  const older = keys
    .filter((key) => isPublished(key, now))
    .map((key) => ({
      ...key,
      publishedUntil: key.publishedUntil ?? Math.max(publishedUntil, key.neededUntil ?? 0),
    }));
  return [{ jwk, signsFrom }, ...older];
}

/** The key that signs now, which no rotation but one at once takes away from a token that expires at `expiresAt` (seconds since the epoch). */
export async function signingKeyUntil(
  store: Store,
  expiresAt: number,
  now: number,
): Promise<SigningKey> {
  await openSigningKeys(store, now);
  // In the record that rotations write, so that none comes in between.
  const after = await store.update<SigningKey[]>(SIGNING_KEYS, (keys = []) => {
    const signing = signingKey(keys, now);
    const kept = keptUntil(signing, expiresAt + MARGIN);
    if (kept === signing) return KEEP;
    return { value: keys.map((key) => (key === signing ? kept : key)), ttl: Infinity };
  });
  return signingKey(after?.value ?? [], now);
}

function keptUntil(key: SigningKey, moment: number): SigningKey {
  if ((key.publishedUntil ?? key.neededUntil ?? 0) >= moment) return key;
  return key.publishedUntil === undefined
    ? { ...key, neededUntil: moment }
    : { ...key, publishedUntil: moment };
}

/** The key that signs now: the newest that was published long enough. */
export function signingKey(keys: readonly SigningKey[], now: number): SigningKey {
  const key = keys.find(({ signsFrom }) => signsFrom <= now) ?? keys.at(-1);
  if (!key) throw new Error('there is no signing key');
  return key;
}

/** Newest first, each with what it is for now. */
export function publishedKeys(keys: readonly SigningKey[], now: number): PublishedKey[] {
  const signing = signingKey(keys, now);
  const stateOf = (key: SigningKey): SigningKeyState => {
    if (key === signing) return 'signing';
    return key.signsFrom > now ? 'next' : 'retiring';
  };
  return keys
    .filter((key) => isPublished(key, now))
    .map((key) => ({ ...key, state: stateOf(key) }));
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
