import { hash } from 'node:crypto';
import { calculateJwkThumbprint, EmbeddedJWK, type JWTPayload, jwtVerify } from 'jose';
import type { Store } from '../store/store.ts';

/** Signature algorithms of proofs (RFC 7518, RFC 8037, RFC 9864). All are asymmetric and equally strong. */
export const DPOP_ALGORITHMS = ['ES256', 'Ed25519', 'EdDSA'] as const;

/** A proof without a nonce is accepted for this long before and after its `iat`. At the token endpoint, the engine has the same limit of its own. */
export const MAX_CLOCK_SKEW_SECONDS = 300;

/** Covers a proof from a clock that is ahead by the maximum skew. */
const JTI_TTL_SECONDS = 2 * MAX_CLOCK_SKEW_SECONDS + 1;

const MAX_PROOF_LENGTH = 8192;

/** `url` is built from the settings, never from the request. If `token` is set, the proof must contain its hash. */
export type ProofRequest = { method: string; url: string; token?: string };

/** `thumbprint` identifies the key (RFC 7638). `issuedAt` is in seconds since the epoch. */
export type Proof = { thumbprint: string; id: string; issuedAt: number; nonce?: string };

/** The message may be sent to the client. */
export class InvalidProof extends Error {}

/**
 * Validates a proof (RFC 9449 section 4.3) except for its age and replay, which `isRecent` and `consumeProof` check. `headers` are the values
 * of all `DPoP` headers. Throws InvalidProof.
 */
export async function validateProof(
  headers: readonly string[] = [],
  request: ProofRequest,
  now: number,
): Promise<Proof> {
  const [proof = '', ...more] = headers;
  if (!proof || proof.length > MAX_PROOF_LENGTH || more.length > 0)
    throw new InvalidProof('send exactly one DPoP header, with a DPoP proof');
  const { payload, protectedHeader } = await verifySignature(proof, now);
  requireSameRequest(payload, request);
  const { jti, iat, nonce } = payload;
  if (typeof jti !== 'string' || !jti) throw new InvalidProof('the DPoP proof has no jti');
  if (typeof iat !== 'number') throw new InvalidProof('the DPoP proof has no iat');
  if (nonce !== undefined && typeof nonce !== 'string')
    throw new InvalidProof('the nonce of the DPoP proof is not text');
  return {
    thumbprint: await calculateJwkThumbprint(protectedHeader.jwk ?? {}),
    id: jti,
    issuedAt: iat,
    ...(nonce === undefined ? {} : { nonce }),
  };
}

/** `EmbeddedJWK` rejects private and symmetric keys. */
async function verifySignature(proof: string, now: number) {
  try {
    return await jwtVerify(proof, EmbeddedJWK, {
      algorithms: [...DPOP_ALGORITHMS],
      typ: 'dpop+jwt',
      currentDate: new Date(now * 1000),
    });
  } catch (cause) {
    const algorithms = DPOP_ALGORITHMS.join(', ');
    throw new InvalidProof(
      `the DPoP proof must be a JWT of type dpop+jwt, signed (${algorithms}) with the key of the public jwk in its header`,
      { cause },
    );
  }
}

function requireSameRequest(
  { htm, htu, ath }: JWTPayload,
  { method, url, token }: ProofRequest,
): void {
  if (htm !== method)
    throw new InvalidProof('htm of the DPoP proof is not the method of the request');
  if (typeof htu !== 'string' || withoutQuery(htu) !== withoutQuery(url))
    throw new InvalidProof('htu of the DPoP proof is not the address of the request');
  if (token !== undefined && ath !== hash('sha256', token, 'base64url'))
    throw new InvalidProof('ath of the DPoP proof is not the hash of the access token');
}

/** Proofs are compared without query and fragment (RFC 9449 section 4.3), normalized as in RFC 3986 section 6.2. */
function withoutQuery(address: string): string | undefined {
  const url = URL.parse(address);
  if (!url) return undefined;
  url.search = '';
  url.hash = '';
  return url.href;
}

/**
 * Marks a proof as used (RFC 9449 section 11.1), for every grant type and client. Returns true for exactly one caller across all processes. The
 * `jti` alone does not name a proof, because other keys may choose the same one.
 */
export function consumeProof(
  store: Store,
  { thumbprint, id }: Pick<Proof, 'thumbprint' | 'id'>,
): Promise<boolean> {
  return store.add(`dpop-proof:${thumbprint}\n${id}`, true, JTI_TTL_SECONDS);
}
