// A connector: what an administrator created, and the rules of its life. Pure: no I/O, no clock.
import { createHash, randomBytes } from 'node:crypto';
import type { Level } from '../permission-level.ts';

/**
 * What one person with one client took of a limit: reserved until a moment (seconds), kept once a code was exchanged. All grants that the
 * holder made while one of them stood are the same use.
 */
export type Use = { holder: string; grantIds: string[]; reservedUntil?: number };

/** Times are seconds since the epoch. */
export type Connector = {
  id: string;
  name: string;
  level: Level;
  /** What the consent page preselects at most; the level when absent. */
  suggestedLevel?: Level;
  createdAt: number;
  expiresAt?: number;
  revokedAt?: number;
  maxUses?: number;
  /** Grants that kept a use, ever. */
  used: number;
  /** Held only by connectors with a limit, so never more than `maxUses` long. */
  uses: Use[];
};

export const CONNECTOR_STATES = ['active', 'used-up', 'expired', 'revoked'] as const;
export type ConnectorState = (typeof CONNECTOR_STATES)[number];

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
const ID_LENGTH = 22;
export const CONNECTOR_ID = /^[A-Za-z0-9]{22}$/;

/** 22 characters of A-Za-z0-9 (130 bits), unbiased: bytes beyond the last whole multiple of 62 are thrown away. */
export function createConnectorId(random: (size: number) => Buffer = randomBytes): string {
  let id = '';
  while (id.length < ID_LENGTH) {
    for (const byte of random(32)) {
      if (byte < 248 && id.length < ID_LENGTH) id += ALPHABET.charAt(byte % ALPHABET.length);
    }
  }
  return id;
}

export function connectorState(connector: Connector, now: number): ConnectorState {
  if (connector.revokedAt !== undefined) return 'revoked';
  if (connector.expiresAt !== undefined && connector.expiresAt <= now) return 'expired';
  const taken = liveUses(connector, now).length;
  return connector.maxUses !== undefined && taken >= connector.maxUses ? 'used-up' : 'active';
}

/** Calls, refreshes and code exchanges go on while this holds, also when no use is left. */
export function isUsable(connector: Connector, now: number): boolean {
  const state = connectorState(connector, now);
  return state === 'active' || state === 'used-up';
}

/** The uses that count: kept, or reserved and not yet given back by time. */
function liveUses(connector: Connector, now: number): Use[] {
  return connector.uses.filter((use) => !ranOut(use, now));
}

function ranOut({ reservedUntil }: Use, now: number): boolean {
  return reservedUntil !== undefined && reservedUntil <= now;
}

/** One person with one client, in a fixed length: ids of clients may be addresses. */
export function holderOf(accountId: string, clientId: string): string {
  return createHash('sha256').update(`${accountId}\n${clientId}`).digest('base64url').slice(0, 22);
}

/** The grants that `reserveUse` has to know of whether they stand: the holder's own, and those behind reservations that ran out. */
export function decidingGrants({ uses }: Connector, holder: string, now: number): string[] {
  return uses
    .filter((use) => use.holder === holder || ranOut(use, now))
    .flatMap(({ grantIds }) => grantIds);
}

/** The grants behind all reservations. */
export function reservedGrants({ uses }: Connector): string[] {
  return uses.flatMap(({ reservedUntil, grantIds }) =>
    reservedUntil === undefined ? [] : grantIds,
  );
}

/** Keeps the reservations of grants that were exchanged (`standing`), whether or not they ran out since; the same connector when there are none. */
export function settleUses(connector: Connector, standing: ReadonlySet<string>): Connector {
  const isDue = ({ reservedUntil, grantIds }: Use) =>
    reservedUntil !== undefined && grantIds.some((id) => standing.has(id));
  const due = connector.uses.filter(isDue).length;
  if (due === 0) return connector;
  const uses = connector.uses.map((use) =>
    isDue(use) ? { holder: use.holder, grantIds: use.grantIds } : use,
  );
  return { ...connector, used: connector.used + due, uses };
}

export type Reservation = { holder: string; grantId: string; reservedUntil: number };

/**
 * Undefined when no use is left. `standing`: which of the deciding grants were exchanged and have not ended. A holder with one of those, or
 * with a reservation, needs no second use. A reservation that ran out is given back, unless its code was exchanged in the last moment.
 */
export function reserveUse(
  before: Connector,
  { holder, grantId, reservedUntil }: Reservation,
  standing: ReadonlySet<string>,
  now: number,
): Connector | undefined {
  const connector = settleUses(before, standing);
  if (connector.maxUses === undefined) return connector;
  const stands = ({ grantIds }: Use) => grantIds.some((id) => standing.has(id));
  const uses = liveUses(connector, now);
  const own = uses.find(
    (use) => use.holder === holder && (use.reservedUntil !== undefined || stands(use)),
  );
  if (!own && uses.length >= connector.maxUses) return undefined;
  const next: Use = own
    ? {
        ...own,
        grantIds: withGrant(own, grantId),
        ...(own.reservedUntil === undefined ? {} : { reservedUntil }),
      }
    : { holder, grantIds: [grantId], reservedUntil };
  return { ...connector, uses: [...uses.filter((use) => use !== own), next] };
}

/** Counts the use of a grant whose code was exchanged. A use that is already kept is not counted again. */
export function keepUse(connector: Connector, holder: string, grantId: string): Connector {
  if (connector.maxUses === undefined) return { ...connector, used: connector.used + 1 };
  const ofHolder = connector.uses.filter((use) => use.holder === holder);
  const own =
    ofHolder.find(({ grantIds }) => grantIds.includes(grantId)) ??
    ofHolder.find(({ reservedUntil }) => reservedUntil !== undefined);
  if (own && own.reservedUntil === undefined) return connector;
  const kept = { holder, grantIds: own ? withGrant(own, grantId) : [grantId] };
  return {
    ...connector,
    used: connector.used + 1,
    uses: [...connector.uses.filter((use) => use !== own), kept],
  };
}

/** Gives back what was reserved for a grant whose code will never be exchanged; the same connector when nothing was. */
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

const GRANTS_KEPT = 20;

function withGrant({ grantIds }: Use, grantId: string): string[] {
  return [...grantIds.filter((id) => id !== grantId), grantId].slice(-GRANTS_KEPT);
}
