import { CALLBACK_PATH } from '../authorization-server/interactions/callback-path.ts';
import {
  claimsInRules,
  createLoginState,
  type IdentityProvider,
  identityProviderSettings,
  openIdentityProvider,
  pathOfProvider,
  providerCallback,
} from '../identity-providers/provider.ts';
import {
  lacks,
  OFFLINE_ACCESS,
  requestedScopes,
} from '../identity-providers/discovered-choices.ts';
import { rootMessage } from '../error-causes.ts';
import { LOGOUT_PATH } from '../identity-providers/logout-token.ts';
import { printable } from '../printable-text.ts';
import { CONSOLE_CALLBACK_PATH } from '../management/console/address.ts';
import { isGoogle } from '../settings/identity-provider-schema.ts';
import type { IdentityProvider as ProviderSettings } from '../settings/identity-provider.ts';
import type { Settings } from '../settings/settings.ts';
import { isIssuerOfDocument } from '../settings/value-types.ts';
import { checkDateHeader } from './clock.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { describeResponse, type HttpResponse, jsonObject, NoResponseError } from './http-client.ts';
import { type Finding, findingAbout, type FindingFactory, okIfNone } from './report.ts';

const NO_SIGN_IN = 'nobody can sign in';
const NO_NEW_SIGN_IN = 'nobody can sign in; existing connections continue to work';
const PROVIDER_DOWN = 'check that the identity provider is up, and reachable from this machine';

/** One provider after the other. */
export async function checkIdentityProviders(deployment: ConfiguredDeployment): Promise<Finding[]> {
  const providers = identityProviderSettings(deployment.settings);
  const findings = unequalStepUp(providers);
  for (const provider of providers)
    findings.push(...(await checkIdentityProvider(deployment, provider)));
  return findings;
}

async function checkIdentityProvider(
  deployment: ConfiguredDeployment,
  provider: ProviderSettings,
): Promise<Finding[]> {
  // GitHub has no discovery document.
  if (provider.kind === 'github')
    return [
      ...recheckFindings(deployment, provider),
      ...(await checkRegistration(deployment, provider)),
    ];
  const finding = findingAbout('identity-provider', provider.issuer);
  const response = await fetchDiscovery(deployment, provider.issuer);
  if (response instanceof NoResponseError) return [unreachable(finding, response)];
  const metadata = jsonObject(response);
  if (response.status !== 200 || !metadata) return [noDocument(finding, response)];
  const issuer = issuerFinding(provider.issuer, metadata.issuer);
  const others = [
    checkDateHeader(provider.issuer, response),
    ...(await checkKeys(deployment, finding, metadata)),
    ...capabilityFindings(finding, provider, metadata),
    ...groupFindings(finding, provider, metadata, deployment.settings),
    ...recheckFindings(deployment, provider, metadata),
    ...stepUpFindings(finding, provider, metadata),
    ...logoutFindings(finding, provider, metadata, deployment.settings.authUrl),
  ];
  if (issuer.outcome !== 'ok') return [issuer, ...others];
  return [
    finding.ok('the identity provider responds'),
    issuer,
    ...others,
    ...(await checkRegistration(deployment, provider)),
  ];
}

// The discovery document (OpenID Connect Discovery section 4)

type Metadata = Record<string, unknown>;

async function fetchDiscovery(
  { sendVerified }: ConfiguredDeployment,
  issuer: string,
): Promise<HttpResponse | NoResponseError> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  return sendVerified(url).catch((error: unknown) => {
    if (error instanceof NoResponseError) return error;
    throw error;
  });
}

function unreachable(finding: FindingFactory, { message, remedy }: NoResponseError): Finding {
  return finding.problem({
    what: `the identity provider cannot be reached from this machine: ${message}`,
    why: NO_NEW_SIGN_IN,
    remedy: remedy ?? 'check identityProvider.issuer, and that no firewall blocks this machine',
  });
}

function noDocument(finding: FindingFactory, response: HttpResponse): Finding {
  return finding.problem({
    what: `expected a discovery document, but the response is ${describeResponse(response)}`,
    why: NO_NEW_SIGN_IN,
    remedy:
      'set identityProvider.issuer to the address that, followed by /.well-known/openid-configuration, returns the document',
  });
}

