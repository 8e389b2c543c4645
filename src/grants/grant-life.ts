// How long a grant and its record live, and why one is over that nobody ended. Pure: no I/O.
import { type GrantRecord, lastUseOf } from './grant-record.ts';
import type { Reason } from './reasons.ts';

/** All in seconds. */
export type Lifetimes = {
  /** How long a turned refresh token still gets the current one: lost replies, and processes that race. */
  refreshGrace: number;
  /** How long a second use of a code is the same request sent twice. */
  codeGrace: number;
  refreshIdle: number;
  /** From approval to the issue of the code, which is one redirect away. */
  pending: number;
  code: number;
  accessToken: number;
};

/** As the settings have them, and what is fixed. */
export function grantLifetimes(settings: {
  accessToken: number;
  refreshTokenIdle: number;
}): Lifetimes {
  return {
    refreshGrace: 60,
    codeGrace: 1,
    refreshIdle: settings.refreshTokenIdle,
    pending: 45,
    code: 60,
    accessToken: settings.accessToken,
  };
}

/** Until the code is either exchanged or beyond use, with room for an exchange that is under way. */
export function unusedAfter({ pending, code }: Lifetimes): number {
  return pending + code + 2 * CODE_MARGIN;
}

const CODE_MARGIN = 5;
/** Seconds for which a grant that is over says why. */
export const REASON_KEPT = 30 * 86_400;

/** When the current refresh token, or what takes its place, stops working: idle since it was made, and never beyond the grant. */
export function refreshExpiry(record: GrantRecord, idle: number): number {
  return Math.min(Math.floor((lastUseOf(record) ?? 0) + idle), record.grant.exp);
}

/** When nothing under the grant is good any more, unless the client comes back before; seconds since the epoch. */
export function validUntil(
  record: GrantRecord,
  { refreshIdle, pending, accessToken }: Lifetimes,
): number {
  const { code, grant, createdAt } = record;
  if (isRenewable(record)) return refreshExpiry(record, refreshIdle);
  if (code?.usedAt !== undefined) return Math.min(code.usedAt + accessToken, grant.exp);
  return code ? code.payload.exp + CODE_MARGIN : createdAt + pending + 1;
}

/** By a refresh token, or by whoever vouched for it. */
function isRenewable({ refresh, vouchedAt }: GrantRecord): boolean {
  return refresh !== undefined || vouchedAt !== undefined;
}

export function wasExchanged(record: GrantRecord): boolean {
  return isRenewable(record) || record.code?.usedAt !== undefined;
}

/** Whether the code was exchanged, and something under the grant may be good still. */
export function stands(record: GrantRecord, lifetimes: Lifetimes, now: number): boolean {
  return wasExchanged(record) && now < validUntil(record, lifetimes);
}

/** Why a record that is there is not good any more; undefined while it is. */
export function overBecause(
  record: GrantRecord,
  lifetimes: Lifetimes,
  now: number,
): { reason: Reason; at: number } | undefined {
  const at = validUntil(record, lifetimes);
  if (now < at) return undefined;
  if (!wasExchanged(record)) return { reason: 'never_used', at };
  if (!isRenewable(record)) return { reason: 'not_renewable', at };
  return { reason: at >= record.grant.exp ? 'absolute' : 'idle', at };
}

/** How long the record must be kept: this only collects garbage, expiry is judged from the record. */
export function timeToLive(record: GrantRecord, lifetimes: Lifetimes, now: number): number {
  const kept = wasExchanged(record) ? REASON_KEPT : 0;
  return Math.max(1, Math.ceil(validUntil(record, lifetimes) + kept - now));
}
