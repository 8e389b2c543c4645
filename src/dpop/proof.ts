// A DPoP proof (RFC 9449 section 4): whether it is well made, and about the request that it came with. Whether it is recent and new is asked elsewhere.
import { hash } from 'node:crypto';
import { calculateJwkThumbprint, EmbeddedJWK, type JWTPayload, jwtVerify } from 'jose';

/** What proofs may be signed with (RFC 7518, RFC 8037, RFC 9864). All are asymmetric, and have one strength. */
export const DPOP_ALGORITHMS = ['ES256', 'Ed25519', 'EdDSA'] as const;

/** Seconds by which the clock of a client may be wrong, and for which a proof without our nonce is good. */
export const PROOF_WINDOW = 300;

const MAX_LENGTH = 8192;

/** `url` from the settings, never from the request. `token` where there is one already, which the proof must then name. */
export type ProvenRequest = { method: string; url: string; token?: string };

/** `thumbprint` of its key (RFC 7638); `issuedAt` in seconds. */
export type Proof = { thumbprint: string; id: string; issuedAt: number; nonce?: string };

/** The message says what is wrong with it and is safe to show. */
export class BadProof extends Error {}

/** `sent` are the values of all `DPoP` headers. Throws `BadProof`. */
export async function readProof(
  sent: readonly string[] = [],
  request: ProvenRequest,
  now: number,
): Promise<Proof> {
  const [proof = '', ...more] = sent;
  if (!proof || proof.length > MAX_LENGTH || more.length > 0)
    throw new BadProof('send exactly one DPoP header, with a DPoP proof');
  const { payload, protectedHeader } = await verified(proof, now);
  requireSameRequest(payload, request);
  const { jti, iat, nonce } = payload;
  if (typeof jti !== 'string' || !jti) throw new BadProof('the DPoP proof has no jti');
  if (typeof iat !== 'number') throw new BadProof('the DPoP proof has no iat');
  if (nonce !== undefined && typeof nonce !== 'string')
    throw new BadProof('the nonce of the DPoP proof is not text');
  return {
    thumbprint: await calculateJwkThumbprint(protectedHeader.jwk ?? {}),
    id: jti,
    issuedAt: iat,
    ...(nonce === undefined ? {} : { nonce }),
  };
}

/** `EmbeddedJWK` refuses keys that are not public. */
async function verified(proof: string, now: number) {
  try {
    return await jwtVerify(proof, EmbeddedJWK, {
      algorithms: [...DPOP_ALGORITHMS],
      typ: 'dpop+jwt',
      currentDate: new Date(now * 1000),
    });
  } catch (cause) {
    const algorithms = DPOP_ALGORITHMS.join(', ');
    throw new BadProof(
      `the DPoP proof must be a JWT of type dpop+jwt, signed (${algorithms}) with the key whose public part is in its header`,
      { cause },
    );
  }
}

function requireSameRequest(
  { htm, htu, ath }: JWTPayload,
  { method, url, token }: ProvenRequest,
): void {
  if (htm !== method) throw new BadProof('htm of the DPoP proof is not the method of the request');
  if (typeof htu !== 'string' || withoutQuery(htu) !== withoutQuery(url))
    throw new BadProof('htu of the DPoP proof is not the address of the request');
  if (token !== undefined && ath !== hash('sha256', token, 'base64url'))
    throw new BadProof('ath of the DPoP proof is not the hash of the access token');
}

/** RFC 9449 section 4.3: compared without query and fragment, in the normal form of RFC 3986 section 6.2. */
function withoutQuery(address: string): string | undefined {
  const url = URL.parse(address);
  if (!url) return undefined;
  url.search = '';
  url.hash = '';
  return url.href;
}
