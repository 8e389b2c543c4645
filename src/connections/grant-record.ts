// The grant record and the rules for its code and refresh tokens (RFC 6749 section 10.4, RFC 9700 section 4.14). Pure: no I/O.
import {
  isAtLeast,
  levelOfScope,
  levelsUpTo,
  type Levels,
  type Level,
  OFFLINE_ACCESS,
} from '../permission-levels.ts';
import type { Via } from '../settings/entitlements.ts';
import type { CallerClaim } from '../settings/schema.ts';
import type { Reason } from './reasons.ts';

/** A stored model of the engine. Opaque except for the members named here. */
export type EnginePayload = Record<string, unknown>;

type GrantPayload = EnginePayload & {
  accountId: string;
  clientId: string;
  exp: number;
  /** The approved scope, or the part that the person has left since. */
  openid?: { scope?: string };
  /** The same scope by resource. There is one resource. */
  resources?: Record<string, string>;
};

/**
 * Consecutive generations that were rotated within a few seconds: the first, the last, and the time of the last. A minute has at most a dozen
 * of these, however often a client refreshes. The last one ends with the parent of the current generation.
 */
export type Rotation = [first: number, last: number, at: number];

export type RefreshState = {
  payload: EnginePayload & { iat: number };
  generation: number;
  /** The rotations. Records have this name. */
  turns: Rotation[];
};

/** Times are seconds since the epoch. `grant.exp` ends the absolute lifetime. */
export type GrantRecord = {
  version: 1;
  /** Part of the MAC of every code and refresh token of this grant. The server key alone cannot forge one. */
  seed: string;
  connector: string;
  client: ClientSnapshot;
  createdAt: number;
  grant: GrantPayload;
  code?: { payload: EnginePayload & { exp: number }; usedAt?: number };
  refresh?: RefreshState;
  /** When the last ID-JAG renewed the grant. Such a grant has no code and no refresh token. */
  vouchedAt?: number;
  /** Set for a machine, which gets access tokens until `grant.exp`. `usedAt`: when it last got one, within a minute. `tools`: what it opens. `calls`: the limit on its calls. */
  machine?: { usedAt?: number; tools?: readonly string[]; calls?: string };
  /** The claims about the person that the server may learn: those that the consent page named. */
  callerClaims?: readonly CallerClaim[];
  /** Revoked access tokens that have not expired: jti to exp. */
  revoked?: Record<string, number>;
  /** The last few refused refreshes that did not end the grant. */
  refusals?: Refusal[];
};

/** `at` in seconds. */
export type Refusal = { reason: Reason; at: number };

/** The client as the consent page showed it. */
export type ClientSnapshot = { name: string; redirectHost: string };

/**
 * Replaces the record of an ended grant and counts as absent. Makes exactly one caller the one that ended the grant, and keeps the reason.
 * Times are seconds.
 */
export type Tombstone = {
  version: 1;
  ended: Reason;
  endedAt: number;
  connector: string;
  client: ClientSnapshot;
  clientId: string;
  accountId: string;
  level?: Level;
  createdAt: number;
  lastUsedAt?: number;
};

export type StoredGrant = GrantRecord | Tombstone;

/** Whether a newer version of Gatehouse wrote it. */
export function isNewer({ version }: { version: number }): boolean {
  return version > 1;
}

export function isLive(stored: StoredGrant | undefined): stored is GrantRecord {
  return stored !== undefined && !('ended' in stored);
}

/** Whether a trusted issuer asserted the person (ID-JAG) instead of a sign-in. */
export function isAsserted(stored: StoredGrant): boolean {
  return isLive(stored) && stored.vouchedAt !== undefined;
}

/** How the person was identified for it. */
export function viaOf(stored: StoredGrant): Via {
  return isAsserted(stored) ? 'id-jag' : 'sign-in';
}

/** When the client last got tokens, in seconds. Undefined before the code is exchanged. */
export function lastUseOf({ code, refresh, vouchedAt, machine }: GrantRecord): number | undefined {
  return (
    refresh?.turns.at(-1)?.[2] ??
    refresh?.payload.iat ??
    code?.usedAt ??
    vouchedAt ??
    machine?.usedAt
  );
}

