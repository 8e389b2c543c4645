// OpenID Connect client: authorization code flow with PKCE, state and nonce (OpenID Connect Core section 3.1).
import * as openid from 'openid-client';
import { unavailable } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { type Identity, MAX_EMAIL_LENGTH, personNameIn } from '../../accounts/account.ts';
import { type ClientTrial, tryClient } from './client-check.ts';
import {
  exchangeCode,
  notSetUp,
  notTrusted,
  providerClient,
  TIMEOUT_SECONDS,
  type Tokens,
  UNAVAILABLE,
} from './code-exchange.ts';
import { isSameIssuer } from '../../settings/value-types.ts';
import { openGithub } from './github.ts';
import { fetchFromProvider } from '../engine/provider-fetch.ts';
import { readDiscoveryFailure } from './provider-error.ts';

/** Values that a response must match. Stored for one browser and used once. */
export type LoginState = { state: string; nonce: string; verifier: string };

/** `login` forces reauthentication; `switch` asks for another account. */
export type LoginPrompt = 'login' | 'switch';

export type LoginParameters = { prompt?: LoginPrompt; uiLocales?: string; loginHint?: string };

export type IdentityProvider = {
  /** Set if several providers are configured. */
  id?: string;
  name?: string;
  issuer: string;
  /** In lower case. */
  emailDomains: readonly string[];
  /** Returns the URL of the authentication request. */
  authorizationUrl: (checks: LoginState, parameters?: LoginParameters) => Promise<URL>;
  /** Exchanges the code in the callback's query for the person's identity. Rejects with an HttpError. */
  identify: (query: string, checks: LoginState) => Promise<Identity>;
  /** Checks whether the provider accepts Gatehouse as a client. Never rejects. */
  tryClient: () => Promise<ClientTrial>;
};

export function openIdentityProvider(
  settings: IdentityProviderSettings,
  callbackUrl: string,
): IdentityProvider {
  const { id, listed, name, issuer, emailDomains, kind } = settings;
  const open = kind === 'github' ? openGithub : openOpenidProvider;
  return {
    ...(listed ? { id } : {}),
    ...(name === undefined ? {} : { name }),
    issuer,
    emailDomains,
    ...open(settings, callbackUrl),
  };
}

/** The protocol of one kind of provider. */
export type ProtocolClient = Pick<IdentityProvider, 'authorizationUrl' | 'identify' | 'tryClient'>;

function openOpenidProvider(
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
      return identityOf(settings, await claimsOf(await discovered(), tokens));
    },
    tryClient: () => tryClient(client),
  };
}

export function createLoginState(uid: string): LoginState {
  return {
    state: `${uid}.${openid.randomState()}`,
    nonce: openid.randomNonce(),
    verifier: openid.randomPKCECodeVerifier(),
  };
}

/** Runs discovery on first use and caches the result. Retries after a failure, because the provider may start later. */
function discoverOnce(settings: IdentityProviderSettings): () => Promise<openid.Configuration> {
  let cached: Promise<openid.Configuration> | undefined;
  return () => {
    cached ??= discover(settings).catch((cause: unknown) => {
      cached = undefined;
      const wrong = readDiscoveryFailure(cause);
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
    throw notTrusted('the identity provider sent no ID token for us');
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
