// An OpenID provider whose signatures, claims and responses tests control.
import { createServer, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { listenOnLoopback } from './loopback-server.ts';
import type { SystemOptions } from './system.ts';

export type Behaviour = {
  /** Override the normal claims. */
  claims?: JWTPayload;
  /** `none`: unsigned. `stranger`: with a key that is not published. `secret`: with the client secret. */
  signature?: 'ours' | 'stranger' | 'none' | 'secret';
  userinfo?: { status: number; body: object };
  tokenStatus?: number;
  /** Override members of the token response. */
  tokens?: object;
  /** Overrides of the normal response, by path. */
  responses?: Record<string, RequestListener>;
};

export type OpenIdProvider = {
  issuer: string;
  setBehaviour: (behaviour: Behaviour) => void;
  /** Signs the person in; returns the URL of the callback. */
  approve: (authorization: URL) => URL;
  requests: string[];
  /** The forms sent to the token endpoint. */
  exchanges: URLSearchParams[];
  stop: () => Promise<void>;
};

export const OPENID_CLIENT = {
  clientId: 'gatehouse',
  clientSecret: 'the-secret-of-the-client-that-is-long-enough',
};

/** Settings with this provider as the only one; `file` and `settings` take precedence. */
export function openIdSettings(
  { issuer }: OpenIdProvider,
  file: object,
  settings: Record<string, string> = {},
): SystemOptions {
  return {
    settings: { ...settings, GATEHOUSE_DEVELOPMENT_IDP_URL: '' },
    file: { developmentIdp: undefined, identityProvider: { issuer, ...OPENID_CLIENT }, ...file },
  };
}

/** The keys of all providers of this process, because RSA keys take long to generate. */
let keys: Promise<Keys> | undefined;

type PrivateKey = Awaited<ReturnType<typeof generateKeyPair>>['privateKey'];
type Keys = { ours: PrivateKey; stranger: PrivateKey; jwk: object };

async function generateKeys(): Promise<Keys> {
  const ours = await generateKeyPair('RS256', { extractable: true });
  const stranger = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(ours.publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
  return { ours: ours.privateKey, stranger: stranger.privateKey, jwk };
}

export async function startOpenIdProvider(): Promise<OpenIdProvider> {
  keys ??= generateKeys();
  const { ours, stranger, jwk } = await keys;
  const requests: string[] = [];
  const exchanges: URLSearchParams[] = [];
  let behaviour: Behaviour = {};

  const idToken = async (code: string) => {
    const now = Math.floor(Date.now() / 1000);
    const right = {
      iss: issuer,
      aud: OPENID_CLIENT.clientId,
      iat: now,
      exp: now + 300,
      ...signedInBy(code),
    };
    const claims = { ...right, ...behaviour.claims };
    if (behaviour.signature === 'none') return new UnsecuredJWT(claims).encode();
    if (behaviour.signature === 'secret')
      return new SignJWT(claims)
        .setProtectedHeader({ alg: 'HS256' })
        .sign(Buffer.from(OPENID_CLIENT.clientSecret));
    const key = behaviour.signature === 'stranger' ? stranger : ours;
    return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(key);
  };
  const answers: Record<string, (sent: URLSearchParams) => Promise<[number, object]>> = {
    '/.well-known/openid-configuration': async () => [200, metadata(issuer)],
    '/jwks': async () => [200, { keys: [jwk] }],
    '/token': async (sent) => {
      const code = sent.get('code') ?? '';
      if (!isOurs(code)) return [400, { error: 'invalid_grant' }];
      const id_token = await idToken(code);
      return [
        behaviour.tokenStatus ?? 200,
        { access_token: 'at', token_type: 'Bearer', id_token, ...behaviour.tokens },
      ];
    },
    '/userinfo': async () => {
      const { status, body } = behaviour.userinfo ?? { status: 404, body: {} };
      return [status, body];
    },
  };
  const server = createServer(async (req, res) => {
    const path = new URL(req.url ?? '/', 'http://provider').pathname;
    requests.push(path);
    const own = behaviour.responses?.[path];
    if (own) return own(req, res);
    const sent = new URLSearchParams(await text(req));
    if (path === '/token') exchanges.push(sent);
    const [status, body] = (await answers[path]?.(sent)) ?? [404, {}];
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const { origin: issuer, stop } = await listenOnLoopback(server);
  return {
    issuer,
    requests,
    exchanges,
    setBehaviour: (next) => {
      behaviour = next;
    },
    approve: (authorization) => approveAs('subject-1', authorization),
    stop,
  };
}

/** Like `approve`, for any person and process: the code contains subject and nonce. */
export function approveAs(sub: string, { searchParams }: URL): URL {
  const nonce = searchParams.get('nonce') ?? '';
  const code = Buffer.from(JSON.stringify({ sub, nonce })).toString('base64url');
  const callback = new URL(searchParams.get('redirect_uri') ?? '');
  callback.search = String(new URLSearchParams({ code, state: searchParams.get('state') ?? '' }));
  return callback;
}

/** Gatehouse checks its client credentials with a code that does not exist. */
function isOurs(code: string): boolean {
  return Buffer.from(code, 'base64url').toString().startsWith('{');
}

function signedInBy(code: string): { sub: string; nonce: string } {
  return JSON.parse(Buffer.from(code, 'base64url').toString());
}

function metadata(issuer: string): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    userinfo_endpoint: `${issuer}/userinfo`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ['code'],
    id_token_signing_alg_values_supported: ['RS256'],
  };
}
