// The keys with which the issuers of workloads sign: given, at an address, or found by discovery.
import {
  compactVerify,
  createRemoteJWKSet,
  customFetch,
  errors as joseErrors,
  type JSONWebKeySet,
} from 'jose';
import { isKeySetError } from '../../keys/remote-keys.ts';
import { fetchFromProvider } from '../../sign-in/fetch.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import { temporarilyUnavailable } from './errors.ts';
import { localKeys } from './id-jag.ts';
import type { WorkloadErrorCode } from './workload-validation.ts';

/** Why the signature is not accepted; undefined if it is. Rejects with `temporarily_unavailable` if the keys cannot be fetched now. */
export type CheckSignature = (assertion: string) => Promise<WorkloadErrorCode | undefined>;

/** After a fetch, unknown key ids cause no other for this time. */
const COOLDOWN_MS = 60_000;
const TIMEOUT_MS = 5000;

type RemoteKeys = { keys: ReturnType<typeof createRemoteJWKSet>; algorithms?: readonly string[] };

export function signatureOfWorkload({ issuer, jwksUri, jwks }: TrustedIssuer): CheckSignature {
  if (jwks) {
    const keys = localKeys(withSigningUse(jwks as JSONWebKeySet));
    return (assertion) => compactVerify(assertion, keys).then(accepted, refused);
  }
  const open = opener(() => (jwksUri ? remoteKeys(jwksUri) : discoveredKeys(issuer)));
  return async function checkSignature(assertion) {
    const { keys, algorithms } = await open();
    const isCoolingDown = keys.coolingDown;
    return compactVerify(assertion, keys, algorithms ? { algorithms: [...algorithms] } : {}).then(
      accepted,
      (error: unknown) => {
        const isUnknownKey = error instanceof joseErrors.JWKSNoMatchingKey;
        // The key may be newer than the last fetch. Programs do not show a refused JWT again.
        if (isKeySetError(error) || (isUnknownKey && isCoolingDown))
          throw temporarilyUnavailable(error);
        return refused(error);
      },
    );
  };
}

const accepted = () => undefined;

function refused(error: unknown): WorkloadErrorCode {
  return error instanceof joseErrors.JOSEAlgNotAllowed ? 'wrong_algorithm' : 'bad_signature';
}

/** A failure is repeated for a while, so that requests cause few fetches. */
const FAILURE_MS = 5000;

function opener(open: () => Promise<RemoteKeys>): () => Promise<RemoteKeys> {
  let opened: Promise<RemoteKeys> | undefined;
  return () => {
    if (opened) return opened;
    const opening = open().catch((error: unknown) => {
      setTimeout(() => (opened = undefined), FAILURE_MS).unref();
      throw temporarilyUnavailable(error);
    });
    opened = opening;
    return opening;
  };
}

async function remoteKeys(jwksUri: string): Promise<RemoteKeys> {
  const keys = createRemoteJWKSet(new URL(jwksUri), {
    timeoutDuration: TIMEOUT_MS,
    cooldownDuration: COOLDOWN_MS,
    async [customFetch](url, options) {
      const response = await fetchFromProvider(url, options);
      if (response.status !== 200) return response;
      return Response.json(withSigningUse((await response.json()) as JSONWebKeySet));
    },
  });
  return { keys };
}

type Discovered = {
  issuer?: unknown;
  jwks_uri?: unknown;
  id_token_signing_alg_values_supported?: unknown;
};

/** OpenID Connect Discovery 1.0 section 4. */
async function discoveredKeys(issuer: string): Promise<RemoteKeys> {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetchFromProvider(address, { signal } as { method?: string });
  if (response.status !== 200) throw new Error(`${address} answered ${response.status}`);
  const found = (await response.json()) as Discovered;
  const { protocol } = new URL(issuer);
  const { jwks_uri: jwksUri, id_token_signing_alg_values_supported: algorithms } = found;
  if (found.issuer !== issuer) throw new Error(`${address} is about another issuer`);
  if (typeof jwksUri !== 'string' || (protocol === 'https:' && !jwksUri.startsWith('https:')))
    throw new Error(`${address} has no https address of keys`);
  const { keys } = await remoteKeys(jwksUri);
  return Array.isArray(algorithms) ? { keys, algorithms: algorithms.map(String) } : { keys };
}

/** The keys of a SPIFFE bundle have another use (SPIFFE Trust Domain and Bundle, section 4.2.2). */
function withSigningUse({ keys }: JSONWebKeySet): JSONWebKeySet {
  return {
    keys: keys.map((key) => (key.use === 'jwt-svid' ? { ...key, use: 'sig' } : key)),
  };
}
