// The account record: a person as the identity provider last described them. Pure: no I/O, no clock.
import { createHmac, type KeyObject } from 'node:crypto';
import type { Via } from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';

/** A GitHub organization. A login can be renamed and registered again by others; the id never changes. */
export type Organization = { login: string; id: number };

/** What one party asserted about a person. */
export type Claims = {
  name: string;
  email?: string;
  emailVerified: boolean;
  groups: string[];
  /** The provider left the groups out, because they are too many for a token (Microsoft Entra ID). */
  groupsOmitted?: true;
  /** Only GitHub asserts them. */
  organizations?: Organization[];
};

/** Asks the identity provider about the person again. Times are seconds since the epoch. */
export type Recheck = {
  /** The provider's refresh token; with GitHub, its access token. Absent if the provider issued none, or needs the person. */
  token?: string;
  /** When the provider last described the person. */
  answeredAt: number;
  /** The one call that asks. Still set if its process was killed. */
  asking?: { by: string; at: number };
  /** When the provider last gave no usable answer. */
  failedAt?: number;
};

/** `id` is the `sub` of our tokens. Times are seconds since the epoch. */
export type Account = Claims & {
  id: string;
  issuer: string;
  subject: string;
  /** The sign-in provider's issuer in the settings, if its ID tokens have another one (Microsoft's shared endpoints). */
  providerIssuer?: string;
  signedInAt: number;
  /** The last claims of a trusted issuer (ID-JAG). Separate, because they never satisfy rules about sign-in providers. */
  vouched?: Claims;
  /** Only a trusted issuer asserted the person. The account's own claims are copies of `vouched`, for display only. */
  neverSignedIn?: true;
  /** While set, the person gets no new grants, and existing sessions, grants and tokens are invalid. */
  disabledAt?: number;
  /** Earlier sign-ins and grants are invalid. Set when the account is forgotten or enabled again; never decreases. */
  overBefore?: number;
  /** Earlier sign-ins are invalid, but not the grants approved in them. Set when the identity provider ends the person's sessions. */
  sessionsOverBefore?: number;
  /** Earlier grants are invalid, but not the sessions in which they were approved. Set when the identity provider ends the person's connections. */
  grantsOverBefore?: number;
  /** Times of sign-ins whose session at the identity provider ended. */
  endedSignIns?: number[];
  /** Why sign-ins and grants before `overBefore` are invalid, unless an administrator ended them. */
  overReason?: 'identity_provider_ended';
  /** Present if the person signed in while `recheck` was on. The only token of the identity provider that is stored. */
  recheck?: Recheck;
  /** Personal data is erased: issuer, subject, name and groups are empty. */
  forgottenAt?: number;
};

/** A person as a sign-in provider describes them. */
export type Identity = Claims & Pick<Account, 'issuer' | 'subject' | 'providerIssuer'>;

/** Characters of A-Za-z0-9_-. */
export const ACCOUNT_ID_LENGTH = 27;
export const ACCOUNT_ID = /^[\w-]{27}$/;

/** Pseudonymous, and stable for one subject of one issuer. Email addresses are not identifiers (OpenID Connect Core section 5.7). */
export function accountIdOf(key: KeyObject, issuer: string, subject: string): string {
  return createHmac('sha256', key).update(`${issuer}\n${subject}`).digest('base64url').slice(0, 27);
}

/** Returns why and since when a grant of this time is invalid, or undefined if it is valid. Times are seconds since the epoch. */
export function grantEnd(account: Account, createdAt: number) {
  const { disabledAt, overBefore = 0, overReason, grantsOverBefore = 0 } = account;
  if (disabledAt !== undefined) return { reason: 'account_disabled', at: disabledAt } as const;
  if (createdAt < overBefore)
    return { reason: overReason ?? 'account_disabled', at: overBefore } as const;
  return createdAt < grantsOverBefore
    ? ({ reason: 'identity_provider_ended', at: grantsOverBefore } as const)
    : undefined;
}

export function isGrantValid(account: Account, createdAt: number): boolean {
  return grantEnd(account, createdAt) === undefined;
}

/** Whether a session that a sign-in of this time (seconds since the epoch) opened is still valid. */
export function isSessionValid(account: Account, signedInAt: number): boolean {
  const { disabledAt, overBefore = 0, sessionsOverBefore = 0, endedSignIns } = account;
  const isEnded = signedInAt < Math.max(overBefore, sessionsOverBefore);
  return disabledAt === undefined && !isEnded && !endedSignIns?.includes(signedInAt);
}

