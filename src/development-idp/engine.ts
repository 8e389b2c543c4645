// The engine as an OpenID provider for development: the people of the settings, one client, code flow with PKCE (OpenID Connect Core 1.0 section 3.1).
import type { JWK } from 'jose';
import {
  type Configuration,
  type KoaContextWithOIDC,
  Provider,
  errors,
  interactionPolicy,
} from 'oidc-provider';
import type { Pages } from '../pages/pages.ts';
import type { CookieSignatures } from '../keys/cookie-signatures.ts';
import type { Store } from '../store/store.ts';
import { storeAdapter } from './adapter.ts';
import { type Person, CLAIMS_BY_SCOPE, claimsOf } from './person.ts';
import { renderEngineError } from './problem.ts';
import { requestContext } from '../http/request-context.ts';

export type EngineOptions = {
  /** The issuer. */
  url: string;
  people: Person[];
  client: { id: string; secret: string; redirectUris: string[] };
  store: Store;
  cookieKeys: CookieSignatures;
  pages: Pages;
  signingKey: JWK;
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
const SCOPES = Object.keys(CLAIMS_BY_SCOPE);

const OFF = { enabled: false };
/** Everything the engine would serve unasked. */
const FEATURES = {
  devInteractions: OFF,
  dPoP: OFF,
  pushedAuthorizationRequests: OFF,
  resourceIndicators: OFF,
  rpInitiatedLogout: OFF,
  userinfo: OFF,
};

export function createEngine(options: EngineOptions): Provider {
  const engine = new Provider(options.url, configuration(options));
  engine.on('authorization.error', noteForLog);
  engine.on('grant.error', noteForLog);
  engine.on('server_error', noteForLog);
  return engine;
}

function configuration(options: EngineOptions): Configuration {
  return {
    adapter: (model: string) => storeAdapter(options.store, model, options.now),
    jwks: { keys: [options.signingKey] },
    clients: [clientMetadata(options.client)],
    findAccount: (_ctx, id) => findAccount(options.people, id),
    claims: CLAIMS_BY_SCOPE,
    scopes: SCOPES,
    // The authorization server reads the person from the ID token and never asks again.
    conformIdTokenClaims: false,
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic', 'client_secret_post'],
    pkce: { required: () => true },
    allowOmittingSingleRegisteredRedirectUri: false,
    cookies: cookies(options.cookieKeys),
    features: FEATURES,
    clientBasedCORS: () => false,
    expiresWithSession: () => false,
    interactions: { policy: signInPolicy(), url: (_ctx, { uid }) => `/interaction/${uid}` },
    loadExistingGrant,
    renderError: renderEngineError(options.pages),
    ttl: LIFETIMES,
  };
}

function clientMetadata({ id, secret, redirectUris }: EngineOptions['client']) {
  return {
    client_id: id,
    client_secret: secret,
    redirect_uris: redirectUris,
    response_types: ['code' as const],
    grant_types: ['authorization_code'],
  };
}

/** Names of our own, because the ports of one host share their cookies (RFC 6265 section 8.5). */
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

async function findAccount(people: Person[], id: string) {
  const person = people.find((candidate) => candidate.id === id);
  return person && { accountId: person.id, claims: () => claimsOf(person) };
}

function signInPolicy() {
  const { Check, Prompt, base } = interactionPolicy;
  const policy = base();
  policy.add(new Prompt({ name: 'select_account', requestable: true }), 0);
  // A remembered session may be of somebody who was since taken out of the settings.
  const isUnknown = ({ oidc }: KoaContextWithOIDC) => oidc.account === undefined;
  policy.get('login')?.checks.add(new Check('person_unknown', 'the person is unknown', isUnknown));
  return policy;
}

/** Whoever signs in has consented: every request gets a grant of its own for all scopes. */
async function loadExistingGrant({ oidc }: KoaContextWithOIDC) {
  if (!oidc.account || !oidc.client) return undefined;
  const { accountId } = oidc.account;
  const grant = new oidc.provider.Grant({ accountId, clientId: oidc.client.clientId });
  grant.addOIDCScope(SCOPES.join(' '));
  await grant.save();
  return grant;
}

/** The engine answers its errors itself; the log line of the request says why. */
function noteForLog(ctx: KoaContextWithOIDC, error: Error): void {
  const code = error instanceof errors.OIDCProviderError ? error.error : 'server_error';
  requestContext(ctx).failure = { code, ...(code === 'server_error' ? { cause: error } : {}) };
}
