// The identity provider of a company, as a process of its own: an OpenID provider (oidc-provider) with TLS, whose people sign in on a page. Groups
// come with the scope `groups` only.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { exportJWK, generateKeyPair } from 'jose';
import { type Configuration, Provider } from 'oidc-provider';

type Given = {
  port: number;
  certificate: string;
  key: string;
  redirectUris: string[];
  clientId: string;
  clientSecret: string;
  groups: Record<string, string[]>;
};

const given: Given = JSON.parse(process.argv[2] ?? '{}');
const { groups } = given;
const { privateKey } = await generateKeyPair('ES256', { extractable: true });
const jwk = { ...(await exportJWK(privateKey)), alg: 'ES256', use: 'sig', kid: 'company' };

const configuration: Configuration = {
  jwks: { keys: [jwk] },
  clients: [
    {
      client_id: given.clientId,
      client_secret: given.clientSecret,
      redirect_uris: given.redirectUris,
      grant_types: ['authorization_code', 'refresh_token'],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  claims: {
    openid: ['sub'],
    profile: ['name'],
    email: ['email', 'email_verified'],
    groups: ['groups'],
  },
  conformIdTokenClaims: false,
  findAccount: (_ctx, id) =>
    groups[id] && {
      accountId: id,
      claims: () => ({
        sub: id,
        name: id,
        email: `${id}@example.com`,
        email_verified: true,
        groups: groups[id],
      }),
    },
  // An application of the company asks its people for no consent.
  async loadExistingGrant({ oidc }) {
    const grant = new oidc.provider.Grant({
      accountId: oidc.session?.accountId,
      clientId: oidc.client?.clientId,
    });
    grant.addOIDCScope('openid profile email groups');
    await grant.save();
    return grant;
  },
  cookies: {
    keys: ['a key of the story'],
    names: { session: 'company', interaction: 'company_sign_in', resume: 'company_resume' },
  },
};

const provider = new Provider(`https://localhost:${given.port}`, configuration);
const tls = { cert: readFileSync(given.certificate), key: readFileSync(given.key) };
createServer(tls, provider.callback()).listen(given.port, '127.0.0.1');
