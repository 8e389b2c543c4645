// An identity provider that vouches for people (ID-JAG): signs assertions of any content, publishes its keys, and exchanges ID tokens (RFC 8693).
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose';

type Members = { [name: string]: unknown };

export type VouchingIssuer = {
  issuer: string;
  jwksUri: string;
  jwk: JWK;
  /** Signs the claims as they are; undefined leaves a member out. */
  sign: (claims: Members, header?: Members) => Promise<string>;
  /** How its key set and its token endpoint answer from now on. */
  behave: (behaviour: { keysStatus?: number }) => void;
  /** What its token endpoint was sent. */
  exchanges: URLSearchParams[];
  keyRequests: () => number;
  stop: () => Promise<void>;
};

/** `claimsFor`: what its assertions say for a token exchange. */
export async function startVouchingIssuer(
  claimsFor: (exchange: URLSearchParams) => Members = () => ({}),
): Promise<VouchingIssuer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' };
  const exchanges: URLSearchParams[] = [];
  let keysStatus = 200;
  let keyRequests = 0;
  const sign = (claims: Members, header: Members = {}) =>
    new SignJWT(claims)
      .setProtectedHeader({ alg: 'ES256', kid: 'one', typ: 'oauth-id-jag+jwt', ...header })
      .sign(privateKey);
  const exchanged = async (sent: URLSearchParams) => {
    exchanges.push(sent);
    const assertion = await sign({ ...rightClaims(issuerOf(server)), ...claimsFor(sent) });
    const type = 'urn:ietf:params:oauth:token-type:id-jag';
    return { access_token: assertion, issued_token_type: type, token_type: 'N_A', expires_in: 300 };
  };
  const server = createServer(async (req, res) => {
    const sent = new URLSearchParams(await text(req));
    const isKeys = req.url === '/keys';
    if (isKeys) keyRequests += 1;
    res.writeHead(isKeys ? keysStatus : 200, { 'content-type': 'application/json' });
    res.end(JSON.stringify(isKeys ? { keys: [jwk] } : await exchanged(sent)));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const issuer = issuerOf(server);
  return {
    issuer,
    jwksUri: `${issuer}/keys`,
    jwk,
    sign,
    behave: ({ keysStatus: next = 200 }) => {
      keysStatus = next;
    },
    exchanges,
    keyRequests: () => keyRequests,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** What every assertion needs but audience, client and resource. */
export function rightClaims(issuer: string) {
  const now = Math.floor(Date.now() / 1000);
  return { iss: issuer, sub: 'person-1', jti: randomUUID(), iat: now, exp: now + 300 };
}

function issuerOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