/** Sessions of this second end too, because a sign-in may have preceded. */
export function withSessionsEnded(account: Account, now: number): Account {
  const { sessionsOverBefore = 0, endedSignIns: _, ...others } = account;
  return { ...others, sessionsOverBefore: Math.max(Math.floor(now) + 1, sessionsOverBefore) };
}

/** Grants of this second end too, because an approval may have preceded. */
export function withGrantsEnded(account: Account, now: number): Account {
  const { grantsOverBefore = 0 } = account;
  return { ...account, grantsOverBefore: Math.max(Math.floor(now) + 1, grantsOverBefore) };
}

export const MAX_ENDED_SIGN_INS = 100;

/** Ends the sessions that sign-ins at these times opened. If there are too many to list, ends all sessions. */
export function withSignInsEnded(
  account: Account,
  signIns: readonly number[],
  now: number,
): Account {
  const endedSignIns = [...new Set([...(account.endedSignIns ?? []), ...signIns])];
  const isFull = Math.max(signIns.length, endedSignIns.length) >= MAX_ENDED_SIGN_INS;
  return isFull ? withSessionsEnded(account, now) : { ...account, endedSignIns };
}

/** What an administrator or the identity provider ended. Survives a new sign-in. */
function endedParts({
  disabledAt,
  overBefore,
  overReason,
  sessionsOverBefore,
  grantsOverBefore,
  endedSignIns,
}: Partial<Account>) {
  return {
    ...(disabledAt === undefined ? {} : { disabledAt }),
    ...(overBefore === undefined ? {} : { overBefore }),
    ...(overReason === undefined ? {} : { overReason }),
    ...(sessionsOverBefore === undefined ? {} : { sessionsOverBefore }),
    ...(grantsOverBefore === undefined ? {} : { grantsOverBefore }),
    ...(endedSignIns === undefined ? {} : { endedSignIns }),
  };
}

/** Returns the record after a sign-in. A disabled account stays disabled. */
export function withSignIn(
  current: Account | undefined,
  identity: Identity & { id: string },
  now: number,
): Account {
  const { vouched } = current ?? {};
  return {
    ...identity,
    signedInAt: Math.floor(now),
    ...(vouched === undefined ? {} : { vouched }),
    ...endedParts(current ?? {}),
  };
}

/** The claims that a trusted issuer asserts. Claims that it omits keep their last value. */
export type AssertedIdentity = Pick<Identity, 'issuer' | 'subject'> &
  Partial<Pick<Claims, 'name' | 'email' | 'emailVerified' | 'groups'>>;

/** Returns the record after a trusted issuer asserted the person. A disabled account stays disabled. */
export function withAssertion(
  current: Account | undefined,
  { id, issuer, subject, ...asserted }: AssertedIdentity & { id: string },
  now: number,
): Account {
  const known = current?.forgottenAt === undefined ? current : undefined;
  const unknown = { name: subject, emailVerified: false, groups: [] };
  const vouched = mergedClaims(known?.vouched ?? unknown, asserted);
  if (known && !known.neverSignedIn) return { ...known, vouched };
  return {
    ...vouched,
    id,
    issuer,
    subject,
    vouched,
    neverSignedIn: true,
    signedInAt: known?.signedInAt ?? Math.floor(now),
    ...endedParts(current ?? {}),
  };
}

function mergedClaims(
  known: Claims,
  { email, emailVerified, ...others }: Omit<AssertedIdentity, 'issuer' | 'subject'>,
): Claims {
  // A new address is verified only if the party that asserts it says so.
  const isSame = normalizeEmail(known.email ?? '') === normalizeEmail(email ?? '');
  const verified = emailVerified ?? (isSame && known.emailVerified);
  return {
    ...known,
    ...others,
    ...(email === undefined ? {} : { email, emailVerified: verified }),
  };
}

/** How the person is known: by a sign-in, unless only a trusted issuer ever described them. */
export function viaOfAccount({ neverSignedIn }: Pick<Account, 'neverSignedIn'>): Via {
  return neverSignedIn ? 'id-jag' : 'sign-in';
}

/** Returns the claims that count for this way to authenticate. Undefined if there are none. */
export function claimsVia(account: Account, via: Via): Claims | undefined {
  if (via === 'id-jag') return account.vouched;
  return account.neverSignedIn ? undefined : account;
}

