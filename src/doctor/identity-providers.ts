import { CALLBACK_PATH } from '../consent/callback-path.ts';
import {
  claimsInRules,
  createLoginState,
  type IdentityProvider,
  identityProviderSettings,
  openIdentityProvider,
  pathOfProvider,
  providerCallback,
} from '../sign-in/provider.ts';
import { lacks, OFFLINE_ACCESS, requestedScopes } from '../sign-in/discovered-choices.ts';
import { rootMessage } from '../error-causes.ts';
import { LOGOUT_PATH } from '../sign-in/logout-token.ts';
import { printable } from '../printable-text.ts';
import { CONSOLE_CALLBACK_PATH } from '../management/console/address.ts';
import { isGoogle } from '../settings/identity-provider-schema.ts';
import type { IdentityProvider as ProviderSettings } from '../settings/identity-provider.ts';
import { isIssuerOfDocument } from '../settings/value-types.ts';
import { checkDateHeader } from './clock.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { describeResponse, type HttpResponse, jsonObject, NoResponseError } from './http-client.ts';
import { type Finding, findingAbout, type Findings, okIfNone } from './report.ts';

const NO_SIGN_IN = 'nobody can sign in';
const NO_NEW_SIGN_IN = 'nobody can sign in; existing connections continue to work';
const WEAK_CODE = 'an intercepted authorization code is less well protected';
const PROVIDER_DOWN = 'check that the identity provider is up, and reachable from this machine';

/** One provider after the other. */
export async function checkIdentityProviders(deployment: ConfiguredDeployment): Promise<Findings> {
  const providers = identityProviderSettings(deployment.settings);
  const findings = [unequalStepUp(providers)];
  for (const provider of providers)
    findings.push(await checkIdentityProvider(deployment, provider));
  return findings;
}

async function checkIdentityProvider(
  deployment: ConfiguredDeployment,
  provider: ProviderSettings,
): Promise<Findings> {
  const { issuer } = provider;
  const finding = findingAbout('identity-provider', issuer);
  // GitHub has no discovery document.
  if (provider.kind === 'github')
    return [recheckFindings(deployment, provider), await checkRegistration(deployment, provider)];
  try {
    const response = await deployment.sendToProvider(
      `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`,
    );
    const metadata = jsonObject(response);
    if (response.status !== 200 || !metadata)
      return finding.problem({
        what: `expected a discovery document, but the response is ${describeResponse(response)}`,
        why: NO_NEW_SIGN_IN,
        remedy:
          'set identityProvider.issuer to the address that, followed by /.well-known/openid-configuration, returns the document',
      });
    const found = String(metadata.issuer);
    const isIssuer = isIssuerOfDocument(issuer, metadata.issuer);
    const ofIssuer = findingAbout('identity-provider-issuer', issuer);
    return [
      isIssuer && finding.ok('the identity provider responds'),
      isIssuer
        ? ofIssuer.ok('the issuer of the document is that of the settings')
        : ofIssuer.problem({
            what: `the issuer of the discovery document is ${found}`,
            why: 'sign-ins are refused, because ID tokens come from another issuer than that of the settings',
            remedy: `if this is the right provider, set identityProvider.issuer to exactly ${found}`,
          }),
      checkDateHeader(issuer, response),
      !(await hasKeys(deployment, metadata)) &&
        finding.problem({
          what: `the keys of the identity provider cannot be read (${String(metadata.jwks_uri)})`,
          why: 'ID tokens cannot be verified, so nobody can sign in',
          remedy: 'check that no firewall blocks this machine',
        }),
      documentFindings(deployment, provider, metadata),
      recheckFindings(deployment, provider, metadata),
      isIssuer && (await checkRegistration(deployment, provider)),
    ];
  } catch (error) {
    if (!(error instanceof NoResponseError)) throw error;
    return finding.problem({
      what: `the identity provider cannot be reached from this machine: ${error.message}`,
      why: NO_NEW_SIGN_IN,
      remedy:
        error.remedy ?? 'check identityProvider.issuer, and that no firewall blocks this machine',
    });
  }
}

// The discovery document (OpenID Connect Discovery section 4)

type Metadata = Record<string, unknown>;

async function hasKeys(
  { sendToProvider }: ConfiguredDeployment,
  { jwks_uri: url }: Metadata,
): Promise<boolean> {
  const response = await sendToProvider(String(url)).catch(() => undefined);
  const keys = response && jsonObject(response)?.keys;
  return Array.isArray(keys) && keys.length > 0;
}

