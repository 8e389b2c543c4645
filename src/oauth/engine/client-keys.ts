// Clients that authenticate with a key: private_key_jwt (RFC 7523 section 2.2).
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { KoaContextWithOIDC } from 'oidc-provider';
import type { RateLimit } from '../../http/rate-limits.ts';
import { requestContext } from '../../http/request-context.ts';
import { lruCache } from '../../lru-cache.ts';
import {
  ASSERTION_ALGORITHMS,
  fits,
  isKeySetAddress,
  KeySetRefused,
  type PublicKey,
  publicKeys,
} from '../../settings/key-set.ts';
import type { Store } from '../../store/store.ts';
import { ENDPOINTS } from '../metadata.ts';
import {
  addressQuota,
  type FetchLimits,
  type FetchQuota,
  limitFetches,
  maxAge,
  TooManyFetches,
} from './client-metadata-documents.ts';
import { type KeyClient, withKeys } from './extensions.ts';
import { invalidClientAuth, temporarilyUnavailable, tooManyAttempts } from './errors.ts';
import type { Network } from '../../http/guarded-request.ts';
import {
  AddressRefused,
  DocumentRefused,
  DocumentUnreachable,
  fetchDocument,
  KEY_SET,
} from './guarded-fetch.ts';

/** How far ahead the `exp` of an assertion may be. */
const MAX_ASSERTION_SECONDS = 300;
/** How far the clocks of clients may differ from ours. The engine's `clockTolerance`. */
export const CLOCK_TOLERANCE_SECONDS = 15;

/**
 * What `aud` of an assertion may be: the issuer or the token endpoint. Python's SDK parses the issuer, which adds the slash of the empty path (RFC
 * 3986 section 6.2.3).
 */
export function assertionAudiences(authUrl: string): string[] {
  return [authUrl, new URL(authUrl).href, authUrl + ENDPOINTS.token];
}

/**
 * The engine's `assertJwtClientAuthClaimsAndHeader`, called after it has verified the signature, `iss`, `sub`, `exp`, `nbf`, `jti`, and that
 * `aud` has one of `audiences`. Rejects an assertion that is also for somebody else, who could present it here, one that is valid for long, and one
 * with a critical extension.
 */
export const requireShortLived =
  (audiences: readonly unknown[]) =>
  async (
    _ctx: unknown,
    { aud, exp }: Record<string, unknown>,
    header: Record<string, unknown>,
  ): Promise<void> => {
    // RFC 7515 section 4.1.11. The engine ignores it, and no extension is supported.
    if (header.crit !== undefined)
      throw invalidClientAuth('the client assertion must have no crit header');
    if (![aud].flat().every((each) => audiences.includes(each)))
      throw invalidClientAuth('aud of the client assertion must name this server only');
    const latest = Date.now() / 1000 + MAX_ASSERTION_SECONDS + CLOCK_TOLERANCE_SECONDS;
    if (typeof exp !== 'number' || exp > latest)
      throw invalidClientAuth(
        'exp of the client assertion must be at most five minutes in the future',
      );
  };

/**
 * Marks the verified assertion of a request as used until it expires, `expiresIn` in seconds. Rejects with `invalid_client` for all but one
 * request across all processes.
 */
export async function consumeAssertion(
  store: Store,
  { oidc: { params, client } }: KoaContextWithOIDC,
  expiresIn: number,
): Promise<void> {
  const { jti } = decodeJwt(String(params?.client_assertion));
  const key = `client-assertion:${client?.clientId}\n${jti}`;
  if (await store.add(key, true, Math.max(1, Math.ceil(expiresIn) + 1))) return;
  throw invalidClientAuth('the client assertion was already used: create one for each request');
}

export type ClientKeyOptions = {
  network: Network;
  limits: FetchLimits;
  /** Limits how often an address causes the first fetch of keys of a metadata-document client. */
  rateLimit: RateLimit;
  now: () => number;
};

type Header = { alg?: unknown; kid?: unknown };

type FetchedKeys = { keys: PublicKey[]; fetchedAt: number; freshUntil: number };

/** Finds the keys at an address that are current enough for an assertion with this header. */
export type ClientKeys = (url: string, header: Header, quota?: FetchQuota) => Promise<PublicKey[]>;

const MAX_CACHED = 1000;
const MIN_FRESH_SECONDS = 300;
const MAX_FRESH_SECONDS = 3600;
/** A set is fetched at most this often because a key is missing from it. */
const REFETCH_SECONDS = 60;
/** For how long known keys are used while their host is down. */
const MAX_STALE_SECONDS = 86_400;

/**
 * Fetches and caches key sets. A set is fetched again when it is no longer fresh, and at most once a minute when it lacks the key of an
 * assertion (or when an assertion names no key, because the wanted one may have been replaced). Rejects with the errors of `fetchDocument` and
 * `limitFetches`, and with KeySetRefused.
 */
