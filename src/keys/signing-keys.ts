import {
  calculateJwkThumbprint,
  createLocalJWKSet,
  exportJWK,
  generateKeyPair,
  type JWK,
  type JWTVerifyGetKey,
} from 'jose';
import type { Logger } from 'pino';
import { KEEP, type Store } from '../store/store.ts';

export const SIGNING_ALGORITHM = 'ES256';

/** Notifies every process of a rotation. The message is the id of the new key. */
export const SIGNING_KEYS_CHANNEL = 'signing-keys';

/** Times are seconds since the epoch. */
export type SigningKey = {
  jwk: JWK & { kid: string };
  signsFrom: number;
  /** Set when a newer key is published. */
  publishedUntil?: number;
  /** A lower bound of `publishedUntil`, for tokens that live longer than access tokens. */
  neededUntil?: number;
};

/**
 * `accessTokenLifetime` is in seconds. `atOnce` is for a leaked key: the new key signs immediately, and the others are no longer published,
 * so that tokens they signed become invalid.
 */
export type Rotation = { accessTokenLifetime: number; atOnce?: boolean };

/** `next` will sign, `retiring` has signed. */
export const SIGNING_KEY_STATES = ['next', 'signing', 'retiring'] as const;
export type SigningKeyState = (typeof SIGNING_KEY_STATES)[number];

export type PublishedKey = SigningKey & { state: SigningKeyState };

/** The previous rotation has not taken effect yet. */
export class RotationPending extends Error {
  /** When the new key starts to sign, in seconds since the epoch. */
  readonly signsFrom: number;

  constructor(signsFrom: number) {
    super('a new signing key is published and does not sign yet');
    this.name = 'RotationPending';
    this.signsFrom = signsFrom;
  }
}

/**
 * How long a key is published before it signs, and after the last token it signed expires. Longer than verifiers may cache the JWKS
 * (5 minutes) plus clock skew.
 */
const PUBLICATION_MARGIN_SECONDS = 600;
/** Key of the record. */
export const SIGNING_KEYS = 'signing-keys:access-token';

/** Returns all keys, newest first. If the store has none, stores `held`, or else a new key. */
export async function loadSigningKeys(
  store: Store,
  now: number,
  held: readonly SigningKey[] = [],
): Promise<readonly SigningKey[]> {
  const stored = await store.get<SigningKey[]>(SIGNING_KEYS);
  if (stored) return stored.value;
  const keys = held.length > 0 ? held : [{ jwk: await createSigningKey(), signsFrom: now }];
  await store.add(SIGNING_KEYS, keys, Infinity);
  const added = await store.get<SigningKey[]>(SIGNING_KEYS);
  if (!added) throw new Error('the signing keys that were just written are not in the store');
  return added.value;
}

/** Publishes a new key, which signs once every verifier has had time to fetch it. Returns all keys, newest first. Throws RotationPending. */
export async function rotateSigningKeys(
  store: Store,
  { accessTokenLifetime, atOnce = false }: Rotation,
  now: number,
): Promise<SigningKey[]> {
  await loadSigningKeys(store, now);
  const jwk = await createSigningKey();
  const after = await store.update<SigningKey[]>(SIGNING_KEYS, (keys = []) => ({
    value: atOnce ? [{ jwk, signsFrom: now }] : publish(keys, jwk, accessTokenLifetime, now),
    ttl: Infinity,
  }));
  // Processes also reload every minute, so a lost notification does no harm.
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
  const signsFrom = now + PUBLICATION_MARGIN_SECONDS;
  const publishedUntil = signsFrom + accessTokenLifetime + PUBLICATION_MARGIN_SECONDS;
  const older = keys
    .filter((key) => isPublished(key, now))
    .map((key) => ({
      ...key,
      publishedUntil: key.publishedUntil ?? Math.max(publishedUntil, key.neededUntil ?? 0),
    }));
  return [{ jwk, signsFrom }, ...older];
}

