// Reads the claims about a person, at a sign-in and at a recheck: from the ID token and, for those that it lacks, from the UserInfo endpoint
// (OpenID Connect Core sections 5.3 and 5.4). The provider's tokens are not stored or passed on.
import * as openid from 'openid-client';
import {
  emailIn,
  type Identity,
  normalizeEmail,
  personNameIn,
  printableName,
} from '../people/account.ts';
import { claimAt, groupsIn } from '../people/group-claims.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import type { ClaimNotice } from './claim-notices.ts';
import { clientFor, type Discovery } from './discovery.ts';
import { describeFailure, type ProviderError, readProviderError } from './errors.ts';
import { requestWhereItIs } from './oauth-client.ts';

/** A claim that rules or pages use. `email_verified` without an address means nothing, so it is not needed then. */
export type UsedClaim = 'email' | 'email_verified' | 'groups' | 'name';

export type IdentityAnswer = { identity: Identity; notices: ClaimNotice[] };

export type ClaimsRequest = {
  config: openid.Configuration;
  reread: Discovery['reread'];
  accessToken: string;
  /** Of the validated ID token. A refresh may have none (Core section 12.2). */
  idToken: object | undefined;
  person: Pick<Identity, 'issuer' | 'subject'>;
  /** Called when the UserInfo endpoint gave valid claims. */
  onUserInfo: () => void;
  /** Throws if the claims cannot be used without what the UserInfo endpoint did not supply. */
  onFailure: (failure: UserInfoFailure, missing: readonly UsedClaim[]) => void;
};

type Claims = Record<string, unknown>;

/** The UserInfo endpoint gave no valid answer about the person. The message has the innermost cause and is for the log. */
export class UserInfoFailure extends Error {
  readonly kind: ProviderError['kind'];
  /** HTTP status of an error response. */
  readonly status: number | undefined;

  constructor(error: ProviderError, cause: unknown) {
    const { kind, status } = error;
    super(`the UserInfo endpoint gave no valid claims: ${describeFailure(error, cause)}`);
    this.name = 'UserInfoFailure';
    this.kind = kind;
    this.status = status;
  }
}

export async function readIdentity(
  settings: IdentityProviderSettings,
  request: ClaimsRequest,
): Promise<IdentityAnswer> {
  const { config, idToken, person, onUserInfo, onFailure } = request;
  const claims = withoutNull(idToken ?? {});
  const missing = missingIn(settings, claims);
  const hasUserInfo = settings.userInfo && config.serverMetadata().userinfo_endpoint !== undefined;
  if (!idToken && !hasUserInfo)
    throw new Error('there is no ID token, and no UserInfo endpoint may be asked');
  if (missing.length === 0 || !hasUserInfo) return answerFrom(settings, person, claims);
  try {
    const userInfo = await fetchUserInfo(settings, request);
    onUserInfo();
    return answerFrom(settings, person, claims, withoutNull(userInfo));
  } catch (cause) {
    const failure = new UserInfoFailure(await readProviderError(cause, settings), cause);
    onFailure(failure, missing);
    const { identity, notices } = answerFrom(settings, person, claims);
    return { identity, notices: [...notices, userInfoNotice(failure, missing)] };
  }
}

function fetchUserInfo(
  settings: IdentityProviderSettings,
  { config, reread, accessToken, person }: ClaimsRequest,
): Promise<object> {
  return requestWhereItIs('userinfo_endpoint', config, reread, (client) =>
    openid.fetchUserInfo(clientFor(client, settings, person), accessToken, person.subject),
  );
}

function missingIn(
  { groupsClaim, emailVerified }: IdentityProviderSettings,
  claims: Claims,
): UsedClaim[] {
  const { email, email_verified: verified, name } = claims;
  const isVerifiedKnown =
    email === undefined || verified !== undefined || emailVerified === 'always';
  return [
    ...(email === undefined ? (['email'] as const) : []),
    ...(isVerifiedKnown ? [] : (['email_verified'] as const)),
    ...(claimAt(claims, groupsClaim) === undefined ? (['groups'] as const) : []),
    ...(name === undefined ? (['name'] as const) : []),
  ];
}

