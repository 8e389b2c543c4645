// An account: a person as the identity provider described them last, and whether they may still do anything. Pure: no I/O, no clock.
import { createHmac, type KeyObject } from 'node:crypto';
import type { Settings } from '../settings/settings.ts';

/** `id` is the `sub` of our tokens. Of the identity provider's tokens nothing else is kept. Times are seconds since the epoch. */
export type Account = {
  id: string;
  issuer: string;
  subject: string;
  name: string;
  email?: string;
  emailVerified: boolean;
  groups: string[];
  signedInAt: number;
  /** Nothing is granted to this person, and nothing that was granted is honoured, until an administrator enables the account. */
  disabledAt?: number;
  /** The account was forgotten, or disabled and enabled: sign-ins and grants from before this moment stay over. Never goes back. */
  overBefore?: number;
  /** Nothing is known of who this is: issuer, subject, name and groups are empty. */
  forgottenAt?: number;
};

export type Identity = Omit<
  Account,
  'id' | 'signedInAt' | 'disabledAt' | 'overBefore' | 'forgottenAt'
>;

/** 27 characters of A-Za-z0-9_-. */
export const ACCOUNT_ID = /^[\w-]{27}$/;

/** Stable for one person at one identity provider, and tells nobody who that is. Never by e-mail (OpenID Connect Core section 5.7). */
export function accountIdOf(key: KeyObject, issuer: string, subject: string): string {
  return createHmac('sha256', key).update(`${issuer}\n${subject}`).digest('base64url').slice(0, 27);
}

/** Whether the account is one of this identity provider; issuers that differ in the slash after the host are one (RFC 3986 section 6.2.3). */
export function isOfIssuer({ issuer }: Pick<Account, 'issuer'>, other: string): boolean {
  const normal = (address: string) => URL.parse(address)?.href ?? address;
  return normal(issuer) === normal(other);
}

/** Whether what was signed or granted at a moment (seconds) still counts for this person. */
export function isHonoured({ disabledAt, overBefore = 0 }: Account, madeAt: number): boolean {
  return disabledAt === undefined && madeAt >= overBefore;
}

/** The record after a sign-in, which enables nobody. */
export function signedIn(
  current: Account | undefined,
  identity: Identity & { id: string },
  now: number,
): Account {
  const { disabledAt, overBefore } = current ?? {};
  return {
    ...identity,
    signedInAt: Math.floor(now),
    ...(disabledAt === undefined ? {} : { disabledAt }),
    ...(overBefore === undefined ? {} : { overBefore }),
  };
}

/** What somebody who vouches for a person says of them; where nothing is said, what was known holds. */
export type Testimony = Pick<Identity, 'issuer' | 'subject'> &
  Partial<Omit<Identity, 'issuer' | 'subject'>>;

/** The record after somebody vouched for the person, who did not sign in and is enabled by nobody. */
export function vouchedFor(
  current: Account | undefined,
  { id, email, emailVerified, ...said }: Testimony & { id: string },
  now: number,
): Account {
  const { disabledAt, overBefore } = current ?? {};
  const nobody = {
    name: said.subject,
    emailVerified: false,
    groups: [],
    signedInAt: Math.floor(now),
    ...(disabledAt === undefined ? {} : { disabledAt }),
    ...(overBefore === undefined ? {} : { overBefore }),
  };
  const isKnown = current !== undefined && current.forgottenAt === undefined;
  const known: Omit<Account, 'id' | 'issuer' | 'subject'> = isKnown ? current : nobody;
  // Nothing is known of whether a new address was verified, unless whoever says the address says that too.
  const isSame = email !== undefined && known.email?.toLowerCase() === email.toLowerCase();
  const verified = emailVerified ?? (isSame && known.emailVerified);
  return {
    ...known,
    ...said,
    id,
    ...(email === undefined ? {} : { email, emailVerified: verified }),
  };
}

export function disabled(account: Account, now: number): Account {
  return { ...account, disabledAt: Math.floor(now) };
}

/** Whoever stole a session or a token before must not get it back with the account. */
export function enabled(
  { disabledAt = 0, overBefore = 0, ...account }: Account,
  now: number,
): Account {
  return { ...account, overBefore: Math.max(Math.floor(now), disabledAt + 1, overBefore + 1) };
}

/** What is left of a person: that whatever was theirs stays over, and that they are disabled if they were. */
export function forgotten(
  { id, signedInAt, disabledAt, overBefore = 0 }: Account,
  now: number,
): Account {
  return {
    id,
    issuer: '',
    subject: '',
    name: '',
    emailVerified: false,
    groups: [],
    signedInAt,
    overBefore: Math.max(Math.floor(now), overBefore) + 1,
    forgottenAt: Math.floor(now),
    ...(disabledAt === undefined ? {} : { disabledAt }),
  };
}

const DAY = 86_400;

/** Seconds: longer than anything lives that was granted in the session of the last sign-in. */
export function accountLifetime({ lifetimes }: Pick<Settings, 'lifetimes'>): number {
  return lifetimes.refreshTokenAbsolute + lifetimes.session + DAY;
}
