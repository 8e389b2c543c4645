import { type JWK, calculateJwkThumbprint, exportJWK, generateKeyPair } from 'jose';
import {
  type Configuration,
  type KoaContextWithOIDC,
  Provider,
  errors,
  interactionPolicy,
} from 'oidc-provider';
import type { Pages } from '../../pages/pages.ts';
import type { DevelopmentPerson } from '../../people/account.ts';
import { requestContext } from '../../http/request-context.ts';
import { identityProviderSettings } from '../../sign-in/provider.ts';
import type { CookieSignatures } from '../../keys/cookie-signatures.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Store } from '../../store/store.ts';
import { storeAdapter } from './adapter.ts';
import { renderEngineError } from './error-page.ts';

export type IdpSettings = NonNullable<Settings['developmentIdp']>;

export type EngineOptions = {
  redirectUris: string[];
  cookieKeys: CookieSignatures;
  signingKey: JWK;
  store: Store;
  pages: Pages;
  /** Seconds since the epoch. */
  now: () => number;
};

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const LIFETIMES = {
  AccessToken: HOUR,
  AuthorizationCode: MINUTE,
  Grant: HOUR,
  IdToken: HOUR,
  Interaction: HOUR,
  Session: 14 * DAY,
};
/** The supported scopes, with their claims (OpenID Connect Core 1.0 section 5.1). */
const CLAIMS_BY_SCOPE = {
  openid: ['sub'],
  profile: ['name'],
  email: ['email', 'email_verified'],
  groups: ['groups'],
};
const SCOPES = Object.keys(CLAIMS_BY_SCOPE);

const OFF = { enabled: false };
/** Switches off what the engine enables by default. */
const FEATURES = {
  devInteractions: OFF,
  dPoP: OFF,
  pushedAuthorizationRequests: OFF,
  resourceIndicators: OFF,
  rpInitiatedLogout: OFF,
  userinfo: OFF,
};

export function createEngine(
  settings: Settings,
  idp: IdpSettings,
  options: EngineOptions,
): Provider {
  const engine = new Provider(idp.url, configuration(settings, idp, options));
  engine.on('authorization.error', logFailure);
  engine.on('grant.error', logFailure);
  engine.on('server_error', logFailure);
  return engine;
}

function configuration(
  settings: Settings,
  { people, stepUp }: IdpSettings,
  options: EngineOptions,
): Configuration {
  return {
    adapter: (model: string) => storeAdapter(options.store, model, options.now),
    jwks: { keys: [options.signingKey] },
    clients: [clientMetadata(settings, options)],
    findAccount: (_ctx, id) => findAccount(people, id),
    claims: CLAIMS_BY_SCOPE,
    scopes: SCOPES,
    acrValues: stepUp?.acrValues ?? [],
    discovery: { ui_locales_supported: [...options.pages.languages] },
    // Put all claims into the ID token, because the authorization server does not request userinfo.
    conformIdTokenClaims: false,
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post'],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
    cookies: cookies(options.cookieKeys),
    features: FEATURES,
    clientBasedCORS: () => false,
    expiresWithSession: () => false,
    interactions: { policy: signInPolicy(stepUp), url: (_ctx, { uid }) => `/interaction/${uid}` },
    loadExistingGrant,
    renderError: renderEngineError(options.pages),
    ttl: LIFETIMES,
  };
}

function clientMetadata(settings: Settings, { redirectUris, signingKey }: EngineOptions) {
  const [provider] = identityProviderSettings(settings);
  return {
    client_id: String(provider?.clientId),
    client_secret: String(provider?.clientSecret),
    redirect_uris: redirectUris,
    id_token_signed_response_alg: signingKey.alg as 'ES256',
    response_types: ['code' as const],
    grant_types: ['authorization_code'],
  };
}

/** The names differ from those of other engines, because all ports of a host share cookies (RFC 6265 section 8.5). */
function cookies(keys: CookieSignatures): Configuration['cookies'] {
  const options = { signed: true, httpOnly: true, sameSite: 'lax' } as const;
  return {
    keys,
    names: {
      session: 'development_idp_session',
      interaction: 'development_idp_interaction',
      resume: 'development_idp_resume',
    },
    long: options,
    short: options,
  };
}

async function findAccount(people: readonly DevelopmentPerson[], id: string) {
  const person = people.find((candidate) => candidate.id === id);
  return person && { accountId: person.id, claims: () => claimsOf(person) };
}

function claimsOf({ id, name, email, groups }: DevelopmentPerson) {
  return { sub: id, name, email, email_verified: true, groups };
}

function signInPolicy(stepUp: IdpSettings['stepUp']) {
  const { Check, Prompt, base } = interactionPolicy;
  const policy = base();
  policy.add(new Prompt({ name: 'select_account', requestable: true }), 0);
  // A session outlives the removal of its person from the settings.
  const isUnknown = ({ oidc }: KoaContextWithOIDC) => oidc.account === undefined;
  policy.get('login')?.checks.add(new Check('person_unknown', 'the person is unknown', isUnknown));
  const isOfOtherClass = ({ oidc }: KoaContextWithOIDC) => {
    const requested = String(oidc.params?.acr_values ?? '').split(' ');
    const known = requested.filter((value) => stepUp?.acrValues?.includes(value));
    return known.length > 0 && !known.includes(String(oidc.acr));
  };
  policy.get('login')?.checks.add(new Check('other_class', 'other acr', isOfOtherClass));
  return policy;
}

/** Signing in is consent: every request gets a new grant with all scopes. */
async function loadExistingGrant({ oidc }: KoaContextWithOIDC) {
  if (!oidc.account || !oidc.client) return undefined;
  const { accountId } = oidc.account;
  const grant = new oidc.provider.Grant({ accountId, clientId: oidc.client.clientId });
  grant.addOIDCScope(SCOPES.join(' '));
  await grant.save();
  return grant;
}

/** Adds the error, which the engine answers itself, to the log line of the request. */
function logFailure(ctx: KoaContextWithOIDC, error: Error): void {
  const code = error instanceof errors.OIDCProviderError ? error.error : 'server_error';
  requestContext(ctx).failure = { code, ...(code === 'server_error' ? { cause: error } : {}) };
}

const SIGNING_KEY = 'development-signing-key:current';
/** A key takes less than a millisecond to generate; one of RSA takes a tenth of a second. */
const ALGORITHM = 'ES256';

/** Returns the private key from the store, or generates it. Processes that start at the same time get the same key. */
export async function loadSigningKey(store: Store): Promise<JWK> {
  const stored = await store.get<JWK>(SIGNING_KEY);
  if (stored) return stored.value;
  const generated = await generateSigningKey();
  if (await store.add(SIGNING_KEY, generated, Infinity)) return generated;
  const first = await store.get<JWK>(SIGNING_KEY);
  if (!first) throw new Error('the signing key of the development identity provider was deleted');
  return first.value;
}

async function generateSigningKey(): Promise<JWK> {
  const { privateKey } = await generateKeyPair(ALGORITHM, { extractable: true });
  const jwk = await exportJWK(privateKey);
  return { ...jwk, kid: await calculateJwkThumbprint(jwk), alg: ALGORITHM, use: 'sig' };
}
