// A connection: a grant as people see it, with its connector, account and client, whether it works, and if not, why. Pure: no I/O.
import { type Account, isHonoured } from '../accounts/account.ts';
import { type Connector, connectorState } from '../connectors/connector.ts';
import { type Lifetimes, overBecause, validUntil, wasExchanged } from '../grants/grant-life.ts';
import {
  type EndedMark,
  grantedLevel,
  type GrantRecord,
  isLive,
  lastUseOf,
  type Refusal,
  type StoredGrant,
} from '../grants/grant-record.ts';
import type { Reason } from '../grants/reasons.ts';
import type { Level } from '../permission-level.ts';

/** `pending`: approved and not fetched yet. `refused`: it would work again if what `reason` names were put right. `ended`: for good. */
export const CONNECTION_STATES = ['pending', 'active', 'refused', 'ended'] as const;
export type ConnectionState = (typeof CONNECTION_STATES)[number];

/** Times are seconds since the epoch. What has no name is not known any more. */
export type Connection = {
  id: string;
  state: ConnectionState;
  level?: Level;
  connector: { id: string; name?: string };
  account: { id: string; name?: string; email?: string; emailVerified?: boolean };
  client: { id: string; name: string; redirectHost: string };
  createdAt: number;
  /** When the client last fetched tokens. Calls with these are not noted. */
  lastUsedAt?: number;
  /** When it runs out, unless it is used before. */
  expiresAt?: number;
  endedAt?: number;
  reason?: Reason;
  refusals: readonly Refusal[];
};

/** What a grant is judged by; `entitled` is the level that the person may hold at all. */
export type Surroundings = {
  connector: Connector | undefined;
  account: Account | undefined;
  entitled: Level | undefined;
  lifetimes: Lifetimes;
  now: number;
};

export function describeConnection(
  id: string,
  stored: StoredGrant,
  surroundings: Surroundings,
): Connection {
  const { connector, account } = surroundings;
  const facts = isLive(stored) ? factsOf(stored, surroundings) : factsOfMark(stored);
  const { name, email, emailVerified = false } = account ?? {};
  return {
    id,
    ...facts,
    connector: { id: stored.connector, ...(connector ? { name: connector.name } : {}) },
    account: {
      id: facts.accountId,
      ...(name ? { name } : {}),
      ...(email === undefined ? {} : { email, emailVerified }),
    },
    client: { id: facts.clientId, ...stored.client },
    createdAt: stored.createdAt,
  };
}

function factsOfMark({ accountId, clientId, level, lastUsedAt, endedAt, ended }: EndedMark) {
  return {
    accountId,
    clientId,
    state: 'ended' as const,
    endedAt,
    reason: ended,
    refusals: [],
    ...(level === undefined ? {} : { level }),
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
  };
}

function factsOf(record: GrantRecord, surroundings: Surroundings) {
  const level = grantedLevel(record);
  const lastUsedAt = lastUseOf(record);
  return {
    accountId: record.grant.accountId,
    clientId: record.grant.clientId,
    refusals: record.refusals ?? [],
    ...(level === undefined ? {} : { level }),
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
    ...standingOf(record, surroundings),
  };
}

type Standing = Pick<Connection, 'state' | 'reason' | 'endedAt' | 'expiresAt'>;

function standingOf(record: GrantRecord, surroundings: Surroundings): Standing {
  const { lifetimes, now } = surroundings;
  const ends = [overBecause(record, lifetimes, now), ...endsAround(record, surroundings)];
  const [first] = ends.filter((end) => end !== undefined).toSorted((a, b) => a.at - b.at);
  if (first) {
    const endedAt = Number.isFinite(first.at) ? { endedAt: Math.floor(first.at) } : {};
    return { state: 'ended', reason: first.reason, ...endedAt };
  }
  const obstacle = obstacleOf(surroundings);
  const expiresAt = Math.floor(validUntil(record, lifetimes));
  if (obstacle) return { state: 'refused', reason: obstacle, expiresAt };
  return { state: wasExchanged(record) ? 'active' : 'pending', expiresAt };
}

type End = { reason: Reason; at: number };

/** What ended everything under a connector, or everything of a person; the grant's own record was not touched by it. */
function endsAround(
  { createdAt }: GrantRecord,
  { connector, account, now }: Surroundings,
): (End | undefined)[] {
  const { disabledAt, overBefore = Infinity } = account ?? {};
  const isOver = account !== undefined && !isHonoured(account, createdAt);
  return [
    connectorEnd(connector, now),
    isOver ? { reason: 'account_disabled', at: disabledAt ?? overBefore } : undefined,
  ];
}

function connectorEnd(connector: Connector | undefined, now: number): End | undefined {
  // Nobody knows when.
  if (!connector) return { reason: 'connector_deleted', at: Infinity };
  const { revokedAt = Infinity, expiresAt = Infinity } = connector;
  const state = connectorState(connector, now);
  if (state === 'revoked') return { reason: 'connector_revoked', at: revokedAt };
  return state === 'expired' ? { reason: 'connector_expired', at: expiresAt } : undefined;
}

function obstacleOf({ account, entitled }: Surroundings): Reason | undefined {
  if (!account) return 'account_deleted';
  return entitled === undefined ? 'not_entitled' : undefined;
}
