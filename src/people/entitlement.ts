// Evaluates rules about people for an account: entitlements, audiences of connectors, administrators. Pure: no I/O.
import { isAtLeast, type Level } from '../permission-levels.ts';
import {
  type Administrator,
  identitySourcesOf,
  type AudienceRule,
  type Match,
  resolveAudienceRule,
  type Via,
} from '../settings/entitlements.ts';
import { highestRole, type ManagementRole } from '../settings/management-roles.ts';
import type { Settings } from '../settings/settings.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { type Account, type Claims, claimsVia, normalizeEmail } from './account.ts';

/**
 * Returns the highest level of the rules that match. Undefined if none matches or the account is disabled. `via` is how the person
 * authenticated: claims of a trusted issuer never satisfy a rule about a sign-in provider, even for the same account.
 */
export function entitledLevel(
  { levels, entitlements }: Pick<Settings, 'levels' | 'entitlements'>,
  account: Account,
  via: Via,
): Level | undefined {
  if (account.disabledAt !== undefined) return undefined;
  return entitlements
    .filter((rule) => matches(account, rule.match, via))
    .map((rule) => rule.level)
    .reduce<Level | undefined>(
      (high, level) => (high && isAtLeast(levels, high, level) ? high : level),
      undefined,
    );
}

export type ProviderSettings = Pick<Settings, 'identityProviders' | 'authorization'>;
export type AccessSettings = ProviderSettings & Pick<Settings, 'levels' | 'entitlements'>;
type WithAudience = { audience?: readonly AudienceRule[] };

/** What an account may have through a connector: the highest level, or the reason why it gets none. */
export type Access =
  { level: Level; refusal?: never } | { refusal: 'not_entitled' | 'not_in_audience' };

export function accessThrough(
  settings: AccessSettings,
  connector: WithAudience,
  account: Account,
  via: Via,
): Access {
  const level = entitledLevel(settings, account, via);
  if (level === undefined) return { refusal: 'not_entitled' };
  return isInAudience(settings, connector, account, via)
    ? { level }
    : { refusal: 'not_in_audience' };
}

/** A connector without an audience is for everybody. */
export function isInAudience(
  settings: ProviderSettings,
  { audience }: WithAudience,
  account: Account,
  via: Via,
): boolean {
  if (audience === undefined) return true;
  const identitySources = identitySourcesOf(settings);
  return audience.some((rule) => {
    const match = resolveAudienceRule(rule, identitySources);
    return match !== undefined && matches(account, match, via);
  });
}

/** Returns the highest role in the console of the rules that match. Undefined if none matches. */
export function consoleRole(
  account: Account,
  administrators: readonly Administrator[],
): ManagementRole | undefined {
  const rules = administrators.filter((match) => matches(account, match, 'sign-in'));
  return highestRole(rules.map(({ role }) => role));
}

/** Whether a person who signed in has any level or role. */
export function hasAnyAccess(
  settings: Pick<Settings, 'levels' | 'entitlements' | 'management'>,
  account: Account,
): boolean {
  const { administrators } = settings.management;
  return (
    entitledLevel(settings, account, 'sign-in') !== undefined ||
    consoleRole(account, administrators) !== undefined
  );
}

function matches(account: Account, match: Match, via: Via): boolean {
  const claims = claimsVia(account, via);
  const issuer = via === 'sign-in' ? (account.providerIssuer ?? account.issuer) : account.issuer;
  const isAccepted =
    match.from.via === via && match.from.issuers.some((other) => isSameIssuer(issuer, other));
  if (!claims || !isAccepted) return false;
  if (match.anyone) return true;
  if (match.subject !== undefined) return match.subject === account.subject;
  if (match.group !== undefined) return claims.groups.includes(match.group);
  if (match.organization !== undefined) return isMember(claims, match.organization);
  return hasVerifiedEmail(claims, match);
}

/** Compares `login#id` by id, because an old login can be registered by others. */
function isMember({ organizations = [] }: Claims, wanted: string): boolean {
  const [login, id] = wanted.toLowerCase().split('#');
  return organizations.some((organization) =>
    id === undefined ? organization.login.toLowerCase() === login : String(organization.id) === id,
  );
}

function hasVerifiedEmail({ email, emailVerified }: Claims, match: Match): boolean {
  if (!emailVerified || email === undefined) return false;
  const address = normalizeEmail(email);
  if (match.email !== undefined) return address === normalizeEmail(match.email);
  return (
    match.emailDomain !== undefined &&
    address.slice(address.lastIndexOf('@') + 1) === normalizeEmail(match.emailDomain)
  );
}
