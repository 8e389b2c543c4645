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
    verificationKeys: rememberingJwks(() => publicJwks(keys, now())),
    onChange: (listener) => listeners.push(listener),
    close: () => clearInterval(timer),
  };
}

/** A set of imported keys is made once and used until other keys are published: importing costs more than verifying. */
function rememberingJwks(published: () => { keys: JWK[] }): JWTVerifyGetKey {
  let ids: string | undefined;
  let keySet: JWTVerifyGetKey | undefined;
  return (header, token) => {
    const jwks = published();
    const current = jwks.keys.map(({ kid }) => kid).join(' ');
    if (!keySet || current !== ids) keySet = createLocalJWKSet(jwks);
    ids = current;
    return keySet(header, token);
  };
}