export function tombstoneOf(record: GrantRecord, reason: Reason, now: number): Tombstone {
  const { connector, client, grant, createdAt } = record;
  const level = grantedLevel(record);
  const lastUsedAt = lastUseOf(record);
  return {
    version: 1,
    ended: reason,
    endedAt: Math.floor(now),
    connector,
    client,
    clientId: grant.clientId,
    accountId: grant.accountId,
    ...(level === undefined ? {} : { level }),
    createdAt,
    ...(lastUsedAt === undefined ? {} : { lastUsedAt: Math.floor(lastUsedAt) }),
  };
}

/**
 * The level that the grant allows now. Tokens issued before it was lowered may have a higher one. It may no longer be in the settings.
 */
export function grantedLevel({ grant }: GrantRecord): Level | undefined {
  return levelOfScope(grant.openid?.scope);
}

/** Whether the grant includes a refresh token. */
export function grantsRefresh({ grant }: GrantRecord): boolean {
  return (grant.openid?.scope ?? '').split(' ').includes(OFFLINE_ACCESS);
}

/** Whether the grant allows a token of this level now. */
export function allowsLevel(levels: Levels, record: GrantRecord, level: Level): boolean {
  const granted = grantedLevel(record);
  return granted !== undefined && isAtLeast(levels, granted, level);
}

/** For this long a rotated refresh token still gets the current one: lost responses, concurrent refreshes. */
export const REFRESH_GRACE_SECONDS = 60;
/** For this long a second use of a code counts as the same request sent twice. */
export const CODE_GRACE_SECONDS = 1;
const ROTATION_MERGE_SECONDS = 5;
const MAX_REVOKED = 50;
const MAX_REFUSALS = 5;
const REFUSAL_INTERVAL_SECONDS = 3600;

/**
 * `current`: the newest generation. `repeat`: rotated within the grace, with a tolerance of a few seconds. `late`: the parent of the current
 * token, which was never used. `lost`: newer than the record, so the store lost an acknowledged write. `replay`: anything else.
 */
export type PresentedToken = 'current' | 'repeat' | 'late' | 'lost' | 'replay';

export function classifyRefreshToken(
  { generation, turns: rotations }: RefreshState,
  presented: number,
  now: number,
  grace: number,
): PresentedToken {
  if (presented === generation) return 'current';
  if (presented > generation) return 'lost';
  const among = rotations.find(([first, last]) => first <= presented && presented <= last);
  if (!among) return 'replay';
  if (now - among[2] < grace) return 'repeat';
  return rotations.at(-1)?.[1] === presented ? 'late' : 'replay';
}

/** Returns the record with a new current generation, whose parent is `presented`. */
export function rotate(
  record: GrantRecord,
  refresh: RefreshState,
  presented: number,
  now: number,
  grace: number,
): GrantRecord {
  const { code, ...rest } = withoutExpiredRevocations(record, now);
  const keepsCode = code?.usedAt !== undefined && now - code.usedAt <= grace;
  const recent = refresh.turns.filter(([, , at]) => now - at < grace);
  // Clients may still repeat the generations that the store lost.
  const first = Math.min(refresh.generation, presented);
  return {
    ...rest,
    ...(keepsCode ? { code } : {}),
    refresh: {
      payload: refresh.payload,
      generation: Math.max(refresh.generation, presented) + 1,
      turns: withRotation(recent, [first, presented, now]),
    },
  };
}

/** Merges the rotation with the previous one if they are consecutive and within the same few seconds. */
function withRotation(rotations: Rotation[], added: Rotation): Rotation[] {
  const before = rotations.at(-1);
  const [first, last, at] = added;
  const moment = (time: number) => Math.floor(time / ROTATION_MERGE_SECONDS);
  if (!before || before[1] !== first - 1 || moment(before[2]) < moment(at))
    return [...rotations, added];
  return [...rotations.slice(0, -1), [before[0], last, Math.max(before[2], at)]];
}

