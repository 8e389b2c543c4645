// The connector record and the rules for its state and uses. Pure: no I/O, no clock.
import { createHash, randomBytes } from 'node:crypto';
import type { AccessRefusal } from '../observability/labels.ts';
import { isAtLeast, isLevel, type Level, type Levels } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';
import { findUpstream, isServed } from '../settings/upstreams.ts';
import type { AudienceRule } from '../settings/entitlements.ts';

/**
 * One use of a limit, by one account with one client. Reserved until `reservedUntil` (seconds), committed once a code was exchanged. Grants
 * that the holder made while another of its grants was active share the use. `holder` is from `redeemerOf`.
 */
export type Use = { holder: string; grantIds: string[]; reservedUntil?: number };

/** Times are seconds since the epoch. */
export type Connector = {
  id: string;
  /** Its key in the file of `gatehouse apply`, which made or adopted it. */
  key?: string;
  name: string;
  level: Level;
  /** The highest level that the consent page preselects. Default: `level`. */
  suggestedLevel?: Level;
  /** The id of the MCP server that it leads to. Absent for the sample, and in records of earlier versions. */
  upstream?: string;
  /** The people who may use it: those whom one of the rules matches. Absent: everybody. */
  audience?: AudienceRule[];
  /** What it opens of the MCP server: patterns. Absent: everything of the level. */
  tools?: readonly string[];
  createdAt: number;
  expiresAt?: number;
  revokedAt?: number;
  /** Calls are refused, and nobody can connect, until an administrator resumes it. */
  paused?: true;
  maxUses?: number;
  /** Limit on all calls through it together, as the settings write rates. */
  calls?: string;
  /** Committed uses, ever. */
  used: number;
  /** Empty without a limit. Uses from before the limit are in `used` alone. */
  uses: Use[];
};

/**
 * `unconfigured`: the settings no longer have what the connector needs. It works again when they do. `paused`: an administrator paused it, or
 * the settings its MCP server.
 */
export const CONNECTOR_STATES = [
  'active',
  'paused',
  'used-up',
  'expired',
  'revoked',
  'unconfigured',
] as const;
export type ConnectorState = (typeof CONNECTOR_STATES)[number];

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const ID_LENGTH = 22;
export const CONNECTOR_ID = /^[A-Za-z0-9]{22}$/;

/** 22 characters of A-Za-z0-9 (130 bits). Unbiased: bytes above the last multiple of 62 are discarded. */
export function createConnectorId(random: (size: number) => Buffer = randomBytes): string {
  let id = '';
  while (id.length < ID_LENGTH) {
    for (const byte of random(32)) {
      if (byte < 248 && id.length < ID_LENGTH) id += ALPHABET.charAt(byte % ALPHABET.length);
    }
  }
  return id;
}

/** The settings that a connector depends on. */
export type ConnectorSettings = Pick<Settings, 'levels' | 'upstreams'>;

export function connectorState(
  connector: Connector,
  now: number,
  settings: ConnectorSettings,
): ConnectorState {
  const state = recordedState(connector, now);
  if (state === 'revoked' || state === 'expired') return state;
  if (!isLevel(settings.levels, connector.level) || !isServed(settings.upstreams, connector))
    return 'unconfigured';
  return isPaused(connector, settings) ? 'paused' : state;
}

/** Why nobody can connect through a connector. Undefined if people can, or if it has no use left: somebody may have one of its uses. */
export function connectorRefusal(
  connector: Connector,
  now: number,
  settings: ConnectorSettings,
): AccessRefusal | undefined {
  switch (connectorState(connector, now, settings)) {
    case 'revoked':
      return 'connector_revoked';
    case 'expired':
      return 'connector_expired';
    case 'paused':
      return 'connector_paused';
    case 'unconfigured':
      return isLevel(settings.levels, connector.level) ? 'connector_paused' : 'level_gone';
    default:
      return undefined;
  }
}

