// OpenID Connect client: authorization code flow with PKCE, state and nonce (OpenID Connect Core section 3.1).
import * as openid from 'openid-client';
import { type Identity, MAX_EMAIL_LENGTH, personNameIn } from '../accounts/account.ts';
import { authenticationIn } from '../accounts/step-up.ts';
import { isGoogle } from '../settings/identity-provider-schema.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { unavailable } from '../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { checkClient } from './client-check.ts';
import { requestedScopes, takesUiLocales } from './discovered-choices.ts';
import { clientFor, copyKeys, openDiscovery } from './discovery.ts';
import { notTrusted, UNAVAILABLE } from './errors.ts';
import { exchangeCode, type Tokens } from './oauth-client.ts';
import { isSessionId, logoutTokenVerifier } from './logout-token.ts';
import type { ProtocolClient, RecheckRequest } from './provider.ts';
import { type RefreshedTokens, refreshTokens } from './refresh.ts';

export function openOpenidProvider(
  settings: IdentityProviderSettings,
  callbackUrl: string,
): ProtocolClient {
  const discovery = openDiscovery(settings);
  const { config: discovered } = discovery;
  const client = { settings, callbackUrl, ...discovery };
  return {
    async authorizationUrl({ state, nonce, verifier }, { prompt, uiLocales, loginHint } = {}) {
      const asked = prompt === 'switch' ? settings.switchAccountPrompt : prompt;
      const prompted = asked === undefined || asked === 'step-up' ? {} : { prompt: asked };
      const config = await discovered();
      const metadata = config.serverMetadata();
      return openid.buildAuthorizationUrl(config, {
        ...settings.authorizationParameters,
        redirect_uri: callbackUrl,
        scope: requestedScopes(settings, metadata).join(' '),
        state,
        nonce,
        ...(settings.pkce
          ? {
              code_challenge: await openid.calculatePKCECodeChallenge(verifier),
              code_challenge_method: 'S256',
            }
          : {}),
        ...(uiLocales && takesUiLocales(metadata) ? { ui_locales: uiLocales } : {}),
        ...(loginHint ? { login_hint: loginHint } : {}),
        ...(prompt === 'step-up' ? stepUpParameters(settings) : {}),
        ...(settings.recheck !== undefined && isGoogle(settings.issuer)
          ? { access_type: 'offline', prompt: 'consent' }
          : {}),
        ...prompted,
      });
    },
    async identify(query, { state, nonce, verifier }) {
      const tokens = await exchangeCode(client, query, {
        expectedState: state,
        expectedNonce: nonce,
        ...(settings.pkce ? { pkceCodeVerifier: verifier } : {}),
        idTokenExpected: true,
      });
      const { refresh_token: recheckToken } = settings.recheck === undefined ? {} : tokens;
      return {
        ...identityOf(settings, await claimsOf(await discovered(), tokens)),
        ...sidOf(tokens),
        ...(recheckToken ? { recheckToken } : {}),
        // Only from the ID token: the nonce binds it to this sign-in.
        authentication: authenticationIn(tokens.claims() ?? {}),
      };
    },
    async recheck({ person, ...request }) {
      const shared = await discovered();
      const config = clientFor(shared, settings, person);
      const tokens = await refreshTokens(settings, config, request).catch(async (error) => {
        await discovery.reread(shared);
        throw error;
      });
      if (typeof tokens === 'string') return tokens;
      copyKeys(config, shared);
      return {
        identity: identityOf(settings, await claimsAgain(settings, config, tokens, person)),
      };
    },
    verifyLogoutToken: logoutTokenVerifier(settings, discovery),
    checkClient: () => checkClient(client),
  };
}

/** OpenID Connect Core section 3.1.2.1. */
function stepUpParameters({ stepUp }: IdentityProviderSettings): Record<string, string> {
  const { maxAge, acrValues } = stepUp ?? {};
  return {
    ...(maxAge === undefined ? {} : { max_age: String(maxAge) }),
    ...(acrValues ? { acr_values: acrValues.join(' ') } : {}),
  };
}

type Claims = Record<string, unknown> & { iss: string; sub: string };

/**
 * Reads the claims of a refresh. The ID token is optional there (OpenID Connect Core section 12.2), and may have fewer claims. Rejects if the
 * response is about another person, or has no claims.
 */
async function claimsAgain(
  { groupsClaim }: IdentityProviderSettings,
  config: openid.Configuration,
  tokens: RefreshedTokens,
  { issuer, subject }: RecheckRequest['person'],
): Promise<Claims> {
  const claims = tokens.claims();
  if (claims && (claims.iss !== issuer || claims.sub !== subject))
    throw new Error('the ID token is about another person');
  const isComplete = [claims?.email, claims?.name, claims?.[groupsClaim]].every(
    (claim) => claim !== undefined,
  );
  const hasUserInfo = config.serverMetadata().userinfo_endpoint !== undefined;
  if (!claims && !hasUserInfo) throw new Error('there is no ID token, and no UserInfo endpoint');
  if (isComplete || !hasUserInfo) return { ...claims, iss: issuer, sub: subject };
  const userInfo = await openid.fetchUserInfo(config, tokens.access_token, subject);
  return mergedClaims({ ...claims, iss: issuer, sub: subject }, userInfo);
}

/**
 * Reads the UserInfo endpoint if the ID token lacks email or name; entitlements depend on these claims. The provider's tokens are not
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
  return mergedClaims(claims, userInfo);
}

/** `email_verified` is valid only together with the `email` of the same source. */
function mergedClaims(claims: Claims, userInfo: object): Claims {
  const source: Record<string, unknown> = claims.email === undefined ? { ...userInfo } : claims;
  const { email, email_verified } = source;
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
