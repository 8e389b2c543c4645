// A connection is a grant together with its connector, account and client. Pure: no I/O.
import { type Account, grantEnd } from '../people/account.ts';
import type { Access } from '../people/entitlement.ts';
import {
  type Connector,
  type ConnectorSettings,
  connectorState,
  isPaused,
  recordedState,
} from '../links/connector.ts';
import { type Lifetimes, endReason, validUntil, wasExchanged } from './grant-lifetime.ts';
import { isMachineSubject } from './machine-subject.ts';
import {
  type Tombstone,
  grantedLevel,
  type GrantRecord,
  isLive,
  lastUseOf,
  type Refusal,
  type RefreshState,
  type StoredGrant,
} from './grant-record.ts';
import type { Reason } from './reasons.ts';
import type { CallerClaim } from '../settings/schema.ts';
import { isLevel, type Level, lowest } from '../permission-levels.ts';

/**
 * `pending`: approved, but the client has not fetched tokens yet. `refused`: works again once the `reason` is resolved.
 * `ended`: permanently.
 */
export const CONNECTION_STATES = ['pending', 'active', 'refused', 'ended'] as const;
export type ConnectionState = (typeof CONNECTION_STATES)[number];

/** Times are seconds since the epoch. Names are absent if their record was deleted. */
export type Connection = {
  id: string;
  state: ConnectionState;
  level?: Level;
  connector: { id: string; name?: string; upstream?: string | undefined; calls?: string };
  /** A machine has its own name here. */
  account: { id: string; name?: string; email?: string; emailVerified?: boolean };
  client: { id: string; name: string; redirectHost: string };
  createdAt: number;
  /** When the client last fetched tokens. Tool calls are not counted. */
  lastUsedAt?: number;
  /** When it expires, unless it is used before. */
  expiresAt?: number;
  endedAt?: number;
  reason?: Reason;
  /** The rule that gives the person the level: `entitlements[2]`. Absent if the connection ended or has none. */
  rule?: string;
  refusals: readonly Refusal[];
  /** The claims about the person that the server may learn, unless the settings no longer have them. */
  callerClaims?: readonly CallerClaim[];
  /** The limit on the calls of a machine. */
  calls?: string;
  /** The highest level that the connect link and the rules give the person now. */
  ceiling?: Level;
  /** Whether the client refreshes its tokens, and with a token that is bound to a key. */
  refresh?: 'bound' | 'unbound';
};

/** Everything outside the grant record that decides its state. `refusal` is why the person or the workload may not use the connector now. */
export type ConnectionContext = {
  connector: Connector | undefined;
  account: Account | undefined;
  /** What the rules give the person or the workload now. */
  entitled?: Level | undefined;
  /** The place of the rule that does. */
  place?: number | undefined;
  refusal: Access['refusal'] | 'sign_in_again' | 'workload_gone';
  lifetimes: Lifetimes;
  settings: ConnectorSettings;
  now: number;
};

export function describeConnection(
  id: string,
  stored: StoredGrant,
  context: ConnectionContext,
): Connection {
  const { connector, account } = context;
  const details = isLive(stored) ? grantDetails(stored, context) : tombstoneDetails(stored);
  const { name, email, emailVerified = false } = account ?? {};
  return {
    id,
    ...details,
    connector: {
      id: stored.connector,
      ...(connector
        ? { name: connector.name, upstream: connector.upstream, ...limitOf(connector) }
        : {}),
    },
    account: {
      id: details.accountId,
      ...(isMachineSubject(details.accountId) ? { name: stored.client.name } : {}),
      ...(name ? { name } : {}),
      ...(email === undefined ? {} : { email, emailVerified }),
    },
    client: { id: details.clientId, ...stored.client },
    createdAt: stored.createdAt,
  };
}

function limitOf({ calls }: { calls?: string }): { calls?: string } {
  return calls === undefined ? {} : { calls };
}

