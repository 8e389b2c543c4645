// Lifetimes of grants and their records. Pure: no I/O.
import {
  CODE_GRACE_SECONDS,
  type GrantRecord,
  lastUseOf,
  REFRESH_GRACE_SECONDS,
} from './grant-record.ts';
import type { Reason } from './reasons.ts';

/** In seconds. */
export type Lifetimes = {
  refreshGrace: number;
  codeGrace: number;
  refreshIdle: number;
  /** From approval to the code, which is one redirect. */
  pending: number;
  code: number;
  accessToken: number;
};

export function grantLifetimes(settings: {
  accessToken: number;
  refreshTokenIdle: number;
}): Lifetimes {
  return {
    refreshGrace: REFRESH_GRACE_SECONDS,
    codeGrace: CODE_GRACE_SECONDS,
    refreshIdle: settings.refreshTokenIdle,
    pending: 45,
    code: 60,
    accessToken: settings.accessToken,
  };
}

/** Seconds after approval until the code is exchanged or expired, with a margin for an exchange in progress. */
export function redemptionDeadline({ pending, code }: Lifetimes): number {
  return pending + code + 2 * CODE_MARGIN_SECONDS;
}

const CODE_MARGIN_SECONDS = 5;
/** How long an ended grant keeps its reason. */
export const TOMBSTONE_SECONDS = 30 * 86_400;

/** When the current refresh token expires: idle since its issue, at most until the grant expires. */
export function refreshExpiry(record: GrantRecord, idle: number): number {
  return Math.min(Math.floor((lastUseOf(record) ?? 0) + idle), record.grant.exp);
}

/** When everything under the grant has expired, unless the client renews it before. Seconds since the epoch. */
export function validUntil(
  record: GrantRecord,
  { refreshIdle, pending, accessToken }: Lifetimes,
): number {
  const { code, grant, createdAt, machine } = record;
  if (machine) return grant.exp;
  if (isRenewable(record)) return refreshExpiry(record, refreshIdle);
  if (code?.usedAt !== undefined) return Math.min(code.usedAt + accessToken, grant.exp);
  return code ? code.payload.exp + CODE_MARGIN_SECONDS : createdAt + pending + 1;
}

/** By a refresh token, an assertion or a machine's credentials. */
function isRenewable({ refresh, vouchedAt, machine }: GrantRecord): boolean {
  return refresh !== undefined || vouchedAt !== undefined || machine !== undefined;
}

export function wasExchanged(record: GrantRecord): boolean {
  return isRenewable(record) || record.code?.usedAt !== undefined;
}

/** Whether the code was exchanged and something under the grant may still be valid. */
export function isActive(record: GrantRecord, lifetimes: Lifetimes, now: number): boolean {
  return wasExchanged(record) && now < validUntil(record, lifetimes);
}

/** Why the grant expired, and when (seconds). Undefined if it has not. */
export function endReason(
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

/** The record's TTL in seconds. It only collects garbage: expiry is read from the record. */
export function timeToLive(record: GrantRecord, lifetimes: Lifetimes, now: number): number {
  const kept = wasExchanged(record) ? TOMBSTONE_SECONDS : 0;
  return Math.max(1, Math.ceil(validUntil(record, lifetimes) + kept - now));
}
