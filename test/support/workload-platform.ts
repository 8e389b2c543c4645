// A platform that gives its programs JWTs: it signs any claims, and publishes its keys as a cluster or a CI service does.
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { CompactSign, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import type { Certificate } from '../oauth/metadata-documents/certificate.ts';
import { listenOnLoopback } from './loopback-server.ts';

export type Members = Record<string, unknown>;

export type PlatformOptions = {
  alg?: string;
  /** Of `localhost`, which is the name of the platform then. */
  certificate?: Certificate;
  /** The bearer token that its addresses require. */
  requiredToken?: () => string;
  /** Where the keys are, if at another server. */
  jwksUri?: string;
  /** Changes what is published. */
  publish?: (keys: JWK[]) => unknown[];
};

export type Platform = Awaited<ReturnType<typeof startPlatform>>;

export async function startPlatform({
  alg = 'ES256',
  certificate,
  requiredToken,
  jwksUri,
  publish = (keys) => keys,
}: PlatformOptions = {}) {
  const makeKey = async (kid: string) => {
    const { privateKey, publicKey } = await generateKeyPair(alg, { extractable: true });
    return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid } as JWK };
  };
  let key = await makeKey('first');
  let isDown = false;
  const requests: { url: string; authorization: string | undefined }[] = [];
  const listener: RequestListener = (req, res) => {
    const { authorization } = req.headers;
    requests.push({ url: req.url ?? '', authorization });
    if (isDown) return res.writeHead(500).end();
    if (requiredToken && authorization !== `Bearer ${requiredToken()}`)
      return res.writeHead(401).end();
    const body =
      req.url === '/keys'
        ? { keys: publish([{ ...key.jwk, use: 'jwt-svid' }]) }
        : {
            issuer,
            jwks_uri: jwksUri ?? `${issuer}/keys`,
            id_token_signing_alg_values_supported: [...new Set([alg, 'RS256'])],
          };
    return res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const server = certificate
    ? createHttpsServer(certificate, listener)
    : createHttpServer(listener);
  const { origin, stop } = await listenOnLoopback(server);
  const issuer = certificate ? `https://localhost:${new URL(origin).port}` : origin;
  return {
    issuer,
    stop,
    requests,
    /** How often the keys were fetched. */
    fetches: () => requests.filter(({ url }) => url === '/keys').length,
    fail: (down: boolean) => void (isDown = down),
    publicKey: () => key.jwk,
    async rotate() {
      key = await makeKey('second');
    },
    /** Signs a payload that no serializer would write. */
    signText: (payload: string) =>
      new CompactSign(Buffer.from(payload))
        .setProtectedHeader({ alg, kid: String(key.jwk.kid) })
        .sign(key.privateKey),
    /** Signs the claims unchanged; undefined removes a member. */
    sign: (claims: Members, header: Members = {}) =>
      new SignJWT(claims)
        .setProtectedHeader({ alg, kid: String(key.jwk.kid), ...header })
        .sign(key.privateKey),
  };
}

const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer';

export type Answer = { status: number; headers: Headers; body: Members };

/** Exchanges a JWT for an access token of a connect link. */
export async function exchangeJwt(
  auth: string,
  form: { assertion: string; resource?: string } & Record<string, string>,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const response = await fetch(`${auth}/oauth/token`, {
    method: 'POST',
    headers,
    body: new URLSearchParams({ grant_type: GRANT, ...form }),
  });
  const body = (await response.json()) as Members;
  return { status: response.status, headers: response.headers, body };
}
