// The one record of a grant, and the rules for its code and refresh tokens (RFC 6749 section 10.4, RFC 9700 section 4.14). Pure: no I/O.

import { highestLevelIn, isAtLeast, type Level, OFFLINE_ACCESS } from '../permission-level.ts';
import type { Reason } from './reasons.ts';

/** What the engine stores of a model; opaque here but for the members named. */
export type EnginePayload = Record<string, unknown>;

type GrantPayload = EnginePayload & {
  accountId: string;
  clientId: string;
  exp: number;
  /** The scope that was approved, or what the person left of it since. */
  openid?: { scope?: string };
  /** The same for each resource, of which there is one. */
  resources?: Record<string, string>;
};

/**
 * Generations that were turned one after another within a few seconds: the first, the last, and when the last was. However often a client
 * refreshes, a minute is a dozen of these. The last one ends with the parent of the current generation.
 */
export type Turns = [first: number, last: number, at: number];

export type RefreshState = {
  payload: EnginePayload & { iat: number };
  generation: number;
  turns: Turns[];
};

/** Times are seconds since the epoch. `grant.exp` is the end of the absolute lifetime. */
export type GrantRecord = {
  version: 1;
  /** Part of the MAC of every code and token of this grant, so that the server key alone forges none. */
  seed: string;
  connector: string;
  client: ClientSnapshot;
  createdAt: number;
  grant: GrantPayload;
  code?: { payload: EnginePayload & { exp: number }; usedAt?: number };
  refresh?: RefreshState;
  /** When an identity provider last vouched for it, which takes the place of codes and refresh tokens (ID-JAG). */
  vouchedAt?: number;
  /** Access tokens revoked before they expire: jti to exp. */
  revoked?: Record<string, number>;
  /** The last few refreshes that were refused while the grant stood. */
  refusals?: Refusal[];
};

/** `at` in seconds. */
export type Refusal = { reason: Reason; at: number };

/** The client as the person saw it when approving. */
export type ClientSnapshot = { name: string; redirectHost: string };

/**
 * What replaces a record that ended: it counts as absent, lets exactly one caller know that it ended the grant, and says for a month why. Times
 * are seconds.
 */
export type EndedMark = {
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

export type StoredGrant = GrantRecord | EndedMark;

/** Written by a version that comes after this one, in a form that only it knows. */
export function isNewer({ version }: { version: number }): boolean {
  return version > 1;
}

export function isLive(stored: StoredGrant | undefined): stored is GrantRecord {
  return stored !== undefined && !('ended' in stored);
}

/** A trusted issuer asserted the person (ID-JAG), and nobody signed in for it. */
export function isVouched(stored: StoredGrant): boolean {
  return isLive(stored) && stored.vouchedAt !== undefined;
}

/** When the client last fetched tokens, in seconds; undefined until it exchanged the code. */
export function lastUseOf({ code, refresh, vouchedAt }: GrantRecord): number | undefined {
  return refresh?.turns.at(-1)?.[2] ?? refresh?.payload.iat ?? code?.usedAt ?? vouchedAt;
}

export function markEnded(record: GrantRecord, reason: Reason, now: number): EndedMark {
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

/** The level that the grant allows now: tokens of a higher one are from before it was lowered. */
export function grantedLevel({ grant }: GrantRecord): Level | undefined {
  return highestLevelIn(grant.openid?.scope);
}

/** Whether the grant lets the app stay connected by a refresh token. */
export function grantsRefresh({ grant }: GrantRecord): boolean {
  return (grant.openid?.scope ?? '').split(' ').includes(OFFLINE_ACCESS);
}

/** Whether a token of this level is within what the grant allows now. */
export function allowsLevel(record: GrantRecord, level: Level): boolean {
  const granted = grantedLevel(record);
  return granted !== undefined && isAtLeast(granted, level);
}

const TURNED_TOGETHER = 5;
const REVOKED_KEPT = 50;
const REFUSALS_KEPT = 5;
const REFUSAL_GAP = 3600;

/**
 * What presenting a generation means. `current`: the newest. `repeat`: turned within the grace, give or take a few seconds. `late`: the
 * parent of the current one, which was never used. `lost`: newer than the record, so the store lost a write that was answered. `replay`:
 * anything else.
 */
export type Verdict = 'current' | 'repeat' | 'late' | 'lost' | 'replay';

export function judge(
  { generation, turns }: RefreshState,
  presented: number,
  now: number,
  grace: number,
): Verdict {
  if (presented === generation) return 'current';
  if (presented > generation) return 'lost';
  const among = turns.find(([first, last]) => first <= presented && presented <= last);
  if (!among) return 'replay';
  if (now - among[2] < grace) return 'repeat';
  return turns.at(-1)?.[1] === presented ? 'late' : 'replay';
}

/** The record after `presented` was turned: a new current generation with `presented` as its parent. */
export function turn(
  record: GrantRecord,
  refresh: RefreshState,
  presented: number,
  now: number,
  grace: number,
): GrantRecord {
  const { code, ...rest } = withoutExpiredRevocations(record, now);
  const keepsCode = code?.usedAt !== undefined && now - code.usedAt <= grace;
  const recent = refresh.turns.filter(([, , at]) => now - at < grace);
  // The turns that the store lost are among those that clients may still repeat.
  const first = Math.min(refresh.generation, presented);
  return {
    ...rest,
    ...(keepsCode ? { code } : {}),
    refresh: {
      payload: refresh.payload,
      generation: Math.max(refresh.generation, presented) + 1,
      turns: withTurns(recent, [first, presented, now]),
    },
  };
}

/** Joined with the one before when nothing is between them and both are of the same few seconds. */
function withTurns(turns: Turns[], added: Turns): Turns[] {
  const before = turns.at(-1);
  const [first, last, at] = added;
  const moment = (time: number) => Math.floor(time / TURNED_TOGETHER);
  if (!before || before[1] !== first - 1 || moment(before[2]) < moment(at))
    return [...turns, added];
  return [...turns.slice(0, -1), [before[0], last, Math.max(before[2], at)]];
}

/** Undefined when so many were revoked one by one that the grant should end as a whole. */
export function revokeAccessToken(
  record: GrantRecord,
  jti: string,
  exp: number,
  now: number,
): GrantRecord | undefined {
  const revoked = { ...withoutExpiredRevocations(record, now).revoked, [jti]: exp };
  return Object.keys(revoked).length > REVOKED_KEPT ? undefined : { ...record, revoked };
}

function withoutExpiredRevocations(record: GrantRecord, now: number): GrantRecord {
  const { revoked, ...rest } = record;
  const live = Object.entries(revoked ?? {}).filter(([, exp]) => exp > now);
  return live.length > 0 ? { ...rest, revoked: Object.fromEntries(live) } : rest;
}

/** With the refusal; undefined when the same is noted already of the last hour, so that nobody can make us write at will. */
export function withRefusal(
  record: GrantRecord,
  reason: Reason,
  now: number,
): GrantRecord | undefined {
  const earlier = record.refusals ?? [];
  const isNoted = earlier.some((known) => known.reason === reason && now - known.at < REFUSAL_GAP);
  if (isNoted) return undefined;
  const refusals = [...earlier, { reason, at: Math.floor(now) }].slice(-REFUSALS_KEPT);
  return { ...record, refusals };
}
