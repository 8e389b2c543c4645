// Which level a person may hold, by the rules of the settings against what the identity provider said last.
import { isAtLeast, type Level } from '../permission-level.ts';
import type { Entitlement, Match } from '../settings/entitlements.ts';
import { type Account, isOfIssuer } from './account.ts';

/** The highest level of the rules that match; undefined when none does or the person is disabled. */
export function entitledLevel(account: Account, rules: readonly Entitlement[]): Level | undefined {
  if (account.disabledAt !== undefined) return undefined;
  return rules
    .filter((rule) => matches(account, rule.match))
    .map((rule) => rule.level)
    .reduce<Level | undefined>(
      (high, level) => (high && isAtLeast(high, level) ? high : level),
      undefined,
    );
}

/** An e-mail address counts only when the identity provider says that it was verified. */
function matches(account: Account, match: Match): boolean {
  const { subject, email, emailVerified, groups } = account;
  if (match.issuer !== undefined && !isOfIssuer(account, match.issuer)) return false;
  if (match.anyone) return true;
  if (match.subject !== undefined) return match.subject === subject;
  if (match.group !== undefined) return groups.includes(match.group);
  const verified = emailVerified ? email?.toLowerCase() : undefined;
  if (verified === undefined) return false;
  if (match.email !== undefined) return verified === match.email.toLowerCase();
  return (
    match.emailDomain !== undefined &&
    verified.split('@').at(-1) === match.emailDomain.toLowerCase()
  );
}

/** Whether one of the rules that name administrators fits a person. */
export function isAdministrator(account: Account, administrators: readonly Match[]): boolean {
  return administrators.some((match) => matches(account, match));
}
