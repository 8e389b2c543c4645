// OpenID Connect client: authorization code flow with PKCE, state and nonce (OpenID Connect Core section 3.1).
import * as openid from 'openid-client';
import { authenticationIn } from '../people/step-up.ts';
import { isGoogle } from '../settings/identity-provider-schema.ts';
import { unavailable } from '../http/errors.ts';
import {
  type IdentityProvider as IdentityProviderSettings,
  storesToken,
} from '../settings/identity-provider.ts';
import { readIdentity, type UsedClaim, UserInfoFailure } from './claims.ts';
import { checkClient } from './client-check.ts';
import { requestedScopes, takesUiLocales } from './discovered-choices.ts';
import { openDiscovery } from './discovery.ts';
import { notTrusted, UNAVAILABLE } from './errors.ts';
import { exchangeCode, type Tokens } from './oauth-client.ts';
import { isSessionId, logoutTokenVerifier } from './logout-token.ts';
import type { ProtocolClient, RecheckRequest } from './provider.ts';
import { refreshTokensOf } from './refresh.ts';

export function openOpenidProvider(
  settings: IdentityProviderSettings,
  callbackUrl: string,
  rulesUse: readonly UsedClaim[],
): ProtocolClient {
  const discovery = openDiscovery(settings);
  const { config: discovered } = discovery;
  const client = { settings, callbackUrl, ...discovery };
  /** Whether the UserInfo endpoint gave claims of anybody: where it does, it refuses a person, not everybody (AD FS). */
  let answersUserInfo = false;
  const onUserInfo = () => {
    answersUserInfo = true;
  };
  return {
    async authorizationUrl(
      { state, nonce, verifier },
      { prompt, uiLocales, loginHint, claims } = {},
    ) {
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
        ...(storesToken(settings) && isGoogle(settings.issuer)
          ? { access_type: 'offline', prompt: 'consent' }
          : {}),
        ...(claims === undefined ? {} : { claims }),
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
      const { refresh_token: recheckToken } = storesToken(settings) ? tokens : {};
      const config = await discovered();
      const idToken = requireIdToken(config, tokens);
      const { identity, notices } = await readIdentity(settings, {
        config,
        reread: discovery.reread,
        accessToken: tokens.access_token,
        idToken,
        person: { issuer: idToken.iss, subject: idToken.sub },
        onUserInfo,
        onFailure: failureAtSignIn(rulesUse),
      });
      return {
        ...identity,
        notices,
        ...sidOf(tokens),
        ...(recheckToken ? { recheckToken } : {}),
        // Only from the ID token: the nonce binds it to this sign-in.
        authentication: authenticationIn(tokens.claims() ?? {}),
      };
    },
    async recheck(request) {
      const { person } = request;
      const tokens = await refreshTokensOf(settings, discovery, request);
      if (typeof tokens === 'string') return tokens;
      const idToken = tokens.claims();
      return readIdentity(settings, {
        config: await discovered(),
        reread: discovery.reread,
        accessToken: tokens.access_token,
        idToken,
        person,
        onUserInfo,
        onFailure(failure, missing) {
          const isRefused = answersUserInfo && isRefusal(failure);
          if (!idToken || isRefused || missing.some((claim) => hadClaim(person, claim)))
            throw failure;
        },
      }).catch((error: unknown) => {
        if (isRefusal(error)) return 'sign-in';
        throw error;
      });
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

/** A provider may send `azp` with a single audience too; it must then be this client (Core section 3.1.3.7). */
function requireIdToken(config: openid.Configuration, tokens: Tokens): openid.IDToken {
  const claims = tokens.claims();
  const { client_id: clientId } = config.clientMetadata();
  if (!claims || (claims.azp ?? clientId) !== clientId)
    throw notTrusted('the identity provider sent no ID token for this client');
  if (claims.sub.trim() === '') throw notTrusted('the ID token has an empty sub');
  return claims;
}

/**
 * A sign-in goes on without claims that the endpoint never gives: an error response may be normal there (AD FS). After a fault, a person must not
 * lose entitlements because the claims that rules use could not be read.
 */
function failureAtSignIn(rulesUse: readonly UsedClaim[]) {
  return (failure: UserInfoFailure, missing: readonly UsedClaim[]): void => {
    const { kind, status, message } = failure;
    const isNeeded = missing.some((claim) => rulesUse.includes(claim));
    if (!isNeeded) return;
    if (kind === 'unavailable') throw unavailable(failure, UNAVAILABLE);
    if (status === undefined) throw notTrusted(message, failure);
  };
}

/** Whether the claim was known of the person. What the ID token lacks now came from the UserInfo endpoint then. */
function hadClaim(
  { email, emailVerified, groups }: RecheckRequest['person'],
  claim: UsedClaim,
): boolean {
  const known = { email: email !== undefined, email_verified: emailVerified, name: false };
  return { ...known, groups: groups.length > 0 }[claim];
}

/** Some providers refresh the tokens of a person who has left, and refuse their access token (GitLab). */
function isRefusal(error: unknown): boolean {
  return error instanceof UserInfoFailure && (error.status === 401 || error.status === 403);
}

function sidOf(tokens: Tokens): { sid?: string } {
  const sid = tokens.claims()?.sid;
  return isSessionId(sid) ? { sid } : {};
}