/** Reports why rechecks cannot work, or not as often as set. */
function recheckFindings(
  { settings: { lifetimes } }: ConfiguredDeployment,
  { issuer, kind, recheck, recheckScopes }: ProviderSettings,
  { scopes_supported: supported, grant_types_supported: grantTypes }: Metadata = {},
): Findings {
  if (recheck === undefined) return undefined;
  const finding = findingAbout('recheck', issuer);
  const isUnlisted = kind === 'openid' && !isGoogle(issuer) && lacks(supported, OFFLINE_ACCESS);
  return okIfNone(
    [
      isUnlisted &&
        recheckScopes === undefined &&
        finding.note({
          what: `the identity provider does not list the scope ${OFFLINE_ACCESS}, so it is not requested`,
          why: 'some providers issue refresh tokens without it (GitLab, Amazon Cognito); at others people must sign in again whenever the time in recheck has passed',
          remedy: `sign in once; if the log says that no refresh token was issued, set recheckScopes: [${OFFLINE_ACCESS}]. If nothing is to be requested, set recheckScopes: []`,
        }),
      lacks(grantTypes, 'refresh_token') &&
        finding.warning({
          what: 'the identity provider does not offer the grant type refresh_token',
          why: 'without its refresh token, people must sign in again whenever the time in recheck has passed',
          remedy: 'allow it for this client at the provider, or remove recheck',
        }),
      recheck >= lifetimes.refreshTokenAbsolute &&
        finding.warning({
          what: 'recheck is longer than lifetimes.refreshTokenAbsolute',
          why: 'every connection ends before its person is rechecked',
          remedy: 'set recheck to a shorter time, for example 24h',
        }),
      recheck < lifetimes.accessToken &&
        finding.note({
          what: 'recheck is shorter than lifetimes.accessToken',
          why: 'people are rechecked when an app refreshes, which is once in the lifetime of its access token',
          remedy: 'set recheck to a longer time, or shorten lifetimes.accessToken',
        }),
    ],
    finding.ok('nothing prevents rechecks'),
  );
}

/** What the document says about the settings. It need not list all that a provider supports, except where a row is a warning. */
function documentFindings(
  { settings }: ConfiguredDeployment,
  provider: ProviderSettings,
  metadata: Metadata,
): Findings {
  const finding = findingAbout('identity-provider', provider.issuer);
  const { pkce, clientAuthentication: method, groupsClaim, stepUp, listed, id } = provider;
  const { scopes_supported: scopes, code_challenge_methods_supported: methods } = metadata;
  const requested = requestedScopes(provider, metadata);
  const missing = requested.filter((name) => lacks(scopes, name));
  const lacksGroups =
    claimsInRules(settings, provider).includes('groups') &&
    [scopes].flat().includes(groupsClaim) &&
    !requested.includes(groupsClaim);
  const { levels = [], maxAge, acrValues = [] } = stepUp ?? {};
  const claims = [...(maxAge === undefined ? [] : ['auth_time']), ...(acrValues[0] ? ['acr'] : [])];
  const missingClaims = claims.filter((name) => lacks(metadata.claims_supported, name));
  const lacksVerified =
    provider.emailVerified === 'provider' &&
    settings.upstreams.some(({ caller }) => caller.claims.includes('email')) &&
    lacks(metadata.claims_supported, 'email_verified');
  const classes = metadata.acr_values_supported;
  const missingClasses = acrValues.filter((name) => lacks(classes, name));
  const logoutUrl = pathOfProvider(settings.authUrl + LOGOUT_PATH, listed ? id : undefined);
  const canLogOut = metadata.backchannel_logout_supported === true;
  return [
    missing.length > 0 &&
      finding.warning({
        what: `the identity provider does not offer the scope ${missing.join(', ')}`,
        why: 'it may refuse sign-ins, or omit claims that entitlements need',
        remedy: 'set scopes, and recheckScopes if it is set, to scopes that it offers',
      }),
    pkce &&
      lacks(methods, 'S256') &&
      finding.warning({
        what: 'the identity provider does not offer PKCE with S256',
        why: WEAK_CODE,
        remedy: 'enable PKCE for this client, if the provider can',
      }),
    !pkce &&
      [methods].flat().includes('S256') &&
      finding.warning({
        what: 'pkce is false, but the identity provider offers PKCE with S256',
        why: WEAK_CODE,
        remedy: 'remove pkce',
      }),
    method !== undefined &&
      lacks(metadata.token_endpoint_auth_methods_supported, method) &&
      finding.warning({
        what: `the identity provider does not offer ${method}, which clientAuthentication requires`,
        why: 'it may refuse the client secret',
        remedy: 'remove clientAuthentication, or set it to a method that the provider offers',
      }),
    // A provider may send groups without the scope.
    lacksGroups &&
      finding.note({
        what: `rules use groups, but the scope ${groupsClaim}, which the identity provider offers, is not requested`,
        why: 'people may arrive without groups, so that these rules match nobody',
        remedy: `sign in, and read the groups that arrived in the log (“a person signed in with these claims”); if there are none, add ${groupsClaim} to scopes`,
      }),
    missingClaims.length > 0 &&
      finding.warning({
        what: `the identity provider does not list the claim ${missingClaims.join(', ')}`,
        why: `stepUp needs it in ID tokens: without it, nobody can approve ${levels.join(', ')}`,
        remedy: 'add the claim to the ID tokens of this client at the provider, or change stepUp',
      }),
    lacksVerified &&
      finding.note({
        what: 'the identity provider does not list the claim email_verified, and caller.claims of an MCP server has email',
        why: 'an address about which the provider does not say that it is verified is given to no MCP server, and matches no rule',
        remedy:
          'for your own directory alone, in which only administrators set addresses (one tenant of Microsoft Entra ID), set emailVerified: always',
      }),
    missingClasses.length > 0 &&
      finding.warning({
        what: `the identity provider does not offer the acr value ${missingClasses.join(', ')}`,
        why: `a sign-in of another class does not approve ${levels.join(', ')}`,
        remedy: `set acrValues of stepUp to values that it offers: ${[classes].flat().join(', ')}`,
      }),
    // OpenID Connect Back-Channel Logout 1.0 section 2.1. It does not say to which addresses it sends logout tokens.
    canLogOut &&
      finding.ok(`the identity provider can send logout tokens: register ${logoutUrl} there`),
    !canLogOut &&
      provider.backchannelLogout === 'connections' &&
      finding.warning({
        what: 'the identity provider does not announce back-channel logout',
        why: 'backchannelLogout: connections has no effect; people who are signed out or leave keep their connections',
        remedy: `if the provider can send logout tokens, register ${logoutUrl} there; otherwise remove backchannelLogout`,
      }),
  ];
}

