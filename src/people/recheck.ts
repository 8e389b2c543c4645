// The rules of rechecks, which ask the identity provider about a person again. Pure: no I/O. Times and durations are in seconds.
import type { Settings } from '../settings/settings.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { type Account, type Identity, type Recheck, withSignIn } from './account.ts';

/** After this time, the process that asked is taken for killed. Longer than a recheck lasts, also if its clock is minutes behind. */
export const LEASE_SECONDS = 300;
/** After a recheck without an answer, unless refreshes are refused until there is one. */
export const RETRY_SECONDS = 10;

/** The interval of the provider where the person signs in, in seconds. Undefined if `recheck` is off there. */
export function recheckIntervalOf(
  { identityProviders }: Pick<Settings, 'identityProviders'>,
  { issuer, providerIssuer = issuer }: Account,
): number | undefined {
  return identityProviders.find((provider) => isSameIssuer(provider.issuer, providerIssuer))
    ?.recheck;
}

/** Holds the lease of a call that a sign-in overtook. */
const SIGN_IN = 'sign-in';

type Rechecked = Pick<Account, 'recheck' | 'signedInAt'>;

/** How long ago the provider last described the person. People who signed in before `recheck` was on count from their sign-in. */
export function sinceAnswer({ recheck, signedInAt }: Rechecked, now: number): number {
  return now - (recheck?.answeredAt ?? signedInAt);
}

export function isRecheckDue(account: Rechecked, interval: number, now: number): boolean {
  return sinceAnswer(account, now) >= interval;
}

/** Whether the provider has been silent for so long that refreshes are refused. */
export function isRecheckOverdue(account: Rechecked, interval: number, now: number): boolean {
  return sinceAnswer(account, now) >= 2 * interval;
}

/**
 * Whether a browser session of this sign-in still counts. It ends once the provider has not described the person for the interval, so that
 * somebody who left cannot use an open session: signing in again asks the provider.
 */
export function isSessionRecent(
  settings: Pick<Settings, 'identityProviders'>,
  account: Account,
  signedInAt: number,
  now: number,
): boolean {
  const interval = recheckIntervalOf(settings, account);
  const { recheck } = account;
  const answeredAt = Math.max(signedInAt, recheck?.answeredAt ?? account.signedInAt);
  return interval === undefined || now - answeredAt < interval;
}

/** Whether the person must sign in again, because there is nothing to ask the provider with. */
export function needsSignIn(account: Rechecked, interval: number, now: number): boolean {
  return account.recheck?.token === undefined && isRecheckDue(account, interval, now);
}

/**
 * Adds what a sign-in returned. Some providers issue a refresh token only at the first sign-in, so an earlier one is kept. A call that asks with
 * it at this moment loses its lease, and the next one knows that the token may have been used.
 */
export function withSignInToken(
  account: Account,
  earlier: Recheck | undefined,
  issued: string | undefined,
): Account {
  if (account.disabledAt !== undefined) return account;
  const token = issued ?? earlier?.token;
  const asking = issued === undefined ? earlier?.asking : undefined;
  const recheck = {
    ...(token === undefined ? {} : { token }),
    ...(asking === undefined ? {} : { asking: { ...asking, by: SIGN_IN } }),
    answeredAt: account.signedInAt,
  };
  return { ...account, recheck };
}

/** Acquires the right to ask. Undefined if no recheck is due or possible, or another call asks. */
export function withLease(
  account: Account,
  by: string,
  interval: number,
  now: number,
): Account | undefined {
  const { recheck } = account;
  if (recheck?.token === undefined || !isRecheckDue(account, interval, now)) return undefined;
  const { asking, failedAt = -Infinity } = recheck;
  if (asking && now - asking.at < LEASE_SECONDS) return undefined;
  const isRetry = now - failedAt < RETRY_SECONDS && !isRecheckOverdue(account, interval, now);
  return isRetry ? undefined : { ...account, recheck: { ...recheck, asking: { by, at: now } } };
}

/** Acquires the right to use the token for something else than a recheck. Undefined if there is none, or another call uses it. */
export function withUseLease(account: Account, by: string, now: number): Account | undefined {
  const { recheck } = account;
  if (recheck?.token === undefined) return undefined;
  const { asking } = recheck;
  const isTaken = asking !== undefined && now - asking.at < LEASE_SECONDS;
  return isTaken ? undefined : { ...account, recheck: { ...recheck, asking: { by, at: now } } };
}

/** Releases the lease `by`. Undefined if another call has it, or nobody. */
export function withoutLease(account: Account, by: string): Account | undefined {
  const { recheck } = account;
  if (recheck?.asking?.by !== by) return undefined;
  const { asking: _, ...rest } = recheck;
  return { ...account, recheck: rest };
}

/** Replaces `used` by its successor. Undefined if a newer token is stored, or the token was erased. */
export function withRotatedToken(
  account: Account,
  used: string,
  token: string,
): Account | undefined {
  const { recheck } = account;
  return recheck?.token === used ? { ...account, recheck: { ...recheck, token } } : undefined;
}

/** Replaces the claims. Undefined if the person has signed in, or the token was erased, since the lease `by` was acquired. */
export function withAnswer(
  account: Account,
  by: string,
  identity: Identity,
  now: number,
): Account | undefined {
  const { id, signedInAt, recheck } = account;
  if (recheck?.asking?.by !== by) return undefined;
  const { asking: _asking, failedAt: _failedAt, ...rest } = recheck;
  return {
    ...withSignIn(account, { id, ...identity }, signedInAt),
    recheck: { ...rest, answeredAt: Math.floor(now) },
  };
}

/** Releases the lease `by` without an answer. */
export function withoutAnswer(account: Account, by: string, now: number): Account | undefined {
  const released = withoutLease(account, by);
  return released?.recheck
    ? { ...released, recheck: { ...released.recheck, failedAt: now } }
    : undefined;
}

/** Erases the token, so that the person must sign in. Undefined if a newer token is stored. */
export function withoutToken(account: Account, used: string): Account | undefined {
  const { recheck } = account;
  return recheck?.token === used
    ? { ...account, recheck: { answeredAt: recheck.answeredAt } }
    : undefined;
}

/** Erases the token and ends all sign-ins and grants of the person. */
export function endedByProvider(account: Account, now: number): Account {
  const { recheck: _recheck, overBefore = 0, ...rest } = account;
  return {
    ...rest,
    overBefore: Math.max(Math.floor(now) + 1, overBefore),
    overReason: 'identity_provider_ended',
  };
}
