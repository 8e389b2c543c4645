import * as openid from 'openid-client';
import { normalizeEmail, type Identity } from '../people/account.ts';
import type { Authentication } from '../people/step-up.ts';
import { HttpError } from '../http/errors.ts';
import { domainOf } from '../settings/entitlements.ts';
import {
  type IdentityProvider as IdentityProviderSettings,
  storesToken,
} from '../settings/identity-provider.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import type { Settings } from '../settings/settings.ts';
import { deriveKey } from '../store/key-derivation.ts';
import type { ClaimNotice } from './claim-notices.ts';
import type { UsedClaim } from './claims.ts';
import type { ClientCheck } from './client-check.ts';
import { openGithub } from './github.ts';
import type { LogoutToken } from './logout-token.ts';
import { openOpenidProvider } from './openid-connect.ts';

/** Values that a response must match. Stored for one browser and used once. */
export type LoginState = { state: string; nonce: string; verifier: string };

/** `login` forces reauthentication; `switch` asks for another account; `step-up` requests what `stepUp` of the provider requires. */
export type LoginPrompt = 'login' | 'switch' | 'step-up';

export type LoginParameters = {
  prompt?: LoginPrompt;
  uiLocales?: string;
  loginHint?: string;
  /** What the provider wants before it exchanges a token, as it wrote it (OpenID Connect Core section 5.5). */
  claims?: string;
};

/**
 * `sid` is the id of the person's session at the provider (OpenID Connect Front-Channel Logout 1.0 section 3). `recheckToken` is what a recheck
 * needs: the refresh token or, with GitHub, the access token. Absent if the provider issued none.
 */
export type SignedInIdentity = Identity & {
  sid?: string;
  recheckToken?: string;
  authentication?: Authentication;
  notices?: readonly ClaimNotice[];
};

/** `ended`: the provider no longer accepts the token (`invalid_grant`). `sign-in`: it needs the person. */
export type RecheckAnswer =
  { identity: Identity; notices?: readonly ClaimNotice[] } | 'ended' | 'sign-in';

/** `keep` stores the token that the provider rotated to. It is called before anything else is validated or fetched. */
export type RecheckRequest = {
  token: string;
  /** As the provider last described the person. */
  person: Identity;
  keep: (token: string) => Promise<void>;
};

/** The protocol of one kind of provider. */
export type ProtocolClient = {
  /** Returns the URL of the authentication request. */
  authorizationUrl: (loginState: LoginState, parameters?: LoginParameters) => Promise<URL>;
  /** Exchanges the code in the callback's query for the person's identity. Rejects with an HttpError. */
  identify: (query: string, loginState: LoginState) => Promise<SignedInIdentity>;
  /** Validates a logout token. Rejects with an HttpError. Undefined if the protocol has none. */
  verifyLogoutToken?: (token: string, now: number) => Promise<LogoutToken>;
  /** Fetches the person's claims again. Rejects if the provider gives no valid answer about this person. */
  recheck: (request: RecheckRequest) => Promise<RecheckAnswer>;
  /** Checks whether the provider accepts Gatehouse as a client. Never rejects. */
  checkClient: () => Promise<ClientCheck>;
};

export type IdentityProvider = ProtocolClient & {
  /** `identityProvider.id`. */
  settingsId: string;
  /** The same, set if several providers are configured. */
  id?: string;
  name?: string;
  issuer: string;
  /** In lower case. */
  emailDomains: readonly string[];
  /** What a logout token ends besides sessions. */
  backchannelLogout: IdentityProviderSettings['backchannelLogout'];
  /** Seconds. Undefined: off. */
  recheckInterval?: number;
  /** Whether the token of a person there is stored. */
  storesToken: boolean;
};

/** Never empty. Each provider of a list has an id; a single one has none. */
export type IdentityProviders = readonly IdentityProvider[];

/**
 * Opens the configured providers. Each has its own callback URL, which prevents mix-up attacks (RFC 9700 section 4.4.2.2). `callbackUrl` is
 * the callback of a single provider; those of a list append their id.
 */
export function openIdentityProviders(settings: Settings, callbackUrl: string): IdentityProviders {
  return identityProviderSettings(settings).map((provider) =>
    openIdentityProvider(
      provider,
      providerCallback(provider, callbackUrl),
      claimsInRules(settings, provider),
    ),
  );
}