/** Reports providers that approve without step-up what others approve only with it. */
function unequalStepUp(providers: readonly ProviderSettings[]): Findings {
  const levels = [...new Set(providers.flatMap(({ stepUp }) => stepUp?.levels ?? []))];
  if (levels.length === 0) return undefined;
  return providers.map(
    ({ id, issuer, stepUp }) =>
      !stepUp &&
      findingAbout('step-up', issuer).note({
        what: `people who sign in at ${id} approve ${levels.join(', ')} without a step-up sign-in, which another identity provider requires`,
        why: 'stepUp applies only to the provider that has it',
        remedy: `set stepUp of ${id} (not possible for GitHub), or give these levels only to people of other providers (provider in entitlements)`,
      }),
  );
}

// The registration of Gatehouse at the provider: callbacks, tried with `prompt=none`, and the secret, tried with an invalid code

/** Nobody is signed in at the provider, so each of these means that it accepts the request (OpenID Connect Core section 3.1.2.6). */
const ACCEPTED =
  /^(login_required|interaction_required|consent_required|account_selection_required)$/;
/** In error pages of common providers. */
const MISMATCH = /redirect_uri_mismatch|AADSTS50011|invalid[ _]redirect|redirect_?uri/i;
const SCOPE = /invalid[ _]scopes?|scopes?( \S+)? (is|are) (invalid|unknown|not )/i;
const REMEDIES: Record<string, string> = {
  invalid_scope:
    'set scopes, and with recheck recheckScopes, to scopes that are allowed for this client there',
  invalid_request:
    'compare the registration of this client there; if the provider refuses parameters that it does not know, set pkce: false, and check authorizationParameters',
};

/** The console has a callback of its own, if it is on. */
async function checkRegistration(
  deployment: ConfiguredDeployment,
  settings: ProviderSettings,
): Promise<Findings> {
  const { authUrl, managementUrl, management } = deployment.settings;
  const isConsoleOn = management.administrators.length > 0;
  const addresses = [
    authUrl + CALLBACK_PATH,
    ...(isConsoleOn ? [managementUrl + CONSOLE_CALLBACK_PATH] : []),
  ];
  const callbacks = addresses.map((address) => providerCallback(settings, address));
  const findings: Finding[] = [];
  for (const callback of callbacks)
    findings.push(await checkCallback(deployment, settings, callback));
  return [
    ...findings,
    await checkClient(openIdentityProvider(settings, callbacks[0] ?? ''), settings),
  ];
}