/** Whether calls are refused because an administrator paused the connector, or the settings its MCP server. */
export function isPaused(
  connector: Pick<Connector, 'paused' | 'upstream'>,
  { upstreams }: Pick<Settings, 'upstreams'>,
): boolean {
  return connector.paused === true || findUpstream(upstreams, connector)?.paused === true;
}

/** The state without regard to the settings and to a pause. */
export function recordedState(
  connector: Connector,
  now: number,
): Exclude<ConnectorState, 'unconfigured' | 'paused'> {
  if (connector.revokedAt !== undefined) return 'revoked';
  if (connector.expiresAt !== undefined && connector.expiresAt <= now) return 'expired';
  const isUsedUp =
    connector.maxUses !== undefined && takenUses(connector, now) >= connector.maxUses;
  return isUsedUp ? 'used-up' : 'active';
}

/** Refreshes and code exchanges need this. A used-up connector is usable, and so is a paused one, so that nobody has to connect again. */
export function isUsable(connector: Connector, now: number, settings: ConnectorSettings): boolean {
  return isUsableState(connectorState(connector, now, settings));
}

export function isUsableState(state: ConnectorState): boolean {
  return state === 'active' || state === 'used-up' || state === 'paused';
}

/** Committed, ever, and reserved now. */
function takenUses({ used, uses }: Connector, now: number): number {
  const reserved = uses.filter((use) => use.reservedUntil !== undefined && !isExpired(use, now));
  return used + reserved.length;
}

/** The uses that count: committed, or reserved and not expired. */
function liveUses(connector: Connector, now: number): Use[] {
  return connector.uses.filter((use) => !isExpired(use, now));
}

function isExpired({ reservedUntil }: Use, now: number): boolean {
  return reservedUntil !== undefined && reservedUntil <= now;
}

/** Identifies an account with a client in a fixed length, because client ids may be URLs. */
export function redeemerOf(accountId: string, clientId: string): string {
  return createHash('sha256').update(`${accountId}\n${clientId}`).digest('base64url').slice(0, 22);
}

/** The grants whose state `reserveUse` needs: those of the holder, and those of expired reservations. */
export function grantsToCheck({ uses }: Connector, holder: string, now: number): string[] {
  return uses
    .filter((use) => use.holder === holder || isExpired(use, now))
    .flatMap(({ grantIds }) => grantIds);
}

/** Whether it has no uses to reserve, now and before. */
export function isUnlimited({ maxUses, uses }: Connector): boolean {
  return maxUses === undefined && uses.length === 0;
}

/** The grants of all reservations. */
export function reservedGrants({ uses }: Connector): string[] {
  return uses.flatMap(({ reservedUntil, grantIds }) =>
    reservedUntil === undefined ? [] : grantIds,
  );
}

/** Commits the reservations of active grants, expired or not. Returns the same object if there are none. */
export function commitExchangedUses(
  connector: Connector,
  activeGrants: ReadonlySet<string>,
): Connector {
  const isDue = ({ reservedUntil, grantIds }: Use) =>
    reservedUntil !== undefined && grantIds.some((id) => activeGrants.has(id));
  const due = connector.uses.filter(isDue).length;
  if (due === 0) return connector;
  const uses = connector.uses.map((use) =>
    isDue(use) ? { holder: use.holder, grantIds: use.grantIds } : use,
  );
  return { ...connector, used: connector.used + due, uses };
}

export type Reservation = { holder: string; grantId: string; reservedUntil: number };

/**
 * Undefined if no use is left. `activeGrants`: those of `grantsToCheck` that were exchanged and have not ended. A holder with an active grant
 * or a reservation needs no second use. An expired reservation is released unless its grant is active.
 */
