// An account: a person as the identity provider described them last, and whether they may still do anything. Pure: no I/O, no clock.
import { createHmac, type KeyObject } from 'node:crypto';
import type { Via } from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';
import { isSameIssuer } from '../settings/value-types.ts';

/** An organization of GitHub. The login can be given up and taken by somebody else; the id never changes. */
export type Organization = { login: string; id: number };

/** What one party asserted about a person. */
export type Claims = {
  name: string;
  email?: string;
  emailVerified: boolean;
  groups: string[];
  /** Only GitHub asserts them. */
  organizations?: Organization[];
};

/** `id` is the `sub` of our tokens. Of the identity provider's tokens nothing else is kept. Times are seconds since the epoch. */
export type Account = Claims & {
  id: string;
  issuer: string;
  subject: string;
  /** The issuer in the settings of the sign-in provider, where its ID tokens have another one (Microsoft's shared endpoints). */
  providerIssuer?: string;
  signedInAt: number;
  /** What a trusted issuer asserted last (ID-JAG). It is kept apart, because it never satisfies the rules about sign-in providers. */
  vouched?: Claims;
  /** The person never signed in: the claims beside this are those of `vouched`, to be shown and not to be judged by. */
  neverSignedIn?: true;
  /** Nothing is granted to this person, and nothing that was granted is honoured, until an administrator enables the account. */
  disabledAt?: number;
  /** The account was forgotten, or disabled and enabled: sign-ins and grants from before this moment stay over. Never goes back. */
  overBefore?: number;
  /** Nothing is known of who this is: issuer, subject, name and groups are empty. */
  forgottenAt?: number;
};

/** A person as a sign-in provider describes them. */
export type Identity = Claims & Pick<Account, 'issuer' | 'subject' | 'providerIssuer'>;

/** 27 characters of A-Za-z0-9_-. */
export const ACCOUNT_ID = /^[\w-]{27}$/;

/** Stable for one person at one identity provider, and tells nobody who that is. Never by e-mail (OpenID Connect Core section 5.7). */
export function accountIdOf(key: KeyObject, issuer: string, subject: string): string {
  return createHmac('sha256', key).update(`${issuer}\n${subject}`).digest('base64url').slice(0, 27);
}

/** Whether the account is one of this identity provider; issuers that differ in the slash after the host are one (RFC 3986 section 6.2.3). */
export function isOfIssuer({ issuer }: Pick<Account, 'issuer'>, other: string): boolean {
  return isSameIssuer(issuer, other);
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
  const { disabledAt, overBefore, vouched } = current ?? {};
  return {
    ...identity,
    signedInAt: Math.floor(now),
    ...(vouched === undefined ? {} : { vouched }),
    ...(disabledAt === undefined ? {} : { disabledAt }),
    ...(overBefore === undefined ? {} : { overBefore }),
  };
}

/** What a trusted issuer asserts about a person; where it asserts nothing, what it asserted before holds. */
export type Testimony = Pick<Identity, 'issuer' | 'subject'> &
  Partial<Pick<Claims, 'name' | 'email' | 'emailVerified' | 'groups'>>;

/** The record after somebody vouched for the person, who did not sign in and is enabled by nobody. */
export function vouchedFor(
  current: Account | undefined,
  { id, issuer, subject, ...said }: Testimony & { id: string },
  now: number,
): Account {
  const { disabledAt, overBefore } = current ?? {};
  const known = current?.forgottenAt === undefined ? current : undefined;
  const nobody = { name: subject, emailVerified: false, groups: [] };
  const vouched = mergedClaims(known?.vouched ?? nobody, said);
  if (known && !known.neverSignedIn) return { ...known, vouched };
  return {
    ...vouched,
    id,
    issuer,
    subject,
    vouched,
    neverSignedIn: true,
    signedInAt: known?.signedInAt ?? Math.floor(now),
    ...(disabledAt === undefined ? {} : { disabledAt }),
    ...(overBefore === undefined ? {} : { overBefore }),
  };
}

function mergedClaims(
  known: Claims,
  { email, emailVerified, ...said }: Omit<Testimony, 'issuer' | 'subject'>,
): Claims {
  // A new address is verified only if the party that asserts it says so.
  const isSame = foldedAddress(known.email ?? '') === foldedAddress(email ?? '');
  const verified = emailVerified ?? (isSame && known.emailVerified);
  return { ...known, ...said, ...(email === undefined ? {} : { email, emailVerified: verified }) };
}

/** What was asserted about the person this way; undefined when nothing was. */
export function claimsVia(account: Account, via: Via): Claims | undefined {
  if (via === 'id-jag') return account.vouched;
  return account.neverSignedIn ? undefined : account;
}

/** A longer address is ignored, because its beginning is another address. */
export const MAX_EMAIL = 320;

/** For comparisons: only ASCII letters lose their case, because other letters can become ASCII ones (the Kelvin sign becomes k). */
export function foldedAddress(address: string): string {
  return address.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
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
