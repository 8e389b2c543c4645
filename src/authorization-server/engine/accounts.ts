// The people who signed in: keyed by issuer and subject, never by e-mail (OpenID Connect Core section 5.7), and what each may hold.
import { createHmac, type KeyObject } from 'node:crypto';
import { isAtLeast, type Level } from '../../permission-level.ts';
import type { Entitlement } from '../../settings/schema.ts';
import type { Store } from '../../store/store.ts';

/** `id` is the `sub` of our tokens. Of the identity provider's tokens nothing else is kept. */
export type Account = {
  id: string;
  issuer: string;
  subject: string;
  name: string;
  email?: string;
  emailVerified: boolean;
  groups: string[];
  signedInAt: number;
  disabledAt?: number;
};

export type Identity = Omit<Account, 'id' | 'signedInAt' | 'disabledAt'>;

const accountKey = (id: string) => `account:${id}`;

/** Stable for one person at one identity provider, and tells nobody who that is. */
export function accountIdOf(key: KeyObject, issuer: string, subject: string): string {
  return createHmac('sha256', key).update(`${issuer}\n${subject}`).digest('base64url').slice(0, 27);
}

/** Remembers what the identity provider says now; a person who was disabled stays disabled. `ttl` in seconds. */
export async function saveAccount(
  store: Store,
  key: KeyObject,
  identity: Identity,
  { now, ttl }: { now: number; ttl: number },
): Promise<Account> {
  const id = accountIdOf(key, identity.issuer, identity.subject);
  const stored = await store.update<Account>(accountKey(id), (current) => {
    const disabled = current?.disabledAt === undefined ? {} : { disabledAt: current.disabledAt };
    return { value: { id, ...identity, signedInAt: Math.floor(now), ...disabled }, ttl };
  });
  if (!stored) throw new Error('an account that was just written is not there');
  return stored.value;
}

export async function findAccount(store: Store, id: string): Promise<Account | undefined> {
  return (await store.get<Account>(accountKey(id)))?.value;
}

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
function matches(
  { subject, email, emailVerified, groups }: Account,
  match: Entitlement['match'],
): boolean {
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
