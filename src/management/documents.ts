// What the management API speaks: a connector as JSON, and pages of a list.
import { connectLink } from '../connectors/connect-link.ts';
import { type Connector, connectorState, type ConnectorState } from '../connectors/connector.ts';
import type { PublishedKey, SigningKeyState } from '../keys/signing-keys.ts';
import type { Level } from '../permission-level.ts';

/** Times are ISO 8601. `uses` counts the grants that took a use and kept it. */
export type ConnectorDocument = {
  id: string;
  name: string;
  level: Level;
  link: string;
  state: ConnectorState;
  createdAt: string;
  expiresAt?: string;
  maxUses?: number;
  uses: number;
};

/** Times are ISO 8601. `publishedUntil`: when nothing that the key signed is good any more. */
export type SigningKeyDocument = {
  id: string;
  state: SigningKeyState;
  signsFrom: string;
  publishedUntil?: string;
};

/** `next`, when there is more, goes into the query parameter `after`. */
export type Page<T> = { items: T[]; next?: string };

export function connectorDocument(
  connector: Connector,
  resourceUrl: string,
  now: number,
): ConnectorDocument {
  const { id, name, level, createdAt, expiresAt, maxUses, used } = connector;
  return {
    id,
    name,
    level,
    link: connectLink(resourceUrl, id),
    state: connectorState(connector, now),
    createdAt: isoTime(createdAt),
    ...(expiresAt === undefined ? {} : { expiresAt: isoTime(expiresAt) }),
    ...(maxUses === undefined ? {} : { maxUses }),
    uses: used,
  };
}

export function signingKeyDocument(key: PublishedKey): SigningKeyDocument {
  const { jwk, state, signsFrom, publishedUntil } = key;
  return {
    id: jwk.kid,
    state,
    signsFrom: isoTime(signsFrom),
    ...(publishedUntil === undefined ? {} : { publishedUntil: isoTime(publishedUntil) }),
  };
}

export function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
