// The signing keys as one process holds them: read at start, again on notice, and now and then in case a notice was lost.
import { createLocalJWKSet, type JWK, type JWTVerifyGetKey } from 'jose';
import type { Logger } from 'pino';
import type { Store } from '../store/store.ts';
import {
  openSigningKeys,
  publicJwks,
  type SigningKey,
  SIGNING_KEYS_CHANNEL,
} from './signing-keys.ts';

export type SigningKeyRing = {
  all: () => readonly SigningKey[];
  publicJwks: () => { keys: JWK[] };
  /** Verifies with whatever is published at the time of the call. */
  verificationKeys: JWTVerifyGetKey;
  /** Called after the set of keys changed. */
  onChange: (listener: () => void) => void;
  close: () => void;
};

const READ_EVERY = 60_000;

export async function openSigningKeyRing(
  store: Store,
  now: () => number,
  logger: Logger,
): Promise<SigningKeyRing> {
  let keys = await openSigningKeys(store, now());
  const listeners: (() => void)[] = [];
  const ids = (of: readonly SigningKey[]) => of.map(({ jwk }) => jwk.kid).join(' ');

  const reload = async () => {
    const read = await openSigningKeys(store, now(), keys);
    const isChanged = ids(read) !== ids(keys);
    keys = read;
    if (isChanged) listeners.forEach((listener) => listener());
  };
  const reloadSafely = () => {
    reload().catch((error: unknown) =>
      logger.warn({ err: error }, 'the signing keys could not be read again'),
    );
  };
  const timer = setInterval(reloadSafely, READ_EVERY).unref();
  await store.subscribe(SIGNING_KEYS_CHANNEL, reloadSafely);
  // Nobody heard of a rotation between the first reading and here.
  await reload();

  return {
    all: () => keys,
    publicJwks: () => publicJwks(keys, now()),
    verificationKeys: rememberingJwks(() => keys, now),
    onChange: (listener) => listeners.push(listener),
    close: () => clearInterval(timer),
  };
}

/**
 * A set of imported keys is made once and used until other keys are published, because importing costs more than verifying. What is
 * published is looked up when the keys were read again, and once a second: keys retire with time.
 */
function rememberingJwks(all: () => readonly SigningKey[], now: () => number): JWTVerifyGetKey {
  let seen: { keys: readonly SigningKey[]; second: number } | undefined;
  let ids: string | undefined;
  let keySet = createLocalJWKSet({ keys: [] });
  return (header, token) => {
    const keys = all();
    const second = Math.floor(now());
    if (seen?.keys !== keys || seen.second !== second) {
      const published = publicJwks(keys, now());
      const current = published.keys.map(({ kid }) => kid).join(' ');
      if (current !== ids) keySet = createLocalJWKSet(published);
      ids = current;
      seen = { keys, second };
    }
    return keySet(header, token);
  };
}
