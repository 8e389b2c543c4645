// A DPoP client (RFC 9449) whose proofs can be wrong in any way.
import { createHash, randomBytes } from 'node:crypto';
import {
  calculateJwkThumbprint,
  type CryptoKey,
  decodeJwt,
  exportJWK,
  generateKeyPair,
  type JWK,
  SignJWT,
} from 'jose';
import { type ConnectOptions, obtainCode, type IssuedCode } from './connection.ts';
import { type CallOptions, call, type RpcResponse } from './mcp.ts';
import {
  type Client,
  type Parameters,
  requestToken,
  type Server,
  type TokenResponse,
} from './oauth.ts';
import type { System } from './system.ts';

export type ProofKey = {
  alg: string;
  jwk: JWK;
  privateKey: CryptoKey;
  /** The `jkt` of tokens bound to the key. */
  thumbprint: string;
};

/** Replaces members of the proof; undefined removes one. */
export type ProofOverrides = { header?: Record<string, unknown>; claims?: Record<string, unknown> };

export type ProvenRequest = { method?: string; url: string; token?: string | undefined };

export async function generateProofKey(alg = 'ES256'): Promise<ProofKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = await exportJWK(publicKey);
  return { alg, jwk, privateKey, thumbprint: await calculateJwkThumbprint(jwk) };
}

export function createProof(
  { alg, jwk, privateKey }: ProofKey,
  { method = 'POST', url, token }: ProvenRequest,
  { header = {}, claims = {} }: ProofOverrides = {},
): Promise<string> {
  const truth = {
    jti: randomBytes(16).toString('base64url'),
    htm: method,
    htu: url,
    iat: Math.floor(Date.now() / 1000),
    ...(token === undefined ? {} : { ath: createHash('sha256').update(token).digest('base64url') }),
  };
  return new SignJWT({ ...truth, ...claims })
    .setProtectedHeader({ alg, typ: 'dpop+jwt', jwk, ...header })
    .sign(privateKey, { crit: { x: true } });
}

/** A token request with `proof`, or with a new one. */
export async function requestBound(
  key: ProofKey,
  server: Server,
  client: Client,
  parameters: Parameters,
  proof?: string,
): Promise<TokenResponse> {
  const dpop = proof ?? (await createProof(key, { url: server.token_endpoint }));
  return requestToken(server, client, parameters, { dpop });
}

export function redeemBound(
  key: ProofKey,
  { server, client, callback, verifier }: IssuedCode,
  proof?: string,
): Promise<TokenResponse> {
  const parameters = {
    grant_type: 'authorization_code',
    code: callback.searchParams.get('code') ?? undefined,
    redirect_uri: client.redirectUri,
    code_verifier: verifier,
  };
  return requestBound(key, server, client, parameters, proof);
}

export type BoundConnection = {
  key: ProofKey;
  link: string;
  server: Server;
  client: Client;
  accessToken: string;
  refreshToken: string | undefined;
};

/** Runs the flow from the connect link to tokens bound to the key. */
export async function connectBound(
  system: System,
  { link }: { link: string },
  options: ConnectOptions & { key?: ProofKey } = {},
): Promise<BoundConnection> {
  const key = options.key ?? (await generateProofKey());
  const code = await obtainCode(system, { link }, options);
  const { body } = await redeemBound(key, code);
  if (body.token_type !== 'DPoP' || !body.access_token) throw new Error(JSON.stringify(body));
  const { server, client } = code;
  const { access_token: accessToken, refresh_token: refreshToken } = body;
  return { key, link, server, client, accessToken, refreshToken };
}

/** Refreshes with a new proof, unless one is given. */
export function refreshBound(
  { key, server, client, refreshToken }: BoundConnection,
  { proof, token = refreshToken }: { proof?: string; token?: string | undefined } = {},
): Promise<TokenResponse> {
  const parameters = { grant_type: 'refresh_token', refresh_token: token };
  return requestBound(key, server, client, parameters, proof);
}

/** The confirmation claim (`cnf`) of the access token. */
export function confirmationOf({ body }: TokenResponse): unknown {
  return decodeJwt(body.access_token ?? '').cnf;
}

export function statusAndError({ status, body }: TokenResponse): [number, string | undefined] {
  return [status, body.error];
}

const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };

/** A call with a bound token and a new proof; `overrides` changes members of the proof, and `more` sets headers. */
export async function callBound(
  { key, link, accessToken }: Pick<BoundConnection, 'key' | 'link' | 'accessToken'>,
  { overrides = {}, more = {} }: { overrides?: ProofOverrides; more?: Record<string, string> } = {},
  message: object = PING,
  { method = 'POST' }: CallOptions = {},
): Promise<RpcResponse> {
  const dpop = await createProof(key, { method, url: link, token: accessToken }, overrides);
  const headers = { authorization: `DPoP ${accessToken}`, dpop, ...more };
  return call(link, undefined, message, { method, headers });
}
