// Evaluates the entitlement rules of the settings for an account. Pure: no I/O.
import { isAtLeast, type Level } from '../permission-level.ts';
import type { Entitlement, Match, Via } from '../settings/entitlements.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { type Account, type Claims, claimsVia, normalizeEmail } from './account.ts';

/**
 * Returns the highest level of the rules that match. Undefined if none matches or the account is disabled. `via` is how the person
 * authenticated: claims of a trusted issuer never satisfy a rule about a sign-in provider, even for the same account.
 */
export function entitledLevel(
  account: Account,
  rules: readonly Entitlement[],
  via: Via,
): Level | undefined {
  if (account.disabledAt !== undefined) return undefined;
  return rules
    .filter((rule) => matches(account, rule.match, via))
    .map((rule) => rule.level)
    .reduce<Level | undefined>(
      (high, level) => (high && isAtLeast(high, level) ? high : level),
      undefined,
    );
}

export function isAdministrator(account: Account, administrators: readonly Match[]): boolean {
  return administrators.some((match) => matches(account, match, 'sign-in'));
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
