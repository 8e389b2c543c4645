// An OpenID provider whose signatures, claims and responses tests control.
import { createServer, type RequestListener } from 'node:http';
import { text } from 'node:stream/consumers';
import { randomUUID } from 'node:crypto';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';
import { listenOnLoopback } from './loopback-server.ts';
import type { SystemOptions } from './system.ts';

export type Behaviour = {
  /** Override the normal claims. */
  claims?: JWTPayload;
  /** `none`: unsigned. `stranger`: with a key that is not published. `secret`: with the client secret. */
  signature?: 'ours' | 'stranger' | 'none' | 'secret';
  /** With `signature`, the response is a signed JWT (OpenID Connect Core section 5.3.2). */
  userinfo?: { status: number; body: object; signature?: Behaviour['signature'] };
  tokenStatus?: number;
  /** Override members of the discovery document. */
  metadata?: object;
  /** Override members of the token response. */
  tokens?: object;
  /** Where the token endpoint and the keys are besides their normal paths. */
  tokenPath?: string;
  keysPath?: string;
  /** Overrides of the normal response, by path. */
  responses?: Record<string, RequestListener>;
};

export type Metadata = Record<string, unknown> & { issuer: string; jwks_uri: string };

export type OpenIdProvider = {
  issuer: string;
  port: number;
  /** A signed ID token for Gatehouse. */
  idToken: (claims: JWTPayload) => Promise<string>;
  setBehaviour: (behaviour: Behaviour) => void;
  /** Signs the person in; returns the URL of the callback. */
  approve: (authorization: URL) => URL;
  /** A logout token (OpenID Connect Back-Channel Logout 1.0 section 2.4). `claims` override the normal ones. */
  logoutToken: (claims: JWTPayload, options?: LogoutTokenOptions) => Promise<string>;
  /** The key of the signature `stranger`. */
  strangerJwk: object;
  requests: string[];
  /** The forms sent to the token endpoint. */
  exchanges: URLSearchParams[];
  /** The secrets that clients have sent, without repetition. */
  clientSecrets: ReadonlySet<string>;
  stop: () => Promise<void>;
};

export type LogoutTokenOptions = Pick<Behaviour, 'signature'> & { typ?: string; kid?: string };

export const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout';

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
type Keys = { ours: PrivateKey; stranger: PrivateKey; jwk: object; strangerJwk: object };

async function generateKeys(): Promise<Keys> {
  const ours = await generateKeyPair('RS256', { extractable: true });
  const stranger = await generateKeyPair('RS256');
  const [jwk, strangerJwk] = await Promise.all(
    [ours, stranger].map(async ({ publicKey }) => ({
      ...(await exportJWK(publicKey)),
      alg: 'RS256',
      use: 'sig',
    })),
  );
  return {
    ours: ours.privateKey,
    stranger: stranger.privateKey,
    jwk: { ...jwk, kid: 'one' },
    strangerJwk: { ...strangerJwk, kid: 'two' },
  };
}

/**
 * `metadata`: its discovery document, whose issuer and endpoints may have other hosts, which the tests direct to `port`. `discoveryPath`: the path
 * of the issuer in the settings, if it is another than in the document.
 */
