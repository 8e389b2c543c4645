// The published keys of an authorization server in another process (RFC 7517): read again on notice and every minute, kept while it is away.
import { setTimeout as delay } from 'node:timers/promises';
import { createRemoteJWKSet, customFetch, type FetchImplementation } from 'jose';
import type { Logger } from 'pino';
import { tracedRequest } from '../observability/tracing.ts';
import type { Store } from '../store/store.ts';
import type { SigningKeyRing } from './signing-key-ring.ts';
import { SIGNING_KEYS_CHANNEL } from './signing-keys.ts';

export type RemoteKeys = Pick<SigningKeyRing, 'verificationKeys' | 'close'>;

const READ_EVERY = 60_000;
const KEPT_AT_MOST = 86_400_000;
/** After a rotation at once a new token may come before the notice does. Whoever makes up key ids causes one request a second. */
const BETWEEN_UNKNOWN_KEYS = 1000;
/** A call whose token names a key not read yet waits for it. */
const LONGEST_READ = 2000;
const RETRIES = 20;
const BETWEEN_RETRIES = 250;

const fetchTraced: FetchImplementation = (url, options) =>
  tracedRequest(
    { peer: 'authorization-server', method: 'GET', url },
    () => fetch(url, options),
    ({ status }) => status,
  );

/** Nothing is read before the first token comes. */
export async function openRemoteKeys(
  jwksUri: string,
  store: Store,
  logger: Logger,
): Promise<RemoteKeys> {
  const keySet = createRemoteJWKSet(new URL(jwksUri), {
    cacheMaxAge: KEPT_AT_MOST,
    cooldownDuration: BETWEEN_UNKNOWN_KEYS,
    timeoutDuration: LONGEST_READ,
    // What a cache on the way kept may still have a key that leaked.
    headers: { 'cache-control': 'no-cache' },
    [customFetch]: fetchTraced,
  });
  const closed = new AbortController();
  const read = () =>
    keySet
      .reload()
      .catch((error: unknown) =>
        logger.warn({ err: error }, 'the published keys could not be read again'),
      );
  // The authorization server has the same notice, and may answer before it read its keys again.
  const readUntilPublished = async (kid: string) => {
    for (let retry = 0; retry < RETRIES && !closed.signal.aborted; retry++) {
      await read();
      if (keySet.jwks()?.keys.some((key) => key.kid === kid)) return;
      await delay(BETWEEN_RETRIES, undefined, { ref: false });
    }
  };
  const timer = setInterval(read, READ_EVERY).unref();
  await store.subscribe(SIGNING_KEYS_CHANNEL, (kid) => void readUntilPublished(kid));
  return {
    verificationKeys: keySet,
    close() {
      closed.abort();
      clearInterval(timer);
    },
  };
}
