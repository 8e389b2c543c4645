// An OpenID provider that can be made to misbehave: what it signs, says about a person and answers with is up to the claim that runs.
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { text } from 'node:stream/consumers';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';

export type Behaviour = {
  /** Over the right ones. */
  claims?: JWTPayload;
  /** `none`: unsigned. `stranger`: by a key that is not published. `secret`: with the secret of the client. */
  signature?: 'ours' | 'stranger' | 'none' | 'secret';
  userinfo?: { status: number; body: object };
  tokenStatus?: number;
  /** Over the members of the token answer. */
  tokens?: object;
  /** In place of the right answer at a path. */
  answers?: Record<string, RequestListener>;
};

export type OpenIdProvider = {
  issuer: string;
  behave: (behaviour: Behaviour) => void;
  /** What the next ID token belongs to. */
  expect: (nonce: string) => void;
  requests: string[];
  /** What the token endpoint was sent. */
  exchanges: URLSearchParams[];
  stop: () => Promise<void>;
};

const CLIENT_ID = 'gatehouse';
export const CLIENT_SECRET = 'the-secret-of-the-client-that-is-long-enough';

export async function startOpenIdProvider(): Promise<OpenIdProvider> {
  const ours = await generateKeyPair('RS256', { extractable: true });
  const stranger = await generateKeyPair('RS256');
  const jwk = { ...(await exportJWK(ours.publicKey)), kid: 'one', alg: 'RS256', use: 'sig' };
  const requests: string[] = [];
  const exchanges: URLSearchParams[] = [];
  let behaviour: Behaviour = {};
  let nonce = '';

  const idToken = async (issuer: string) => {
    const now = Math.floor(Date.now() / 1000);
    const right = {
      iss: issuer,
      aud: CLIENT_ID,
      sub: 'subject-1',
      iat: now,
      exp: now + 300,
      nonce,
    };
    const claims = { ...right, ...behaviour.claims };
    if (behaviour.signature === 'none') return new UnsecuredJWT(claims).encode();
    if (behaviour.signature === 'secret')
      return new SignJWT(claims)
        .setProtectedHeader({ alg: 'HS256' })
        .sign(Buffer.from(CLIENT_SECRET));
    const { privateKey } = behaviour.signature === 'stranger' ? stranger : ours;
    return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(privateKey);
  };
  const answers: Record<string, (issuer: string) => Promise<[number, object]>> = {
    '/.well-known/openid-configuration': async (issuer) => [200, metadata(issuer)],
    '/jwks': async () => [200, { keys: [jwk] }],
    '/token': async (issuer) => [
      behaviour.tokenStatus ?? 200,
      {
        access_token: 'at',
        token_type: 'Bearer',
        id_token: await idToken(issuer),
        ...behaviour.tokens,
      },
    ],
    '/userinfo': async () => {
      const { status, body } = behaviour.userinfo ?? { status: 404, body: {} };
      return [status, body];
    },
  };
  const server = createServer(async (req, res) => {
    const path = new URL(req.url ?? '/', 'http://provider').pathname;
    requests.push(path);
    const own = behaviour.answers?.[path];
    if (own) return own(req, res);
    const sent = await text(req);
    if (path === '/token') exchanges.push(new URLSearchParams(sent));
    const [status, body] = (await answers[path]?.(issuerOf(server))) ?? [404, {}];
    res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    issuer: issuerOf(server),
    requests,
    exchanges,
    behave: (next) => {
      behaviour = next;
    },
    expect: (next) => {
      nonce = next;
    },
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

function issuerOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
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