function clientKeys({ network, limits, now }: ClientKeyOptions): ClientKeys {
  const cache = lruCache<FetchedKeys>(MAX_CACHED);
  const fetchCurrent = limitFetches(
    async (url) => {
      const { text, cacheControl } = await fetchDocument(url, network, KEY_SET);
      const keys = publicKeys(parse(text));
      const freshFor = Math.min(
        MAX_FRESH_SECONDS,
        Math.max(MIN_FRESH_SECONDS, maxAge(cacheControl)),
      );
      cache.set(url, { keys, fetchedAt: now(), freshUntil: now() + freshFor });
      return keys;
    },
    limits,
    now,
  );
  return async (url, header, quota) => {
    if (!isKeySetAddress(url)) throw new KeySetRefused('it is not https, or has a port');
    const cached = cache.get(url);
    if (!cached) return fetchCurrent(url, quota);
    const { keys, fetchedAt, freshUntil } = cached;
    const isKnown = keys.some((key) => fits(key, header));
    const isNamed = keys.some(
      (key) => fits(key, header) && key.kid === header.kid && key.kid !== undefined,
    );
    if (now() < (isNamed ? freshUntil : fetchedAt + REFETCH_SECONDS)) return keys;
    return fetchCurrent(url).catch((error: unknown) => {
      const isUsable = isKnown && now() - fetchedAt < MAX_STALE_SECONDS;
      if (isUsable && error instanceof DocumentUnreachable) return keys;
      throw error;
    });
  };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new KeySetRefused('the key set is not JSON');
  }
}

const NO_KEY =
  'no key of this client fits the assertion: kid and alg in its header must be those of a registered key';

export type KeyLoader = (client: KeyClient, ctx: KoaContextWithOIDC) => Promise<KeyClient>;

/**
 * Returns a function that returns a client with the keys that verify the assertion of a request, if it has one. A failure of their host is 503
 * `temporarily_unavailable`, so that clients try again; keys that cannot be used are `invalid_client`.
 *
 * A metadata document may support `none` and keys. Its assertions are verified, not ignored.
 */
export function keyLoader(options: ClientKeyOptions): KeyLoader {
  const findKeys = clientKeys(options);
  return async (client, ctx) => {
    const assertion = ctx.oidc.params?.client_assertion;
    if (typeof assertion !== 'string') return client;
    const hasDocument = client.clientId.startsWith('https://');
    const hasKeys = client.jwks !== undefined || client.jwksUri !== undefined;
    if (hasDocument && hasKeys && client.clientAuthMethod === 'none')
      client.tokenEndpointAuthMethod = 'private_key_jwt';
    if (client.clientAuthMethod !== 'private_key_jwt') return client;
    const header = headerOf(assertion);
    // The engine refuses other algorithms, without keys.
    if (!ASSERTION_ALGORITHMS.some((supported) => supported === header.alg)) return client;
    const quota = hasDocument ? addressQuota(options, requestContext(ctx).address) : undefined;
    const keys =
      client.jwksUri === undefined
        ? publicKeys(client.jwks)
        : await findKeys(client.jwksUri, header, quota).catch((error: unknown) => {
            throw toEngineError(error, ctx);
          });
    const { kid } = header;
    const fitting = keys.filter((key) => fits(key, header));
    if (fitting.length === 0) throw invalidClientAuth(NO_KEY);
    // The engine compares `kid` strictly.
    return withKeys(
      client,
      typeof kid === 'string' ? fitting.map((key) => ({ ...key, kid })) : fitting,
    );
  };
}

function headerOf(assertion: string): Header {
  try {
    return decodeProtectedHeader(assertion);
  } catch {
    return {};
  }
}

function toEngineError(error: unknown, ctx: KoaContextWithOIDC): unknown {
  if (error instanceof TooManyFetches && error.seconds !== undefined)
    return tooManyAttempts(ctx, error.seconds);
  // The same, so that nobody learns which names exist in our network.
  if (error instanceof AddressRefused || hasNoAddress(error))
    return invalidClientAuth('the host of jwks_uri has no public address', error);
  if (error instanceof DocumentUnreachable) return temporarilyUnavailable(error);
  if (error instanceof DocumentRefused || error instanceof KeySetRefused)
    return invalidClientAuth(`jwks_uri of the client cannot be used: ${error.message}`, error);
  return error;
}

function hasNoAddress(error: unknown): error is Error {
  const { code } = (error instanceof DocumentUnreachable ? (error.cause ?? {}) : {}) as {
    code?: unknown;
  };
  return code === 'ENOTFOUND' || code === 'ENODATA';
}
