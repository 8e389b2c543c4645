import { setTimeout as delay } from 'node:timers/promises';
import { createRemoteJWKSet, customFetch, errors, type FetchImplementation } from 'jose';
import type { Logger } from 'pino';
import { tracedRequest } from '../observability/tracing.ts';
import type { Store } from '../store/store.ts';
import { SIGNING_KEYS_CHANNEL, type SigningKeyRing } from './signing-keys.ts';

export type RemoteKeys = Pick<SigningKeyRing, 'verificationKeys' | 'close'>;

const RELOAD_INTERVAL_MS = 60_000;
const MAX_CACHE_AGE_MS = 86_400_000;
/** Short, because a token may arrive before the notice of a rotation. Tokens with made-up key ids cause one request a second. */
const UNKNOWN_KEY_COOLDOWN_MS = 1000;
const FETCH_TIMEOUT_MS = 2000;
const MAX_RETRIES = 20;
const RETRY_DELAY_MS = 250;

const fetchTraced: FetchImplementation = (url, options) =>
  tracedRequest(
    { peer: 'authorization-server', method: 'GET', url },
    () => fetch(url, options),
    ({ status }) => status,
  );

/**
 * Verification keys from the JWKS of an authorization server in another process. Fetched on first use, then on notification and every minute,
 * and kept while the server is unavailable.
 */
export async function openRemoteKeys(
  jwksUri: string,
  store: Store,
  logger: Logger,
): Promise<RemoteKeys> {
  const keySet = createRemoteJWKSet(new URL(jwksUri), {
    cacheMaxAge: MAX_CACHE_AGE_MS,
    cooldownDuration: UNKNOWN_KEY_COOLDOWN_MS,
    timeoutDuration: FETCH_TIMEOUT_MS,
    // An intermediate cache may still contain a leaked key.
    headers: { 'cache-control': 'no-cache' },
    [customFetch]: fetchTraced,
  });
  const closed = new AbortController();
  const reload = () =>
    keySet
      .reload()
      .catch((error: unknown) =>
        logger.warn({ err: error }, 'reloading the published keys failed'),
      );
  // The authorization server receives the same notification, and may answer before it has reloaded its keys.
  const reloadUntilPublished = async (kid: string) => {
    for (let retry = 0; retry < MAX_RETRIES && !closed.signal.aborted; retry++) {
      await reload();
      if (keySet.jwks()?.keys.some((key) => key.kid === kid)) return;
      await delay(RETRY_DELAY_MS, undefined, { ref: false });
    }
  };
  const timer = setInterval(reload, RELOAD_INTERVAL_MS).unref();
  await store.subscribe(SIGNING_KEYS_CHANNEL, (kid) => void reloadUntilPublished(kid));
  return {
    verificationKeys: keySet,
    close() {
      closed.abort();
      clearInterval(timer);
    },
  };
}

/** Returns whether a verification failed because the JWKS could not be fetched or is invalid, which says nothing about the JWT. */
export function isKeySetError(error: unknown): boolean {
  return (
    !(error instanceof errors.JOSEError) ||
    error.code === errors.JOSEError.code ||
    error instanceof errors.JWKSTimeout ||
    error instanceof errors.JWKSInvalid
  );
}