/** What a rule of the settings, or an audience about addresses, cannot do without. */
export function claimsInRules(
  { entitlements, management }: Settings,
  { issuer }: IdentityProviderSettings,
): UsedClaim[] {
  const rules = [...entitlements.map(({ match }) => match), ...management.administrators].filter(
    ({ from }) => from.via === 'sign-in' && from.issuers.includes(issuer),
  );
  const areAboutGroups = rules.some(({ group }) => group !== undefined);
  const areAboutAddresses = rules.some((match) => domainOf(match) !== undefined);
  return [
    'email',
    ...(areAboutAddresses ? (['email_verified'] as const) : []),
    ...(areAboutGroups ? (['groups'] as const) : []),
  ];
}

export function openIdentityProvider(
  settings: IdentityProviderSettings,
  callbackUrl: string,
  rulesUse: readonly UsedClaim[] = ['email', 'email_verified', 'groups'],
): IdentityProvider {
  const { id, listed, name, issuer, emailDomains, backchannelLogout, kind, recheck } = settings;
  const open = kind === 'github' ? openGithub : openOpenidProvider;
  return {
    settingsId: id,
    ...(listed ? { id } : {}),
    ...(name === undefined ? {} : { name }),
    issuer,
    emailDomains,
    backchannelLogout,
    storesToken: storesToken(settings),
    ...(recheck === undefined ? {} : { recheckInterval: recheck }),
    ...open(settings, callbackUrl, rulesUse),
  };
}

/** Adds the client secret of the embedded provider, which both sides derive. */
export function identityProviderSettings({
  identityProviders,
  secret,
}: Pick<Settings, 'identityProviders' | 'secret'>): IdentityProviderSettings[] {
  return identityProviders.map((provider) =>
    provider.embedded ? { ...provider, clientSecret: embeddedSecret(secret) } : provider,
  );
}

function embeddedSecret(secret: string): string {
  return deriveKey(secret, 'development identity provider').toString('base64url');
}

/** Returns the redirect URI of a provider; `callbackUrl` is that of a single one. */
export function providerCallback(
  { listed, id }: Pick<IdentityProviderSettings, 'listed' | 'id'>,
  callbackUrl: string,
): string {
  return pathOfProvider(callbackUrl, listed ? id : undefined);
}

/** Returns `<path>/<id>`, or `path` for a single provider. */
export function pathOfProvider(path: string, id: string | undefined): string {
  return id === undefined ? path : `${path}/${id}`;
}

/** Throws 404 if no provider has this id. */
export function requireProvider(
  providers: IdentityProviders,
  id: string | undefined,
): IdentityProvider {
  const provider = providers.find((candidate) => candidate.id === id);
  if (provider) return provider;
  throw new HttpError(404, 'not_found', 'there is no identity provider with this id');
}

/** Returns the only provider, or the one that the login hint's email domain selects. */
export function findDefaultProvider(
  providers: IdentityProviders,
  loginHint: string | undefined,
): IdentityProvider | undefined {
  return providers.length === 1 ? providers[0] : findProviderForEmail(providers, loginHint);
}

/** Finds the provider whose `emailDomains` contain the domain of the email address. */
export function findProviderForEmail(
  providers: IdentityProviders,
  address = '',
): IdentityProvider | undefined {
  const [, domain] = /@([^@]+)$/.exec(normalizeEmail(address)) ?? [];
  return domain === undefined
    ? undefined
    : providers.find(({ emailDomains }) => emailDomains.includes(domain));
}

/** Returns the provider's display name; undefined if it has none or is no longer configured. */
export function providerName(
  providers: IdentityProviders,
  { issuer, providerIssuer = issuer }: Pick<Identity, 'issuer' | 'providerIssuer'>,
): string | undefined {
  return providers.find((provider) => isSameIssuer(providerIssuer, provider.issuer))?.name;
}

/** `uid` becomes the first part of `state`. */
export function createLoginState(uid?: string): LoginState {
  const state = openid.randomState();
  return {
    state: uid === undefined ? state : `${uid}.${state}`,
    nonce: openid.randomNonce(),
    verifier: openid.randomPKCECodeVerifier(),
  };
}
