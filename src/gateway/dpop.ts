// Requires a DPoP proof with a bound access token (RFC 9449 sections 4.3 and 7).
import type Koa from 'koa';
import { connectLink } from '../links/connect-link.ts';
import type { Connector } from '../links/connector.ts';
import { dpopNonces, isRecent } from '../dpop/nonces.ts';
import { consumeProof, InvalidProof, type Proof, validateProof } from '../dpop/proof.ts';
import { HttpError } from '../http/errors.ts';
import type { Services } from '../services.ts';
import { type Caller, challenge, type Challenge, presentedToken } from './authenticate.ts';
import type { Addresses } from './metadata.ts';

export type RequireDpopProof = (
  ctx: Koa.Context,
  connector: Connector,
  caller: Caller,
) => Promise<void>;

/**
 * Returns a check of the proof of a bound token: signature, key, request, age and single use. Call it once per request, after
 * authentication. Throws 401, or 503 if the store is unavailable. Tokens that are not bound need no proof.
 */
export function dpopProofs(
  addresses: Addresses,
  { store, keys, now }: Pick<Services, 'store' | 'keys' | 'now'>,
): RequireDpopProof {
  const nonces = dpopNonces(keys.dpopNonces);

  return async function requireDpopProof(ctx, connector, { keyThumbprint }) {
    if (keyThumbprint === undefined) return;
    const refuse = (error: ProofError, message: string, headers = {}): never => {
      throw refusal(addresses, connector, error, message, headers);
    };
    const proof = await readProof(ctx, addresses.resourceUrl, connector, now()).catch(
      (error: unknown) => {
        if (error instanceof InvalidProof) return refuse('invalid_dpop_proof', error.message);
        throw error;
      },
    );
    if (proof.thumbprint !== keyThumbprint)
      refuse('invalid_token', 'this access token is bound to another key');
    if (!isRecent(nonces, proof, now())) {
      const message = 'the DPoP proof has expired or is not valid yet: use the nonce in DPoP-Nonce';
      refuse('use_dpop_nonce', message, { 'DPoP-Nonce': nonces.next(now()) });
    }
    if (!(await consumeProof(store, proof)))
      refuse('invalid_dpop_proof', 'the DPoP proof was already used: create one for each request');
  };
}

type ProofError = NonNullable<Challenge['error']>;

/** Sends only the DPoP challenge: clients look for it before they send a nonce. */
function refusal(
  addresses: Addresses,
  connector: Connector,
  error: ProofError,
  message: string,
  headers: Record<string, string>,
): HttpError {
  const fields = { error, scope: connector.level, scheme: 'DPoP' } as const;
  const header = challenge(addresses, connector, fields);
  return new HttpError(401, error, message, {
    headers: { 'WWW-Authenticate': header, ...headers },
  });
}

function readProof(
  { req, method }: Koa.Context,
  resourceUrl: string,
  { id }: Connector,
  now: number,
): Promise<Proof> {
  const { token = '' } = presentedToken(req);
  const request = { method, url: connectLink(resourceUrl, id), token };
  return validateProof(req.headersDistinct.dpop, request, now);
}
