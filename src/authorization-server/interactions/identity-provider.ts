// Our side of signing in at the company's identity provider: an OpenID Connect client with PKCE, state and nonce (OpenID Connect Core section 3.1).
import * as openid from 'openid-client';
import { unavailable } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { type Identity, isOfIssuer, MAX_EMAIL } from '../../accounts/account.ts';
import { personNameIn } from '../../accounts/person-name.ts';
import { type ClientTrial, tryClient } from './client-check.ts';
import {
  exchangeCode,
  notSetUp,
  notTrusted,
  providerClient,
  TIMEOUT,
  type Tokens,
  UNAVAILABLE,
} from './code-exchange.ts';
import { openGithub } from './github.ts';
import { fetchFromProvider } from '../engine/provider-fetch.ts';
import { readDiscoveryFailure } from './provider-error.ts';

/** What must come back: kept by us, for one browser, once. */
export type SignInChecks = { state: string; nonce: string; verifier: string };

/** `login`: sign in afresh. `switch`: choose another account. */
export type SignInPrompt = 'login' | 'switch';

/** `loginHint`: the account that the app named, for the provider to offer. */
export type SignInWishes = { prompt?: SignInPrompt; uiLocales?: string; loginHint?: string };

export type IdentityProvider = {
  /** Of one among several. */
  id?: string;
  name?: string;
  issuer: string;
  /** In lower case. */
  emailDomains: readonly string[];
  /** Where to send the person. */
  signInUrl: (checks: SignInChecks, wishes?: SignInWishes) => Promise<URL>;
  /** Who came back, from the query of the callback. Refuses with an HttpError that says what to do. */
  identify: (query: string, checks: SignInChecks) => Promise<Identity>;
  /** Whether the provider accepts Gatehouse as a client. Does not reject. */
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

/** How one kind of provider is asked. */
export type Asking = Pick<IdentityProvider, 'signInUrl' | 'identify' | 'tryClient'>;

function openOpenidProvider(settings: IdentityProviderSettings, callbackUrl: string): Asking {
  const discovered = discoverOnce(settings);
  const client = { settings, callbackUrl, config: discovered };
  return {
    async signInUrl({ state, nonce, verifier }, { prompt, uiLocales, loginHint } = {}) {
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

export function createSignInChecks(uid: string): SignInChecks {
  return {
    state: `${uid}.${openid.randomState()}`,
    nonce: openid.randomNonce(),
    verifier: openid.randomPKCECodeVerifier(),
  };
}

/** Asked when first needed, and again after a failure: the provider may start after us, or be away for a while. */
function discoverOnce(settings: IdentityProviderSettings): () => Promise<openid.Configuration> {
  let known: Promise<openid.Configuration> | undefined;
  return () => {
    known ??= discover(settings).catch((cause: unknown) => {
      known = undefined;
      const wrong = readDiscoveryFailure(cause);
      if (wrong === undefined) throw unavailable(cause, UNAVAILABLE);
      throw notSetUp(`the discovery document of ${settings.issuer} ${wrong}: check the issuer`);
    });
    return known;
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
    timeout: TIMEOUT,
    [openid.customFetch]: fetchFromProvider,
  });
  const server = found.serverMetadata();
  const config = providerClient(server, clientId, authentication(server, clientSecret));
  // The connection vouches for the ID token; its signature is checked all the same.
  openid.enableNonRepudiationChecks(config);
  return config;
}

/** OpenID Connect Discovery section 3: client_secret_basic is what a provider has when it does not say. */
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
 * Some providers put only the subject into the ID token; then the rest is asked for, because without it the person would lose what they may do.
 * The provider's tokens go no further than this.
 */
async function claimsOf(config: openid.Configuration, tokens: Tokens): Promise<Claims> {
  const claims = tokens.claims();
  // OpenID Connect Core section 3.1.3.7: whom the token was made for is also said when it has one audience.
  const { client_id: clientId } = config.clientMetadata();
  if (!claims || (claims.azp ?? clientId) !== clientId) {
    throw notTrusted('the identity provider sent no ID token for us');
  }
  const isThin = claims.email === undefined || claims.name === undefined;
  if (!isThin || !config.serverMetadata().userinfo_endpoint) return { ...claims };
  const more = await openid
    .fetchUserInfo(config, tokens.access_token, claims.sub)
    .catch((cause: unknown) => {
      throw unavailable(cause, UNAVAILABLE);
    });
  // Whether an address was verified is said by whoever says the address.
  const { email, email_verified } = claims.email === undefined ? more : claims;
  return { ...more, ...claims, email, email_verified };
}

function identityOf({ groupsClaim, issuer }: IdentityProviderSettings, claims: Claims): Identity {
  const { iss, sub, name, preferred_username: username, email, email_verified: verified } = claims;
  const groups = claims[groupsClaim];
  const isUsable = typeof email === 'string' && email.length <= MAX_EMAIL;
  const address = isUsable ? email : undefined;
  const emailVerified = address !== undefined && verified === true;
  const display = personNameIn([name, username, address], { email: address, emailVerified });
  return {
    issuer: iss,
    subject: sub,
    name: (display ?? sub).slice(0, 200),
    ...(isOfIssuer({ issuer: iss }, issuer) ? {} : { providerIssuer: issuer }),
    ...(address === undefined ? {} : { email: address }),
    emailVerified,
    groups: Array.isArray(groups) ? groups.filter((group) => typeof group === 'string') : [],
  };
}