/** Undefined if too many tokens are revoked one by one: end the grant instead. */
export function revokeAccessToken(
  record: GrantRecord,
  jti: string,
  exp: number,
  now: number,
): GrantRecord | undefined {
  const revoked = { ...withoutExpiredRevocations(record, now).revoked, [jti]: exp };
  return Object.keys(revoked).length > MAX_REVOKED ? undefined : { ...record, revoked };
}

function withoutExpiredRevocations(record: GrantRecord, now: number): GrantRecord {
  const { revoked, ...rest } = record;
  const live = Object.entries(revoked ?? {}).filter(([, exp]) => exp > now);
  return live.length > 0 ? { ...rest, revoked: Object.fromEntries(live) } : rest;
}

/** Adds a refusal. Undefined if the same reason was recorded within the last hour, which limits the writes that a client can cause. */
export function withRefusal(
  record: GrantRecord,
  reason: Reason,
  now: number,
): GrantRecord | undefined {
  const earlier = record.refusals ?? [];
  const isRecorded = earlier.some(
    (known) => known.reason === reason && now - known.at < REFUSAL_INTERVAL_SECONDS,
  );
  if (isRecorded) return undefined;
  const refusals = [...earlier, { reason, at: Math.floor(now) }].slice(-MAX_REFUSALS);
  return { ...record, refusals };
}

/** The upper limit of a grant. `stays`: whether it keeps its refresh token. */
export type GrantLimit = { level: Level; stays: boolean };

/** Lowers the level or removes the refresh token. Undefined if the grant is already within the limit. */
export function narrowed(
  levels: Levels,
  record: GrantRecord,
  { level, stays }: GrantLimit,
): GrantRecord | undefined {
  const isHigher = allowsLevel(levels, record, level) && grantedLevel(record) !== level;
  const isLonger = grantsRefresh(record) && !stays;
  if (!isHigher && !isLonger) return undefined;
  const lowered = isHigher
    ? withScopes(record, (scopes) => [...levelsUpTo(levels, level), ...scopes.filter(isOffline)])
    : record;
  return isLonger ? withoutRefresh(lowered) : lowered;
}

/** Both as the person saw them. */
export type Raise = { from: Level; to: Level };

/** Raises the level, which the next refresh gets. Undefined if the level is not `from` any more, or nothing refreshes. */
export function raised(
  levels: Levels,
  record: GrantRecord,
  { from, to }: Raise,
): GrantRecord | undefined {
  if (!record.refresh || grantedLevel(record) !== from || isAtLeast(levels, from, to))
    return undefined;
  return withScopes(record, (scopes) => [...levelsUpTo(levels, to), ...scopes.filter(isOffline)]);
}

function isOffline(scope: string): boolean {
  return scope === OFFLINE_ACCESS;
}

/** Access tokens stay valid until they expire. The record then lasts as long as the last one issued. */
function withoutRefresh(record: GrantRecord): GrantRecord {
  const usedAt = lastUseOf(record);
  const { refresh, code, ...rest } = withScopes(record, (scopes) =>
    scopes.filter((scope) => !isOffline(scope)),
  );
  if (!refresh) return code ? { ...rest, code } : rest;
  // A refresh may have removed the code.
  const used = code ?? { payload: { exp: refresh.payload.iat } };
  return { ...rest, code: { ...used, ...(usedAt === undefined ? {} : { usedAt }) } };
}

/** Changes the scope of the grant, its code and its refresh token. */
function withScopes(
  record: GrantRecord,
  change: (scopes: readonly string[]) => readonly string[],
): GrantRecord {
  const { grant, code, refresh } = record;
  const keep = (scope = '') => (scope === '' ? '' : change(scope.split(' ')).join(' '));
  const kept = <Issued extends EnginePayload>(payload: Issued): Issued => ({
    ...payload,
    scope: keep(String(payload.scope ?? '')),
  });
  const resources = Object.entries(grant.resources ?? {});
  return {
    ...record,
    grant: {
      ...grant,
      openid: { scope: keep(grant.openid?.scope) },
      resources: Object.fromEntries(resources.map(([resource, scope]) => [resource, keep(scope)])),
    },
    ...(code ? { code: { ...code, payload: kept(code.payload) } } : {}),
    ...(refresh ? { refresh: { ...refresh, payload: kept(refresh.payload) } } : {}),
  };
}
