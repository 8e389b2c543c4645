// The keys with which the issuers of workloads sign: given, at an address, or found by discovery.
import {
  compactVerify,
  createLocalJWKSet,
  decodeProtectedHeader,
  errors,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
} from 'jose';
import { isObject } from '../json-values.ts';
import { localKeys } from '../keys/assertion-keys.ts';
import type { ForwardProxy } from '../settings/forward-proxy.ts';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';
import { fetchFromIssuer, type PublishingIssuer } from './issuer-fetch.ts';
import type { WorkloadErrorCode } from './validation.ts';

/** Why the signature is not accepted; undefined if it is. Rejects with KeysUnavailable. */
export type CheckSignature = (assertion: string) => Promise<WorkloadErrorCode | undefined>;

/** Nobody can say now whether the issuer signed a JWT. Programs do not show a refused JWT again, so it is not refused. */
export class KeysUnavailable extends Error {
  /** In how many seconds the keys can be fetched again. */
  readonly retryAfter: number;
  constructor(message: string, retryAfter: number, options?: ErrorOptions) {
    super(message, options);
    this.retryAfter = retryAfter;
  }
}

/** After a fetch, unknown key ids cause no other for this time. */
const COOLDOWN_SECONDS = 60;
/** After a failure without any keys, which would refuse every workload. */
const FAILURE_SECONDS = 5;
/** A key that was withdrawn counts for this time at most. */
const MAX_AGE_SECONDS = 600;
const TIMEOUT_MS = 5000;

type FetchedKeys = {
  keys: JWTVerifyGetKey;
  ids: ReadonlySet<string | undefined>;
  algorithms?: string[];
  at: number;
};

/** `now` is in seconds. Call once for an issuer: the result caches its keys. */
export function signatureOfWorkload(
  issuer: TrustedIssuer,
  options: { forwardProxy: ForwardProxy; now: () => number },
): CheckSignature {
  const { jwks } = issuer;
  if (jwks) {
    const keys = localKeys(withSigningUse(jwks as JSONWebKeySet));
    return async (assertion) => verify(assertion, { keys }).catch(refused);
  }
  const { current, renewed } = publishedKeys(issuer, options);
  return async function checkSignature(assertion) {
    const isUnknownKey = (error: unknown) => error instanceof errors.JWKSNoMatchingKey;
    const known = await current();
    try {
      return await verify(assertion, known);
    } catch (error) {
      // A key of this id that does not fit the algorithm is known.
      const isKnown = known.ids.has(decodeProtectedHeader(assertion).kid);
      if (isKnown || !isUnknownKey(error)) return refused(error);
    }
    return verify(assertion, await renewed()).catch(refused);
  };
}

async function verify(
  assertion: string,
  { keys, algorithms }: Pick<FetchedKeys, 'keys' | 'algorithms'>,
): Promise<undefined> {
  const options = algorithms ? { algorithms } : {};
  try {
    await compactVerify(assertion, keys, options);
  } catch (error) {
    // A JWT need not name its key.
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    for await (const key of error)
      try {
        await compactVerify(assertion, key, options);
        return;
      } catch (failure) {
        if (!(failure instanceof errors.JWSSignatureVerificationFailed)) throw failure;
      }
    throw new errors.JWSSignatureVerificationFailed();
  }
}

function refused(error: unknown): WorkloadErrorCode {
  if (error instanceof KeysUnavailable) throw error;
  return error instanceof errors.JOSEAlgNotAllowed ? 'wrong_algorithm' : 'bad_signature';
}

function publishedKeys(
  issuer: TrustedIssuer,
  { forwardProxy, now }: { forwardProxy: ForwardProxy; now: () => number },
) {
  let known: FetchedKeys | undefined;
  let fetching: Promise<FetchedKeys> | undefined;
  let nextFetchAt = 0;
  let failure: unknown;
  const isFresh = (keys: FetchedKeys | undefined) =>
    keys !== undefined && now() - keys.at < MAX_AGE_SECONDS;

  function fetchKeys(): Promise<FetchedKeys> {
    const waits = Math.ceil(nextFetchAt - now());
    if (waits > 0)
      throw new KeysUnavailable('the keys of the issuer were fetched just now', waits, {
        cause: failure,
      });
    nextFetchAt = now() + COOLDOWN_SECONDS;
    return fetchIssuerKeys(issuer, forwardProxy).then(
      ({ keySet, algorithms }) => {
        failure = undefined;
        const keys = createLocalJWKSet(withSigningUse(keySet));
        const ids = new Set(keySet.keys.map(({ kid }) => kid));
        known = { keys, ids, ...(algorithms ? { algorithms } : {}), at: now() };
        return known;
      },
      (error: unknown) => {
        failure = error;
        if (!isFresh(known)) nextFetchAt = now() + FAILURE_SECONDS;
        const waits = Math.max(1, Math.ceil(nextFetchAt - now()));
        throw new KeysUnavailable('the keys of the issuer cannot be fetched', waits, {
          cause: error,
        });
      },
    );
  }

  async function renewed(): Promise<FetchedKeys> {
    fetching ??= (async () => fetchKeys())().finally(() => (fetching = undefined));
    return fetching;
  }

  return {
    current: async () => (known && isFresh(known) ? known : renewed()),
    renewed,
  };
}

/** What an issuer publishes: found by OpenID Connect Discovery 1.0 section 4, unless the settings have the address of the keys. */
export async function fetchIssuerKeys(
  issuer: PublishingIssuer,
  forwardProxy: ForwardProxy,
): Promise<{ jwksUri: string; keySet: JSONWebKeySet; algorithms?: string[] }> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const fetchJson = (url: string) => fetchFromIssuer(url, issuer, { forwardProxy, signal });
  const found = issuer.jwksUri
    ? { jwksUri: issuer.jwksUri }
    : await discover(issuer.issuer, fetchJson);
  const keySet = await fetchJson(found.jwksUri);
  if (!isObject(keySet) || !Array.isArray(keySet['keys']) || keySet['keys'].length === 0)
    throw new Error(`${found.jwksUri} has no keys`);
  return { ...found, keySet: keySet as unknown as JSONWebKeySet };
}

async function discover(
  issuer: string,
  fetchJson: (url: string) => Promise<unknown>,
): Promise<{ jwksUri: string; algorithms?: string[] }> {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const found = await fetchJson(address);
  if (!isObject(found) || found['issuer'] !== issuer)
    throw new Error(`${address} is about another issuer`);
  const { jwks_uri: jwksUri, id_token_signing_alg_values_supported: announced } = found;
  const isSecure = issuer.startsWith('https:');
  if (typeof jwksUri !== 'string' || (isSecure && !jwksUri.startsWith('https:')))
    throw new Error(`${address} has no https address of keys`);
  return { jwksUri, ...(Array.isArray(announced) ? { algorithms: announced.map(String) } : {}) };
}

/** The keys of a SPIFFE bundle have another use (SPIFFE Trust Domain and Bundle, section 4.2.2). */
function withSigningUse({ keys }: JSONWebKeySet): JSONWebKeySet {
  return {
    keys: keys.map((key) => (key.use === 'jwt-svid' ? { ...key, use: 'sig' } : key)),
  };
}
