// Which level a person may hold, by the rules of the settings and what was asserted about them last.
import { isAtLeast, type Level } from '../permission-level.ts';
import type { Entitlement, Match, Via } from '../settings/entitlements.ts';
import { type Account, type Claims, claimsVia, foldedAddress, isOfIssuer } from './account.ts';

/**
 * The highest level of the rules that match; undefined when none does or the person is disabled. `via` says how the person came: a rule
 * about a sign-in provider is never met by what a trusted issuer asserts, also when both assert the same account.
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

/** Whether one of the rules that name administrators fits a person who signed in. */
export function isAdministrator(account: Account, administrators: readonly Match[]): boolean {
  return administrators.some((match) => matches(account, match, 'sign-in'));
}

function matches(account: Account, match: Match, via: Via): boolean {
  const claims = claimsVia(account, via);
  const issuer = via === 'sign-in' ? (account.providerIssuer ?? account.issuer) : account.issuer;
  const isAccepted =
    match.from.via === via && match.from.issuers.some((other) => isOfIssuer({ issuer }, other));
  if (!claims || !isAccepted) return false;
  if (match.anyone) return true;
  if (match.subject !== undefined) return match.subject === account.subject;
  if (match.group !== undefined) return claims.groups.includes(match.group);
  if (match.organization !== undefined) return isMember(claims, match.organization);
  return hasAddress(claims, match);
}

/** `login#id` is compared by id, because a login that was given up can be registered by anybody. */
function isMember({ organizations = [] }: Claims, wanted: string): boolean {
  const [login, id] = wanted.toLowerCase().split('#');
  return organizations.some((organization) =>
    id === undefined ? organization.login.toLowerCase() === login : String(organization.id) === id,
  );
}

/** An e-mail address counts only when the provider asserts that it was verified. */
function hasAddress({ email, emailVerified }: Claims, match: Match): boolean {
  if (!emailVerified || email === undefined) return false;
  const address = foldedAddress(email);
  if (match.email !== undefined) return address === foldedAddress(match.email);
  return (
    match.emailDomain !== undefined &&
    address.slice(address.lastIndexOf('@') + 1) === foldedAddress(match.emailDomain)
  );
}