export function reserveUse(
  before: Connector,
  { holder, grantId, reservedUntil }: Reservation,
  activeGrants: ReadonlySet<string>,
  now: number,
): Connector | undefined {
  const connector = commitExchangedUses(before, activeGrants);
  if (connector.maxUses === undefined) return connector;
  const isActive = ({ grantIds }: Use) => grantIds.some((id) => activeGrants.has(id));
  const uses = liveUses(connector, now);
  const own = uses.find(
    (use) => use.holder === holder && (use.reservedUntil !== undefined || isActive(use)),
  );
  if (!own && takenUses(connector, now) >= connector.maxUses) return undefined;
  const next: Use = own
    ? {
        ...own,
        grantIds: withGrant(own, grantId),
        ...(own.reservedUntil === undefined ? {} : { reservedUntil }),
      }
    : { holder, grantIds: [grantId], reservedUntil };
  return { ...connector, uses: [...uses.filter((use) => use !== own), next] };
}

/** Commits the use of a grant whose code was exchanged. A committed use is not counted again. */
export function commitUse(connector: Connector, holder: string, grantId: string): Connector {
  if (connector.maxUses === undefined) return { ...connector, used: connector.used + 1 };
  const ofHolder = connector.uses.filter((use) => use.holder === holder);
  const own =
    ofHolder.find(({ grantIds }) => grantIds.includes(grantId)) ??
    ofHolder.find(({ reservedUntil }) => reservedUntil !== undefined);
  if (own && own.reservedUntil === undefined) return connector;
  const committed = { holder, grantIds: own ? withGrant(own, grantId) : [grantId] };
  return {
    ...connector,
    used: connector.used + 1,
    uses: [...connector.uses.filter((use) => use !== own), committed],
  };
}

/** Releases the reservation of a grant whose code will never be exchanged. Returns the same object if there is none. */
export function releaseUse(connector: Connector, grantId: string): Connector {
  const isReserved = ({ reservedUntil, grantIds }: Use) =>
    reservedUntil !== undefined && grantIds.includes(grantId);
  if (!connector.uses.some(isReserved)) return connector;
  const uses = connector.uses
    .map((use) =>
      isReserved(use) ? { ...use, grantIds: use.grantIds.filter((id) => id !== grantId) } : use,
    )
    .filter(({ grantIds }) => grantIds.length > 0);
  return { ...connector, uses };
}

/** What an administrator may change. Null removes a member. */
export type ConnectorChange = {
  key?: string;
  name?: string;
  level?: Level;
  suggestedLevel?: Level | null;
  audience?: AudienceRule[] | null;
  tools?: readonly string[] | null;
  expiresAt?: number | null;
  maxUses?: number | null;
  calls?: string | null;
  paused?: boolean;
};

/**
 * A level above the new one of the connector is not suggested any more, unless the change asks for it. `holders` are the uses of those who connected
 * while there was no limit: with a new limit, they need no other use to connect again.
 */
export function changedConnector(
  levels: Levels,
  before: Connector,
  { paused = before.paused ?? false, ...members }: ConnectorChange,
  holders: readonly Use[] = [],
): Connector {
  const { paused: _before, ...merged } = { ...before, ...members };
  const entries = Object.entries(merged).filter(([, value]) => value !== null);
  const after = { ...Object.fromEntries(entries), ...(paused ? { paused } : {}) } as Connector;
  const { suggestedLevel, level, maxUses } = after;
  const isOutdated =
    members.level !== undefined &&
    members.suggestedLevel === undefined &&
    suggestedLevel !== undefined &&
    !isAtLeast(levels, level, suggestedLevel);
  if (isOutdated) delete after.suggestedLevel;
  if (maxUses === undefined) return { ...after, uses: [] };
  if (before.maxUses !== undefined) return after;
  // A code may have been exchanged whose use is not counted yet.
  return { ...after, used: Math.max(after.used, holders.length), uses: [...holders] };
}

const MAX_GRANTS_PER_USE = 20;

function withGrant({ grantIds }: Use, grantId: string): string[] {
  return [...grantIds.filter((id) => id !== grantId), grantId].slice(-MAX_GRANTS_PER_USE);
}
