// The one record of a grant, and the rules for its code and refresh tokens (RFC 6749 section 10.4, RFC 9700 section 4.14). Pure: no I/O.

/** What the engine stores of a model; opaque here but for the members named. */
export type EnginePayload = Record<string, unknown>;

type GrantPayload = EnginePayload & { accountId: string; clientId: string; exp: number };

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
  /** Access tokens revoked before they expire: jti to exp. */
  revoked?: Record<string, number>;
};

/** The client as the person saw it when approving. */
export type ClientSnapshot = { name: string; redirectHost: string };

/** What replaces a record that ended, for a minute: it counts as absent, and lets exactly one caller know that it ended the grant. */
export type EndedMark = { version: 1; ended: string };

export type StoredGrant = GrantRecord | EndedMark;

export function isLive(stored: StoredGrant | undefined): stored is GrantRecord {
  return stored !== undefined && !('ended' in stored);
}

export function wasExchanged({ code, refresh }: GrantRecord): boolean {
  return refresh !== undefined || code?.usedAt !== undefined;
}

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

/** Until the code is either exchanged or beyond use, with room for an exchange that is under way. */
export function unusedAfter({ pending, code }: Lifetimes): number {
  return pending + code + 2 * CODE_MARGIN;
}

const TURNED_TOGETHER = 5;
const REVOKED_KEPT = 50;
const CODE_MARGIN = 5;

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

/** When the current refresh token stops working: idle since it was made, and never beyond the grant. */
export function refreshExpiry({ refresh, grant }: GrantRecord, idle: number): number {
  const made = refresh?.turns.at(-1)?.[2] ?? refresh?.payload.iat ?? 0;
  return Math.min(Math.floor(made + idle), grant.exp);
}

/** How long the record must be kept: this only collects garbage, expiry is judged from the record. */
export function timeToLive(record: GrantRecord, lifetimes: Lifetimes, now: number): number {
  return Math.max(1, Math.ceil(keptUntil(record, lifetimes, now) - now));
}

function keptUntil(
  record: GrantRecord,
  { refreshIdle, pending, accessToken }: Lifetimes,
  now: number,
): number {
  const { code, refresh, grant } = record;
  const lastAccessToken = Math.min(now + accessToken, grant.exp);
  if (refresh) return Math.max(refreshExpiry(record, refreshIdle), lastAccessToken);
  if (code?.usedAt !== undefined) return lastAccessToken;
  return code ? code.payload.exp + CODE_MARGIN : now + pending;
}