export async function startOpenIdProvider({
  metadata = defaultMetadata,
  discoveryPath,
}: {
  metadata?: (origin: string) => Metadata;
  discoveryPath?: string;
} = {}): Promise<OpenIdProvider> {
  keys ??= generateKeys();
  const { ours, stranger, jwk, strangerJwk } = await keys;
  const requests: string[] = [];
  const exchanges: URLSearchParams[] = [];
  const clientSecrets = new Set<string>();
  let behaviour: Behaviour = {};

  const sign = async (claims: JWTPayload, { signature, typ, kid = 'one' }: LogoutTokenOptions) => {
    if (signature === 'none') return new UnsecuredJWT(claims).encode();
    const jwt = new SignJWT(claims);
    const type = typ === undefined ? {} : { typ };
    if (signature === 'secret')
      return jwt
        .setProtectedHeader({ alg: 'HS256', ...type })
        .sign(Buffer.from(OPENID_CLIENT.clientSecret));
    const key = signature === 'stranger' ? stranger : ours;
    return jwt.setProtectedHeader({ alg: 'RS256', kid, ...type }).sign(key);
  };
  const normalPath = (path: string) => {
    if (path === behaviour.tokenPath) return '/token';
    return path === behaviour.keysPath ? keysPath : path;
  };
  const server = createServer(async (req, res) => {
    const { pathname } = new URL(req.url ?? '/', 'http://provider');
    requests.push(pathname);
    const own = behaviour.responses?.[pathname];
    if (own) return own(req, res);
    const path = normalPath(pathname);
    const sent = new URLSearchParams(await text(req));
    if (path === '/token') {
      exchanges.push(sent);
      clientSecrets.add(sent.get('client_secret') ?? basicPassword(req.headers.authorization));
    }
    const [status, body] = (await answers[path]?.(sent)) ?? [404, {}];
    const type = typeof body === 'string' ? 'jwt; charset=utf-8' : 'json';
    const sending = typeof body === 'string' ? body : JSON.stringify(body);
    res.writeHead(status, { 'content-type': `application/${type}` }).end(sending);
  });
  const { origin, stop } = await listenOnLoopback(server);
  const document = metadata(origin);
  const { issuer } = document;
  const issuerPath = discoveryPath ?? new URL(issuer).pathname.replace(/\/$/, '');
  const keysPath = new URL(document.jwks_uri).pathname;
  const signFor = (seconds: number, claims: JWTPayload, options: LogoutTokenOptions) => {
    const now = Math.floor(Date.now() / 1000);
    const right = { iss: issuer, aud: OPENID_CLIENT.clientId, iat: now, exp: now + seconds };
    return sign({ ...right, ...claims }, options);
  };
  const idToken = (claims: JWTPayload) =>
    signFor(300, { ...claims, ...behaviour.claims }, behaviour);
  const answers: Record<string, (sent: URLSearchParams) => Promise<[number, object | string]>> = {
    [`${issuerPath}/.well-known/openid-configuration`]: async () => [
      200,
      { ...document, ...behaviour.metadata },
    ],
    [keysPath]: async () => [200, { keys: [jwk] }],
    '/token': async (sent) => {
      const code = sent.get('code') ?? sent.get('refresh_token') ?? '';
      if (!isOurs(code)) return [400, { error: 'invalid_grant' }];
      const id_token = await idToken(signedInBy(code));
      return [
        behaviour.tokenStatus ?? 200,
        { access_token: 'at', token_type: 'Bearer', id_token, ...behaviour.tokens },
      ];
    },
    '/userinfo': async () => {
      const { status, body, signature } = behaviour.userinfo ?? { status: 404, body: {} };
      return [status, signature ? await sign({ ...body }, { signature }) : body];
    },
  };
  return {
    issuer,
    port: Number(new URL(origin).port),
    requests,
    exchanges,
    clientSecrets,
    idToken,
    setBehaviour: (next) => {
      behaviour = next;
    },
    strangerJwk,
    async logoutToken(claims, options = {}) {
      const required = { jti: randomUUID(), events: { [LOGOUT_EVENT]: {} } };
      return signFor(120, { ...required, ...claims }, { typ: 'logout+jwt', ...options });
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

/** Both parts are encoded as in a form (RFC 6749 section 2.3.1). */
function basicPassword(authorization = ''): string {
  const pair = Buffer.from(authorization.replace(/^Basic /i, ''), 'base64').toString();
  return new URLSearchParams(`secret=${pair.slice(pair.indexOf(':') + 1)}`).get('secret') ?? '';
}

/** Gatehouse checks its client credentials with a code that does not exist. */
function isOurs(code: string): boolean {
  return Buffer.from(code, 'base64url').toString().startsWith('{');
}

function signedInBy(code: string): { sub: string; nonce: string } {
  return JSON.parse(Buffer.from(code, 'base64url').toString());
}

function defaultMetadata(issuer: string): Metadata {
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