function issuerFinding(expected: string, found: unknown): Finding {
  const finding = findingAbout('identity-provider-issuer', expected);
  if (isIssuerOfDocument(expected, found))
    return finding.ok('the issuer of the document is that of the settings');
  return finding.problem({
    what: `the issuer of the discovery document is ${String(found)}`,
    why: 'sign-ins are refused, because ID tokens come from another issuer than that of the settings',
    remedy: `if this is the right provider, set identityProvider.issuer to exactly ${String(found)}`,
  });
}

async function checkKeys(
  { sendVerified }: ConfiguredDeployment,
  finding: FindingFactory,
  { jwks_uri: url }: Metadata,
): Promise<Finding[]> {
  const keys = await sendVerified(String(url)).then(
    (response) => jsonObject(response)?.keys,
    () => undefined,
  );
  if (Array.isArray(keys) && keys.length > 0) return [];
  return [
    finding.problem({
      what: `the keys of the identity provider cannot be read (${String(url)})`,
      why: 'ID tokens cannot be verified, so nobody can sign in',
      remedy: 'check that no firewall blocks this machine',
    }),
  ];
}

/** Reports why rechecks cannot work, or not as often as set. */
function recheckFindings(
  { settings: { lifetimes } }: ConfiguredDeployment,
  { issuer, kind, recheck, recheckScopes }: ProviderSettings,
  { scopes_supported: supported, grant_types_supported: grantTypes }: Metadata = {},
): Finding[] {
  if (recheck === undefined) return [];
  const finding = findingAbout('recheck', issuer);
  const isUnlisted = kind === 'openid' && !isGoogle(issuer) && lacks(supported, OFFLINE_ACCESS);
  const notRequested = finding.note({
    what: `the identity provider does not list the scope ${OFFLINE_ACCESS}, so it is not requested`,
    why: 'some providers issue refresh tokens without it (GitLab, Amazon Cognito); at others people must sign in again whenever the time in recheck has passed',
    remedy: `sign in once; if the log says that no refresh token was issued, set recheckScopes: [${OFFLINE_ACCESS}]. If nothing is to be requested, set recheckScopes: []`,
  });
  const noTokens = finding.warning({
    what: 'the identity provider does not offer the grant type refresh_token',
    why: 'without its refresh token, people must sign in again whenever the time in recheck has passed',
    remedy: 'allow it for this client at the provider, or remove recheck',
  });
  const never = finding.warning({
    what: 'recheck is longer than lifetimes.refreshTokenAbsolute',
    why: 'every connection ends before its person is rechecked',
    remedy: 'set recheck to a shorter time, for example 24h',
  });
  const tooOften = finding.note({
    what: 'recheck is shorter than lifetimes.accessToken',
    why: 'people are rechecked when an app refreshes, which is once in the lifetime of its access token',
    remedy: 'set recheck to a longer time, or shorten lifetimes.accessToken',
  });
  const found = [
    ...(isUnlisted && recheckScopes === undefined ? [notRequested] : []),
    ...(lacks(grantTypes, 'refresh_token') ? [noTokens] : []),
    ...(recheck >= lifetimes.refreshTokenAbsolute ? [never] : []),
    ...(recheck < lifetimes.accessToken ? [tooOften] : []),
  ];
  return okIfNone(found, finding.ok('nothing prevents rechecks'));
}

/** Reports only capabilities that the document lists. A provider may support others. */
function capabilityFindings(
  finding: FindingFactory,
  settings: ProviderSettings,
  metadata: Metadata,
): Finding[] {
  const { pkce, clientAuthentication: method } = settings;
  const { scopes_supported: supported, code_challenge_methods_supported: methods } = metadata;
  const missing = requestedScopes(settings, metadata).filter((name) => lacks(supported, name));
  const lacksPkce = pkce && lacks(methods, 'S256');
  const isPkceOff = !pkce && Array.isArray(methods) && methods.includes('S256');
  const lacksMethod =
    method !== undefined && lacks(metadata.token_endpoint_auth_methods_supported, method);
  const missingScopes = finding.warning({
    what: `the identity provider does not offer the scope ${missing.join(', ')}`,
    why: 'it may refuse sign-ins, or omit claims that entitlements need',
    remedy: 'set scopes, and recheckScopes if it is set, to scopes that it offers',
  });
  const noPkce = finding.warning({
    what: 'the identity provider does not offer PKCE with S256',
    why: 'an intercepted authorization code is less well protected',
    remedy: 'enable PKCE for this client, if the provider can',
  });
  const pkceOff = finding.warning({
    what: 'pkce is false, but the identity provider offers PKCE with S256',
    why: 'an intercepted authorization code is less well protected',
    remedy: 'remove pkce',
  });
  const noMethod = finding.warning({
    what: `the identity provider does not offer ${method}, which clientAuthentication requires`,
    why: 'it may refuse the client secret',
    remedy: 'remove clientAuthentication, or set it to a method that the provider offers',
  });
  return [
    ...(missing.length > 0 ? [missingScopes] : []),
    ...(lacksPkce ? [noPkce] : []),
    ...(isPkceOff ? [pkceOff] : []),
    ...(lacksMethod ? [noMethod] : []),
  ];
}

