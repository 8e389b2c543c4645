// A connector: what an administrator created, and the rules of its life. Pure: no I/O, no clock.
import { randomBytes } from 'node:crypto';
import type { Level } from '../permission-level.ts';

/** One grant that took a use: reserved until a moment (seconds), kept once the code was exchanged. */
export type Use = { grantId: string; holder: string; reservedUntil?: number };

/** Times are seconds since the epoch. */
export type Connector = {
  id: string;
  name: string;
  level: Level;
  createdAt: number;
  expiresAt?: number;
  revokedAt?: number;
  maxUses?: number;
  /** Grants that kept a use, ever. */
  used: number;
  /** Held only by connectors with a limit, so never more than `maxUses` long. */
  uses: Use[];
};

export type ConnectorState = 'active' | 'used-up' | 'expired' | 'revoked';

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
export function liveUses(connector: Connector, now: number): Use[] {
  return connector.uses.filter((use) => use.reservedUntil === undefined || use.reservedUntil > now);
}

/** Undefined when no use is left. A holder's own earlier reservation is replaced, so trying twice takes one use. */
export function reserveUse(connector: Connector, use: Use, now: number): Connector | undefined {
  if (connector.maxUses === undefined) return connector;
  const others = liveUses(connector, now).filter(
    ({ holder, reservedUntil }) => holder !== use.holder || reservedUntil === undefined,
  );
  return others.length < connector.maxUses ? { ...connector, uses: [...others, use] } : undefined;
}

/** Counts the use of a grant whose code was exchanged. A use that is already kept is not counted again. */
export function keepUse(connector: Connector, grantId: string): Connector {
  if (connector.maxUses === undefined) return { ...connector, used: connector.used + 1 };
  const use = connector.uses.find((candidate) => candidate.grantId === grantId);
  if (use?.reservedUntil === undefined) return connector;
  const others = connector.uses.filter((candidate) => candidate !== use);
  const kept = { grantId, holder: use.holder };
  return { ...connector, used: connector.used + 1, uses: [...others, kept] };
}