/** Those of the ID token take precedence. `email_verified` is valid only for the address of the same source. */
function mergedClaims(claims: Claims, userInfo: Claims): Claims {
  const { email, email_verified: verified } = claims;
  const isSameAddress = comparable(email ?? userInfo.email) === comparable(userInfo.email);
  const known = email === undefined ? undefined : verified;
  return {
    ...userInfo,
    ...claims,
    email_verified: known ?? (isSameAddress ? userInfo.email_verified : undefined),
  };
}

function comparable(email: unknown): unknown {
  return typeof email === 'string' ? normalizeEmail(email) : email;
}

/** Some providers send null for a claim that they do not have. */
function withoutNull(claims: object): Claims {
  return Object.fromEntries(Object.entries(claims).filter(([, value]) => value !== null));
}

function answerFrom(
  settings: IdentityProviderSettings,
  { issuer, subject }: Pick<Identity, 'issuer' | 'subject'>,
  idToken: Claims,
  userInfo: Claims = {},
): IdentityAnswer {
  const { groupsClaim } = settings;
  const claims = mergedClaims(idToken, userInfo);
  const { name, preferred_username: username } = claims;
  const email = emailIn(claims.email);
  const emailVerified = email !== undefined && isVerified(settings, claims.email_verified);
  const sent = claimAt(idToken, groupsClaim) ?? claimAt(userInfo, groupsClaim);
  const { groups = [], unusable } = groupsIn(sent);
  const areOmitted = sent === undefined && areGroupsOmitted(claims, groupsClaim);
  const display = personNameIn([name, username, email], { email, emailVerified });
  const identity: Identity = {
    issuer,
    subject,
    name: display ?? printableName(subject),
    ...(isSameIssuer(issuer, settings.issuer) ? {} : { providerIssuer: settings.issuer }),
    ...(email === undefined ? {} : { email }),
    emailVerified,
    groups,
    ...(areOmitted ? { groupsOmitted: true } : {}),
  };
  return {
    identity,
    notices: [
      ...(unusable === undefined ? [] : [unusableGroups(groupsClaim, unusable)]),
      ...(areOmitted ? [OMITTED_GROUPS] : []),
      ...(claims.email !== undefined && email === undefined ? [UNUSABLE_EMAIL] : []),
    ],
  };
}

/** An address that the provider says is not verified stays so, and text is no `true`. */
function isVerified({ emailVerified }: IdentityProviderSettings, claim: unknown): boolean {
  if (claim === undefined) return emailVerified === 'always';
  return claim === true;
}

/**
 * Whether the token has a reference to the groups in place of them (distributed claims, Core section 5.6.2), or a mark that there are too many.
 * Reference: https://learn.microsoft.com/en-us/entra/identity-platform/id-token-claims-reference (groups overage claim).
 */
function areGroupsOmitted(claims: Claims, groupsClaim: string): boolean {
  const { _claim_names: references, hasgroups } = claims;
  const isReferred =
    typeof references === 'object' && references !== null && Object.hasOwn(references, groupsClaim);
  return isReferred || hasgroups === true || hasgroups === 'true';
}

const OMITTED_GROUPS: ClaimNotice = {
  what: 'the identity provider left out the groups of a person, who is in too many (groups overage)',
  remedy:
    'let it send fewer: at Microsoft Entra ID, choose “Groups assigned to the application” for the groups claim, or use app roles with groupsClaim: roles',
};

const UNUSABLE_EMAIL: ClaimNotice = {
  what: 'the email claim of a person is not an email address, so it is ignored',
  remedy: 'correct the claim at the identity provider: one address with one @, without spaces',
};

function unusableGroups(groupsClaim: string, unusable: string): ClaimNotice {
  return {
    what: `the claim ${groupsClaim} of a person has ${unusable}: rules about groups may not match`,
    remedy:
      'let the identity provider send a list of names, or set groupsClaim to the claim that has one',
  };
}

function userInfoNotice({ message }: UserInfoFailure, missing: readonly UsedClaim[]): ClaimNotice {
  return {
    what: `the UserInfo endpoint did not supply claims that the ID token lacks: ${missing.join(', ')}`,
    reason: message,
    remedy:
      'if rules use them, add them to the ID token, or allow this client to read the UserInfo endpoint; if not, set userInfo: false of this provider',
  };
}