/** A provider may send groups without the scope, so this is a note. */
function groupFindings(
  finding: FindingFactory,
  provider: ProviderSettings,
  metadata: Metadata,
  settings: Settings,
): Finding[] {
  const { groupsClaim: scope } = provider;
  const isOffered = [metadata.scopes_supported].flat().includes(scope);
  const isRequested = requestedScopes(provider, metadata).includes(scope);
  if (!claimsInRules(settings, provider).includes('groups') || !isOffered || isRequested) return [];
  const note = finding.note({
    what: `rules use groups, but the scope ${scope}, which the identity provider offers, is not requested`,
    why: 'people may arrive without groups, so that these rules match nobody',
    remedy: `sign in, and read the groups that arrived in the log (“a person signed in with these claims”); if there are none, add ${scope} to scopes`,
  });
  return [note];
}

/** A provider may support values and claims that it does not list, but then approvals may fail. */
function stepUpFindings(
  finding: FindingFactory,
  { stepUp }: ProviderSettings,
  { acr_values_supported: classes, claims_supported: claims }: Metadata,
): Finding[] {
  if (!stepUp) return [];
  const { levels, maxAge, acrValues = [] } = stepUp;
  const needed = [...(maxAge === undefined ? [] : ['auth_time']), ...(acrValues[0] ? ['acr'] : [])];
  const lacking = (names: string[], listed: unknown) =>
    Array.isArray(listed) ? names.filter((name) => !listed.includes(name)) : [];
  const [missingClaims, missingClasses] = [lacking(needed, claims), lacking(acrValues, classes)];
  const noClaims = finding.warning({
    what: `the identity provider does not list the claim ${missingClaims.join(', ')}`,
    why: `stepUp needs it in ID tokens: without it, nobody can approve ${levels.join(', ')}`,
    remedy: 'add the claim to the ID tokens of this client at the provider, or change stepUp',
  });
  const noClasses = finding.warning({
    what: `the identity provider does not offer the acr value ${missingClasses.join(', ')}`,
    why: `a sign-in of another class does not approve ${levels.join(', ')}`,
    remedy: `set acrValues of stepUp to values that it offers: ${[classes].flat().join(', ')}`,
  });
  return [
    ...(missingClaims.length > 0 ? [noClaims] : []),
    ...(missingClasses.length > 0 ? [noClasses] : []),
  ];
}

/** Reports providers that approve without step-up what others approve only with it. */
function unequalStepUp(providers: readonly ProviderSettings[]): Finding[] {
  const levels = [...new Set(providers.flatMap(({ stepUp }) => stepUp?.levels ?? []))];
  if (levels.length === 0) return [];
  return providers
    .filter(({ stepUp }) => !stepUp)
    .map(({ id, issuer }) =>
      findingAbout('step-up', issuer).note({
        what: `people who sign in at ${id} approve ${levels.join(', ')} without a step-up sign-in, which another identity provider requires`,
        why: 'stepUp applies only to the provider that has it',
        remedy: `set stepUp of ${id} (not possible for GitHub), or give these levels only to people of other providers (provider in entitlements)`,
      }),
    );
}

