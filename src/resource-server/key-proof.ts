// The proof that a bound token comes with (RFC 9449 sections 4.3 and 7): of its key, about this request, recent, and used once.
import type Koa from 'koa';
import { connectLink } from '../connectors/connect-link.ts';
import type { Connector } from '../connectors/connector.ts';
import { isRecent, NONCE_KEY, dpopNonces } from '../dpop/nonces.ts';
import { consumeProof, InvalidProof, type Proof, validateProof } from '../dpop/proof.ts';
import { HttpError } from '../http/errors.ts';
import { persistentKey } from '../keys/persistent-key.ts';
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';
import { presentedToken } from './bearer.ts';
import type { Caller } from './level.ts';
import { challenge, type Challenge } from './metadata.ts';

export type KeyProofOptions = { settings: Settings; store: Store; now: () => number };

type RequireKeyProof = (ctx: Koa.Context, connector: Connector, caller: Caller) => Promise<void>;

/**
 * To be asked once for each request, after everything else about the token: it uses the proof up. Nothing is asked for a token that is not
 * bound. Throws 401, or 503 when the store cannot tell whether the proof was used.
 */
export async function openKeyProofs(options: KeyProofOptions): Promise<RequireKeyProof> {
  const { settings, store, now } = options;
  const nonces = dpopNonces(await persistentKey(store, settings.secret, NONCE_KEY));

  return async function requireKeyProof(ctx, connector, { keyThumbprint }) {
    if (keyThumbprint === undefined) return;
    const refuse = (error: ProofError, message: string, headers = {}): never => {
      throw refusal(settings, connector, error, message, headers);
    };
    const proof = await readProofOf(ctx, settings.resourceUrl, connector, now()).catch(
      (error: unknown) => {
        if (error instanceof InvalidProof) return refuse('invalid_dpop_proof', error.message);
        throw error;
      },
    );
    if (proof.thumbprint !== keyThumbprint)
      refuse('invalid_token', 'this access token is bound to another key');
    if (!isRecent(nonces, proof, now())) {
      const message = 'the DPoP proof is too old or from the future: make one with this nonce';
      refuse('use_dpop_nonce', message, { 'DPoP-Nonce': nonces.next(now()) });
    }
    if (!(await consumeProof(store, proof)))
      refuse('invalid_dpop_proof', 'the DPoP proof was used before: make one for each request');
  };
}

type ProofError = NonNullable<Challenge['error']>;

/** One challenge and no other, which is what clients look for before they send a nonce. */
function refusal(
  settings: Settings,
  connector: Connector,
  error: ProofError,
  message: string,
  headers: Record<string, string>,
): HttpError {
  const fields = { error, scope: connector.level, scheme: 'DPoP' } as const;
  const header = challenge(settings, connector, fields);
  return new HttpError(401, error, message, {
    headers: { 'WWW-Authenticate': header, ...headers },
  });
}

function readProofOf(
  { req, method }: Koa.Context,
  resourceUrl: string,
  { id }: Connector,
  now: number,
): Promise<Proof> {
  const { token = '' } = presentedToken(req.headers.authorization);
  const request = { method, url: connectLink(resourceUrl, id), token };
  return validateProof(req.headersDistinct.dpop, request, now);
}