async function checkCallback(
  { sendToProvider }: ConfiguredDeployment,
  settings: ProviderSettings,
  callback: string,
): Promise<Finding> {
  try {
    const provider = openIdentityProvider(settings, callback);
    const url = await provider.authorizationUrl(createLoginState('doctor'));
    url.searchParams.set('prompt', 'none');
    return callbackFinding(callback, await sendToProvider(url.href));
  } catch (error) {
    const failure = error instanceof NoResponseError ? error : { message: rootMessage(error) };
    return findingAbout('callback', callback).problem({
      what: `the sign-in page of the identity provider cannot be reached: ${failure.message}`,
      why: NO_SIGN_IN,
      remedy: ('remedy' in failure && failure.remedy) || PROVIDER_DOWN,
    });
  }
}

function callbackFinding(callback: string, response: HttpResponse): Finding {
  const finding = findingAbout('callback', callback);
  const target = URL.parse(response.header('location') ?? '');
  const isCallback = target !== null && target.origin + target.pathname === callback;
  const query = target?.searchParams;
  const error = query?.get('error') ?? '';
  const refused = (code: string, description: string) =>
    finding.problem({
      what: `the identity provider refuses sign-ins: ${printable(`${code} ${description}`, 300)}`,
      why: NO_SIGN_IN,
      remedy:
        REMEDIES[code] ??
        'compare the registration of this client with identityProvider (clientId, scopes); its type must be a web application with the authorization code flow',
    });
  if (isCallback && (error === '' || ACCEPTED.test(error)))
    return finding.ok('the callback is registered at the identity provider');
  if (isCallback) return refused(error, query?.get('error_description') ?? '');
  // Google redirects to its own error page, with the error in base64 in the query.
  const googleError = Buffer.from(query?.get('authError') ?? '', 'base64').toString('latin1');
  const text = `${response.text} ${target?.href ?? ''} ${googleError}`;
  const mismatch = MISMATCH.exec(text)?.[0];
  const scope = mismatch === undefined ? SCOPE.exec(text)?.[0] : undefined;
  if (response.status >= 400 && scope !== undefined)
    return refused('invalid_scope', `its page says “${scope}”`);
  if (response.status < 400 && mismatch === undefined)
    return finding.ok('the identity provider does not appear to refuse the callback');
  const answer = mismatch ? `it says “${mismatch}”` : describeResponse(response);
  return finding.problem({
    what: `the identity provider refuses the request (${answer})`,
    why: `${NO_SIGN_IN}: most likely this callback is not registered, or the client id is wrong`,
    remedy: `register exactly ${callback} there as a redirect URI, and check identityProvider.clientId`,
  });
}

/** RFC 6749 section 5.2. A client without a secret must be registered as a public client. */
async function checkClient(
  provider: IdentityProvider,
  { issuer, clientSecret }: ProviderSettings,
): Promise<Finding> {
  const finding = findingAbout('client-secret', issuer);
  const hasSecret = clientSecret !== undefined;
  const { result, response, advice } = await provider.checkClient();
  if (result === 'accepted')
    return finding.ok(
      hasSecret
        ? 'the identity provider accepts the client secret'
        : 'the identity provider accepts Gatehouse without a client secret (a public client, PKCE)',
    );
  if (result === 'refused')
    return finding.problem({
      what: `the identity provider refuses Gatehouse: ${response}`,
      why: `${NO_SIGN_IN}: people see that sign-in is not set up correctly`,
      remedy: advice,
    });
  if (result === 'unavailable')
    return finding.problem({
      what: `the token endpoint of the identity provider fails: ${response}`,
      why: `${NO_SIGN_IN} at present`,
      remedy: PROVIDER_DOWN,
    });
  return finding.note({
    what: `the response of the identity provider to an invalid code does not show whether it accepts Gatehouse ${hasSecret ? 'with this client secret' : 'without a client secret'}: ${response}`,
    why: `if it does not, ${NO_SIGN_IN}`,
    remedy: hasSecret
      ? "sign in once; if that fails, the log of Gatehouse has the provider's error"
      : `sign in once; if that fails, ${advice}`,
  });
}
