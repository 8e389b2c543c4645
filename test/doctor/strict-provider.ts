// An OpenID provider over TLS that validates client id, callback and secret, and can be misconfigured.
import { once } from 'node:events';
import { createServer } from 'node:https';
import { text } from 'node:stream/consumers';
import { exportJWK, generateKeyPair } from 'jose';
import type { Certificate } from '../oauth/metadata-documents/certificate.ts';

export type Registration = { callback: string; consoleCallback?: string; secret: string };

/** `answersWith` overrides members of the discovery document, and `location` the redirect to the callback. */
export type ProviderFault = Partial<Registration> & {
  answersWith?: object;
  tokenAnswer?: [status: number, body: object];
  location?: string;
  /** The answer to authentication requests. */
  page?: [status: number, html: string];
  isDown?: boolean;
};

export type StrictProvider = {
  issuer: string;
  /** Adds a fault. */
  misbehave: (fault: ProviderFault) => void;
  /** Ends all faults. */
  behave: () => void;
  stop: () => Promise<void>;
};

export async function startStrictProvider(
  port: number,
  certificate: Certificate,
  right: Registration,
): Promise<StrictProvider> {
  const issuer = `https://localhost:${port}`;
  const { publicKey } = await generateKeyPair('ES256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'one', alg: 'ES256', use: 'sig' }];
  let fault: ProviderFault = {};
  const server = createServer(certificate, async (req, res) => {
    if (fault.isDown) return void req.socket.destroy();
    const url = new URL(req.url ?? '/', issuer);
    const body = await text(req);
    const json = (status: number, document: object, headers = {}) =>
      res
        .writeHead(status, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify(document));
    if (url.pathname === '/.well-known/openid-configuration')
      return json(200, { ...metadata(issuer), ...fault.answersWith });
    if (url.pathname === '/jwks') return json(200, { keys });
    if (url.pathname === '/token') {
      if (fault.tokenAnswer) return json(...fault.tokenAnswer);
      const sent = Buffer.from(req.headers.authorization?.split(' ')[1] ?? '', 'base64').toString();
      const isKnown = decodeURIComponent(sent) === `gatehouse:${fault.secret ?? right.secret}`;
      const isTried = new URLSearchParams(body).has('code');
      return isKnown && isTried
        ? json(400, { error: 'invalid_grant' })
        : json(
            401,
            { error: 'invalid_client', error_description: 'Unknown secret' },
            // RFC 6749 section 5.2.
            { 'www-authenticate': 'Basic realm="token"' },
          );
    }
    if (fault.page) return res.writeHead(fault.page[0]).end(fault.page[1]);
    if (fault.location) return res.writeHead(302, { location: fault.location }).end();
    const callback = url.searchParams.get('redirect_uri');
    const registered = [fault.callback ?? right.callback, right.consoleCallback];
    if (callback === null || !registered.includes(callback))
      return res.writeHead(400).end('<h1>Error 400: redirect_uri_mismatch</h1>');
    const answer = new URL(callback);
    answer.searchParams.set('error', 'login_required');
    return res.writeHead(303, { location: answer.href }).end();
  });
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    issuer,
    misbehave: (more) => {
      const answersWith = { ...fault.answersWith, ...more.answersWith };
      fault = { ...fault, ...more, answersWith };
    },
    behave: () => {
      fault = {};
    },
    async stop() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}

function metadata(issuer: string): object {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    id_token_signing_alg_values_supported: ['ES256'],
    scopes_supported: ['openid', 'profile', 'email'],
  };
}