/** Whether the provider sends logout tokens (OpenID Connect Back-Channel Logout 1.0 section 2.1). It does not say to which addresses. */
function logoutFindings(
  finding: FindingFactory,
  { listed, id, backchannelLogout }: ProviderSettings,
  { backchannel_logout_supported: isSupported }: Metadata,
  authUrl: string,
): Finding[] {
  const address = pathOfProvider(authUrl + LOGOUT_PATH, listed ? id : undefined);
  if (isSupported === true)
    return [finding.ok(`the identity provider can send logout tokens: register ${address} there`)];
  if (backchannelLogout === 'sessions') return [];
  const warning = finding.warning({
    what: 'the identity provider does not announce back-channel logout',
    why: 'backchannelLogout: connections has no effect; people who are signed out or leave keep their connections',
    remedy: `if the provider can send logout tokens, register ${address} there; otherwise remove backchannelLogout`,
  });
  return [warning];
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

async function checkRegistration(
  deployment: ConfiguredDeployment,
  settings: ProviderSettings,
): Promise<Finding[]> {
  const [callback = '', ...others] = callbacksOf(deployment.settings).map((path) =>
    providerCallback(settings, path),
  );
  const provider = openIdentityProvider(settings, callback);
  const findings = [await checkCallback(deployment, provider, callback)];
  for (const other of others)
    findings.push(await checkCallback(deployment, openIdentityProvider(settings, other), other));
  return [...findings, await checkClient(provider, settings)];
}

/** The console has a callback of its own, if it is on. */
function callbacksOf({ authUrl, managementUrl, management }: Settings): string[] {
  const isConsoleOn = management.administrators.length > 0;
  return [authUrl + CALLBACK_PATH, ...(isConsoleOn ? [managementUrl + CONSOLE_CALLBACK_PATH] : [])];
}

async function checkCallback(
  { sendVerified }: ConfiguredDeployment,
  provider: IdentityProvider,
  callback: string,
): Promise<Finding> {
  const finding = findingAbout('callback', callback);
  try {
    const url = await provider.authorizationUrl(createLoginState('doctor'));
    url.searchParams.set('prompt', 'none');
    return callbackFinding(finding, callback, await sendVerified(url.href));
  } catch (error) {
    const isUnreachable = error instanceof NoResponseError;
    const reason = isUnreachable ? error.message : rootMessage(error);
    return finding.problem({
      what: `the sign-in page of the identity provider cannot be reached: ${reason}`,
      why: NO_SIGN_IN,
      remedy: (isUnreachable ? error.remedy : undefined) ?? PROVIDER_DOWN,
    });
  }
}

function callbackFinding(
  finding: FindingFactory,
  callback: string,
  response: HttpResponse,
): Finding {
  const target = URL.parse(response.header('location') ?? '');
  const isCallback = target !== null && target.origin + target.pathname === callback;
  const error = target?.searchParams.get('error') ?? '';
  if (isCallback && (error === '' || ACCEPTED.test(error)))
    return finding.ok('the callback is registered at the identity provider');
  if (isCallback)
    return refused(finding, error, target.searchParams.get('error_description') ?? '');
  const text = `${response.text} ${target?.href ?? ''} ${googleError(target)}`;
  const refusedScope = MISMATCH.test(text) ? undefined : SCOPE.exec(text)?.[0];
  if (response.status >= 400 && refusedScope !== undefined)
    return refused(finding, 'invalid_scope', `its page says “${refusedScope}”`);
  if (response.status >= 400 || MISMATCH.test(text))
    return unregistered(finding, callback, response, MISMATCH.exec(text)?.[0]);
  return finding.ok('the identity provider does not appear to refuse the callback');
}

/** Google redirects to its own error page, with the error in base64 in the query. */
function googleError(target: URL | null): string {
  return Buffer.from(target?.searchParams.get('authError') ?? '', 'base64').toString('latin1');
}

function refused(finding: FindingFactory, error: string, description: string): Finding {
  return finding.problem({
    what: `the identity provider refuses sign-ins: ${printable(`${error} ${description}`, 300)}`,
    why: NO_SIGN_IN,
    remedy:
      REMEDIES[error] ??
      'compare the registration of this client with identityProvider (clientId, scopes); its type must be a web application with the authorization code flow',
  });
}

function unregistered(
  finding: FindingFactory,
  callback: string,
  response: HttpResponse,
  error: string | undefined,
): Finding {
  const answer = error ? `it says “${error}”` : describeResponse(response);
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
