// A client that authenticates with a key (RFC 7523 section 2.2) and whose assertions can be wrong in any way.
import { type KeyObject, randomBytes } from 'node:crypto';
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import type { Client, Parameters, Server } from './oauth.ts';

export type AssertionKey = { alg: string; jwk: JWK; privateKey: CryptoKey | KeyObject };

/** Replaces members of the assertion; undefined removes one. */
export type AssertionOverrides = {
  header?: Record<string, unknown>;
  claims?: Record<string, unknown>;
};

export async function generateAssertionKey(alg = 'ES256', kid?: string): Promise<AssertionKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = await exportJWK(publicKey);
  return { alg, jwk: kid === undefined ? jwk : { ...jwk, kid }, privateKey };
}

export function createAssertion(
  { alg, jwk: { kid }, privateKey }: AssertionKey,
  { client: { id }, server: { issuer } }: { client: Client; server: Server },
  { header = {}, claims = {} }: AssertionOverrides = {},
): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  const truth = {
    iss: id,
    sub: id,
    aud: issuer,
    jti: randomBytes(16).toString('base64url'),
    iat: now,
    exp: now + 60,
  };
  return new SignJWT({ ...truth, ...claims })
    .setProtectedHeader({ alg, ...(kid === undefined ? {} : { kid }), ...header })
    .sign(privateKey);
}

/** The parameters that authenticate a token request. */
export function assertionParameters(assertion: string): Parameters {
  return {
    client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    client_assertion: assertion,
  };
}
