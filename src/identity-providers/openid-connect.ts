// OpenID Connect client: authorization code flow with PKCE, state and nonce (OpenID Connect Core section 3.1).
import * as openid from 'openid-client';
import { type Identity, MAX_EMAIL_LENGTH, personNameIn } from '../accounts/account.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { unavailable } from '../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { checkClient } from './client-check.ts';
import { notSetUp, notTrusted, permanentDiscoveryFailure, UNAVAILABLE } from './errors.ts';
import { fetchFromProvider } from './fetch.ts';
import { exchangeCode, providerClient, TIMEOUT_SECONDS, type Tokens } from './oauth-client.ts';
import { isSessionId, logoutTokenVerifier } from './logout-token.ts';
import type { ProtocolClient } from './provider.ts';

export function openOpenidProvider(
  settings: IdentityProviderSettings,
  callbackUrl: string,
): ProtocolClient {
  const discovered = discoverOnce(settings);
  const client = { settings, callbackUrl, config: discovered };
  return {
    async authorizationUrl({ state, nonce, verifier }, { prompt, uiLocales, loginHint } = {}) {
      return openid.buildAuthorizationUrl(await discovered(), {
        redirect_uri: callbackUrl,
        scope: settings.scopes.join(' '),
        state,
        nonce,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(uiLocales ? { ui_locales: uiLocales } : {}),
        ...(loginHint ? { login_hint: loginHint } : {}),
        ...(prompt ? { prompt: prompt === 'login' ? 'login' : settings.switchAccountPrompt } : {}),
      });
    },
    async identify(query, { state, nonce, verifier }) {
      const tokens = await exchangeCode(client, query, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      return {
        ...identityOf(settings, await claimsOf(await discovered(), tokens)),
        ...sidOf(tokens),
      };
    },
    verifyLogoutToken: logoutTokenVerifier(settings, async () =>
      (await discovered()).serverMetadata(),
    ),
    checkClient: () => checkClient(client),
  };
}

/** Runs discovery on first use and caches the result. Retries after a failure, because the provider may start later. */
function discoverOnce(settings: IdentityProviderSettings): () => Promise<openid.Configuration> {
  let cached: Promise<openid.Configuration> | undefined;
  return () => {
    cached ??= discover(settings).catch((cause: unknown) => {
      cached = undefined;
      const wrong = permanentDiscoveryFailure(cause);
      if (wrong === undefined) throw unavailable(cause, UNAVAILABLE);
      throw notSetUp(`the discovery document of ${settings.issuer} ${wrong}: check the issuer`);
    });
    return cached;
  };
}

async function discover({
  issuer,
  clientId,
  clientSecret,
}: IdentityProviderSettings): Promise<openid.Configuration> {
  const execute = issuer.startsWith('http:') ? [openid.allowInsecureRequests] : [];
  const found = await openid.discovery(new URL(issuer), clientId, undefined, openid.None(), {
    execute,
    timeout: TIMEOUT_SECONDS,
    [openid.customFetch]: fetchFromProvider,
  });
  const server = found.serverMetadata();
  const config = providerClient(server, clientId, authentication(server, clientSecret));
  // TLS already authenticates the ID token (Core section 3.1.3.7 point 6). Its signature is verified as well.
  openid.enableNonRepudiationChecks(config);
  return config;
}

/** `client_secret_basic` is the default (OpenID Connect Discovery section 3). */
function authentication(
  server: openid.ServerMetadata,
  secret: string | undefined,
): openid.ClientAuth {
  if (secret === undefined) return openid.None();
  const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
  return methods.includes('client_secret_basic')
    ? openid.ClientSecretBasic(secret)
    : openid.ClientSecretPost(secret);
}

type Claims = Record<string, unknown> & { iss: string; sub: string };

/**
 * Reads the UserInfo endpoint if the ID token lacks e-mail or name; entitlements depend on these claims. The provider's tokens are not
 * stored or passed on.
 */
async function claimsOf(config: openid.Configuration, tokens: Tokens): Promise<Claims> {
  const claims = tokens.claims();
  // A provider may send `azp` with a single audience too; it must then be this client (Core section 3.1.3.7).
  const { client_id: clientId } = config.clientMetadata();
  if (!claims || (claims.azp ?? clientId) !== clientId) {
    throw notTrusted('the identity provider sent no ID token for this client');
  }
  const isIncomplete = claims.email === undefined || claims.name === undefined;
  if (!isIncomplete || !config.serverMetadata().userinfo_endpoint) return { ...claims };
  const userInfo = await openid
    .fetchUserInfo(config, tokens.access_token, claims.sub)
    .catch((cause: unknown) => {
      throw unavailable(cause, UNAVAILABLE);
    });
  // `email_verified` is valid only together with the `email` of the same source.
  const { email, email_verified } = claims.email === undefined ? userInfo : claims;
  return { ...userInfo, ...claims, email, email_verified };
}

function sidOf(tokens: Tokens): { sid?: string } {
  const sid = tokens.claims()?.sid;
  return isSessionId(sid) ? { sid } : {};
}

function identityOf({ groupsClaim, issuer }: IdentityProviderSettings, claims: Claims): Identity {
  const { iss, sub, name, preferred_username: username, email, email_verified: verified } = claims;
  const groups = claims[groupsClaim];
  const isUsable = typeof email === 'string' && email.length <= MAX_EMAIL_LENGTH;
  const address = isUsable ? email : undefined;
  const emailVerified = address !== undefined && verified === true;
  const display = personNameIn([name, username, address], { email: address, emailVerified });
  return {
    issuer: iss,
    subject: sub,
    name: (display ?? sub).slice(0, 200),
    ...(isSameIssuer(iss, issuer) ? {} : { providerIssuer: issuer }),
    ...(address === undefined ? {} : { email: address }),
    emailVerified,
    groups: Array.isArray(groups) ? groups.filter((group) => typeof group === 'string') : [],
  };
}
