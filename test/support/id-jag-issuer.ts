// An ID-JAG issuer: signs assertions with any content, publishes its keys, and exchanges ID tokens (RFC 8693).
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';
import { listenOnLoopback } from './loopback-server.ts';

type Members = { [name: string]: unknown };

export type IdJagIssuer = {
  issuer: string;
  jwksUri: string;
  /** The current signing key. */
  jwk: () => JWK;
  /** Signs the claims unchanged; undefined removes a member. */
  sign: (claims: Members, header?: Members) => Promise<string>;
  /** Replaces the signing key and publishes only the new one. */
  rotate: () => Promise<void>;
  stop: () => Promise<void>;
};

/** `claimsFor` returns the additional claims for a token exchange. */
export async function startIdJagIssuer(
  claimsFor: (exchange: URLSearchParams) => Members = () => ({}),
): Promise<IdJagIssuer> {
  let key = await makeKey();
  const sign = (claims: Members, header: Members = {}) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: key.jwk.kid, typ: 'oauth-id-jag+jwt', ...header })
      .sign(key.privateKey);
  const exchanged = async (sent: URLSearchParams) => {
    const assertion = await sign({ ...validClaims(issuer), ...claimsFor(sent) });
    const type = 'urn:ietf:params:oauth:token-type:id-jag';
    return { access_token: assertion, issued_token_type: type, token_type: 'N_A', expires_in: 300 };
  };
  const server = createServer(async (req, res) => {
    const sent = new URLSearchParams(await text(req));
    const body = req.url === '/keys' ? { keys: [key.jwk] } : await exchanged(sent);
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  const { origin: issuer, stop } = await listenOnLoopback(server);
  return {
    issuer,
    jwksUri: `${issuer}/keys`,
    jwk: () => key.jwk,
    sign,
    async rotate() {
      key = await makeKey();
    },
    stop,
  };
}

async function makeKey() {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: randomUUID(), alg: 'ES256', use: 'sig' };
  return { privateKey, jwk };
}

/** The claims of every assertion, except audience, client and resource. */
export function validClaims(issuer: string) {
  const now = Math.floor(Date.now() / 1000);
  return { iss: issuer, sub: 'person-1', jti: randomUUID(), iat: now, exp: now + 300 };
}