function tombstoneDetails({ accountId, clientId, level, lastUsedAt, endedAt, ended }: Tombstone) {
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

function grantDetails(record: GrantRecord, context: ConnectionContext) {
  const level = currentLevel(record, context);
  const status = statusOf(record, context);
  const { place } = context;
  const lastUsedAt = lastUseOf(record);
  const ceiling = ceilingOf(context);
  return {
    accountId: record.grant.accountId,
    clientId: record.grant.clientId,
    refusals: record.refusals ?? [],
    ...(record.callerClaims ? { callerClaims: record.callerClaims } : {}),
    ...limitOf(record.machine ?? {}),
    ...(level === undefined ? {} : { level }),
    ...(lastUsedAt === undefined ? {} : { lastUsedAt }),
    ...(ceiling === undefined ? {} : { ceiling }),
    ...(record.refresh ? { refresh: boundOrNot(record.refresh) } : {}),
    ...(place === undefined || status.state === 'ended' ? {} : { rule: `entitlements[${place}]` }),
    ...status,
  };
}

function boundOrNot({ payload }: RefreshState): 'bound' | 'unbound' {
  return payload.jkt === undefined ? 'unbound' : 'bound';
}

function ceilingOf({
  connector,
  entitled,
  settings: { levels },
}: ConnectionContext): Level | undefined {
  if (!connector || entitled === undefined) return undefined;
  return lowest(levels, connector.level, entitled);
}

/** What was granted, capped by the level of the connector. */
function currentLevel(
  record: GrantRecord,
  { connector, entitled, settings: { levels } }: ConnectionContext,
): Level | undefined {
  const granted = grantedLevel(record);
  const caps = [connector?.level, entitled].filter((level) => isLevel(levels, level));
  return granted === undefined ? undefined : lowest(levels, granted, ...caps);
}

type Status = Pick<Connection, 'state' | 'reason' | 'endedAt' | 'expiresAt'>;

function statusOf(record: GrantRecord, context: ConnectionContext): Status {
  const { lifetimes, now } = context;
  const ends = [endReason(record, lifetimes, now), ...externalEnds(record, context)];
  const [first] = ends.filter((end) => end !== undefined).toSorted((a, b) => a.at - b.at);
  if (first) {
    const endedAt = Number.isFinite(first.at) ? { endedAt: Math.floor(first.at) } : {};
    return { state: 'ended', reason: first.reason, ...endedAt };
  }
  const refusal = refusalReason(record, context);
  const expiresAt = Math.floor(validUntil(record, lifetimes));
  if (refusal) return { state: 'refused', reason: refusal, expiresAt };
  return { state: wasExchanged(record) ? 'active' : 'pending', expiresAt };
}

type End = { reason: Reason; at: number };

/** Returns ends caused by the connector or the account, which do not change the grant record. */
function externalEnds(
  { createdAt }: GrantRecord,
  { connector, account, now }: ConnectionContext,
): (End | undefined)[] {
  return [connectorEnd(connector, now), account && grantEnd(account, createdAt)];
}

function connectorEnd(connector: Connector | undefined, now: number): End | undefined {
  // The time is not known.
  if (!connector) return { reason: 'connector_deleted', at: Infinity };
  const { revokedAt = Infinity, expiresAt = Infinity } = connector;
  const state = recordedState(connector, now);
  if (state === 'revoked') return { reason: 'connector_revoked', at: revokedAt };
  return state === 'expired' ? { reason: 'connector_expired', at: expiresAt } : undefined;
}

function refusalReason(
  record: GrantRecord,
  { connector, account, refusal, settings, now }: ConnectionContext,
): Reason | undefined {
  if (connector && connectorState(connector, now, settings) === 'unconfigured')
    return 'connector_unconfigured';
  if (!account && !record.machine) return 'account_deleted';
  if (!isLevel(settings.levels, grantedLevel(record) ?? '')) return 'level_removed';
  if (refusal) return refusal;
  return connector && isPaused(connector, settings) ? 'connector_paused' : undefined;
}