/** Returns the signing key and keeps it published until `expiresAt` (seconds since the epoch), unless it is rotated with `atOnce`. */
export async function reserveSigningKey(
  store: Store,
  expiresAt: number,
  now: number,
): Promise<SigningKey> {
  await loadSigningKeys(store, now);
  // Updates the record that rotations write, so that they cannot race.
  const after = await store.update<SigningKey[]>(SIGNING_KEYS, (keys = []) => {
    const signing = signingKey(keys, now);
    const reserved = keepPublishedUntil(signing, expiresAt + PUBLICATION_MARGIN_SECONDS);
    if (reserved === signing) return KEEP;
    return { value: keys.map((key) => (key === signing ? reserved : key)), ttl: Infinity };
  });
  return signingKey(after?.value ?? [], now);
}

function keepPublishedUntil(key: SigningKey, moment: number): SigningKey {
  if ((key.publishedUntil ?? key.neededUntil ?? 0) >= moment) return key;
  return key.publishedUntil === undefined
    ? { ...key, neededUntil: moment }
    : { ...key, publishedUntil: moment };
}

/** Returns the newest key that has been published long enough to sign. */
export function signingKey(keys: readonly SigningKey[], now: number): SigningKey {
  const key = keys.find(({ signsFrom }) => signsFrom <= now) ?? keys.at(-1);
  if (!key) throw new Error('there is no signing key');
  return key;
}

/** Returns the published keys with their state, newest first. */
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

/** Returns the JWKS (RFC 7517): the public parts of the published keys. */
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

export async function createSigningKey(): Promise<SigningKey['jwk']> {
  const { privateKey } = await generateKeyPair(SIGNING_ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: SIGNING_ALGORITHM, use: 'sig' };
}

/** `version` is another object when other keys are published. Without it, only a search tells. */
export type VerificationKeys = JWTVerifyGetKey & { version?: () => object };

/** The signing keys in memory, kept up to date. */
export type SigningKeyRing = {
  all: () => readonly SigningKey[];
  /** Returns the key that signs now. */
  current: () => SigningKey;
  publicJwks: () => { keys: JWK[] };
  /** Finds a verification key among the keys published at the time of the call. */
  verificationKeys: VerificationKeys;
  /** The listener is called after the set of keys changed, until the returned function is called. */
  onChange: (listener: () => void) => () => void;
  close: () => void;
};

const RELOAD_INTERVAL_MS = 60_000;

/** Loads the keys, and reloads them on notification and every minute. */
export async function openSigningKeyRing(
  store: Store,
  now: () => number,
  logger: Logger,
): Promise<SigningKeyRing> {
  let keys = await loadSigningKeys(store, now());
  const listeners = new Set<() => void>();
  const ids = (of: readonly SigningKey[]) => of.map(({ jwk }) => jwk.kid).join(' ');

  const reload = async () => {
    const read = await loadSigningKeys(store, now(), keys);
    const isChanged = ids(read) !== ids(keys);
    keys = read;
    if (isChanged) listeners.forEach((listener) => listener());
  };
  const reloadSafely = () => {
    reload().catch((error: unknown) =>
      logger.warn({ err: error }, 'reloading the signing keys failed'),
    );
  };
  const timer = setInterval(reloadSafely, RELOAD_INTERVAL_MS).unref();
  await store.subscribe(SIGNING_KEYS_CHANNEL, reloadSafely);
  // A rotation between the first load and the subscription was not notified.
  await reload();

  return {
    all: () => keys,
    current: () => signingKey(keys, now()),
    publicJwks: () => publicJwks(keys, now()),
    verificationKeys: cachedJwks(() => keys, now),
    onChange(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close: () => clearInterval(timer),
  };
}

/**
 * Keeps the imported keys until the set of published keys changes, because importing a key costs more than verifying. The set is computed
 * after a reload and once a second, because keys expire.
 */
function cachedJwks(all: () => readonly SigningKey[], now: () => number): VerificationKeys {
  let seen: { keys: readonly SigningKey[]; second: number } | undefined;
  let ids: string | undefined;
  let keySet = createLocalJWKSet({ keys: [] });
  const current = () => {
    const keys = all();
    const second = Math.floor(now());
    if (seen?.keys !== keys || seen.second !== second) {
      const published = publicJwks(keys, now());
      const publishedIds = published.keys.map(({ kid }) => kid).join(' ');
      if (publishedIds !== ids) keySet = createLocalJWKSet(published);
      ids = publishedIds;
      seen = { keys, second };
    }
    return keySet;
  };
  const find: JWTVerifyGetKey = (header, token) => current()(header, token);
  return Object.assign(find, { version: current });
}