/** Characters. */
export const MAX_EMAIL_LENGTH = 320;
const EMAIL = /^[^@\s\p{C}]+@[^@\s\p{C}]+$/u;

/**
 * Returns the address that a provider asserts. Undefined if it is not one: with several at signs, what belongs to the domain is ambiguous, and a
 * part of a text that is too long is another address.
 */
export function emailIn(asserted: unknown): string | undefined {
  const isAddress =
    typeof asserted === 'string' && asserted.length <= MAX_EMAIL_LENGTH && EMAIL.test(asserted);
  return isAddress ? asserted : undefined;
}

/** Lower-cases ASCII letters only, because others can become ASCII letters (the Kelvin sign becomes k). */
export function normalizeEmail(address: string): string {
  return address.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/** Erases the token of the identity provider. */
export function disabledAccount(account: Account, now: number): Account {
  const { recheck: _, ...rest } = account;
  return { ...rest, disabledAt: Math.floor(now) };
}

/** Sessions and grants of the time before stay invalid, because they may be stolen. */
export function enabledAccount(
  { disabledAt = 0, overBefore = 0, ...account }: Account,
  now: number,
): Account {
  const { overReason: _, ...rest } = account;
  return { ...rest, overBefore: Math.max(Math.floor(now), disabledAt + 1, overBefore + 1) };
}

/** What an account has of a person of whom nothing is known. */
export function noPerson(): Identity {
  return { issuer: '', subject: '', name: '', emailVerified: false, groups: [] };
}

/** Erases personal data. Earlier sessions and grants stay invalid, and a disabled account stays disabled. */
export function forgottenAccount(
  { id, signedInAt, disabledAt, overBefore = 0 }: Account,
  now: number,
): Account {
  return {
    id,
    ...noPerson(),
    signedInAt,
    overBefore: Math.max(Math.floor(now), overBefore) + 1,
    forgottenAt: Math.floor(now),
    ...(disabledAt === undefined ? {} : { disabledAt }),
  };
}

const DAY_SECONDS = 86_400;
/** Longer than a session of the console. */
const MIN_SESSION_SECONDS = DAY_SECONDS / 2;

/** In seconds. No session lasts longer. */
export function sessionLifetime({ lifetimes }: Pick<Settings, 'lifetimes'>): number {
  return Math.max(lifetimes.session, MIN_SESSION_SECONDS);
}

/** In seconds. Longer than every grant that can be made in the session of the last sign-in. */
export function accountLifetime({ lifetimes }: Pick<Settings, 'lifetimes'>): number {
  return lifetimes.refreshTokenAbsolute + lifetimes.session + DAY_SECONDS;
}

const MAX_NAME_LENGTH = 200;
/** Could disguise a name. Joiners are not among them: names of some scripts need them. */
const INVISIBLE = /[\p{Bidi_Control}\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u00AD\u200B\u2060\uFEFF]+/gu;

/** The text on one line, without invisible characters, truncated. */
export function printableName(text: string): string {
  const line = text.replace(/\s+/g, ' ').replace(INVISIBLE, '').trim();
  // A pair of surrogates may have been cut.
  return line.slice(0, MAX_NAME_LENGTH).replace(/\p{Cs}$/u, '');
}

/** Returns the first candidate that is fit to be shown as a name. An email address is one only if it is verified. */
export function personNameIn(
  candidates: readonly unknown[],
  { email, emailVerified }: { email?: string | undefined; emailVerified?: boolean | undefined },
): string | undefined {
  const verified = emailVerified === true ? email : undefined;
  return candidates
    .filter((text) => typeof text === 'string')
    .map(printableName)
    .find((text) => text !== '' && (!looksLikeAddress(text) || text === verified));
}

/** NFKC also finds characters that look like an at sign. */
function looksLikeAddress(text: string): boolean {
  return /\S@\S/.test(text.normalize('NFKC'));
}

export function verifiedEmailOf({
  email,
  emailVerified,
}: Pick<Identity, 'email' | 'emailVerified'>): string | undefined {
  return emailVerified ? email : undefined;
}

export type DevelopmentPerson = NonNullable<Settings['developmentIdp']>['people'][number];

/** The account that the first sign-in with the development identity provider creates. */
export function developmentAccount(
  issuer: string,
  { id, name, email, groups }: DevelopmentPerson,
): Account {
  return { id, issuer, subject: id, name, email, emailVerified: true, groups, signedInAt: 0 };
}
