// What the management API speaks: connectors, accounts, minted tokens and signing keys as JSON, and pages of a list.
import type { Account } from '../accounts/account.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { type Connector, connectorState, type ConnectorState } from '../connectors/connector.ts';
import type { PublishedKey, SigningKeyState } from '../keys/signing-keys.ts';
import type { MintedToken } from '../minted-tokens/minted-tokens.ts';
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

/** Times are ISO 8601. `signedInAt`: the last time. `identityProvider`: its issuer, where the person is `subject`. */
export type AccountDocument = {
  id: string;
  name: string;
  email?: string;
  identityProvider: string;
  subject: string;
  signedInAt: string;
  disabledAt?: string;
};

/** Times are ISO 8601. `publishedUntil`: when nothing that the key signed is good any more. */
export type SigningKeyDocument = {
  id: string;
  state: SigningKeyState;
  signsFrom: string;
  publishedUntil?: string;
};

/** Times are ISO 8601. */
export type MintedTokenDocument = {
  id: string;
  name: string;
  level: Level;
  createdAt: string;
  expiresAt: string;
  lastFour: string;
  lastUsedAt?: string;
  /** The key that signed it was replaced at once: it is good no longer. */
  keyReplaced?: true;
};

/** The answer to minting, and the only one with the token in it. */
export type NewTokenDocument = Pick<MintedTokenDocument, 'id' | 'name' | 'level' | 'expiresAt'> & {
  token: string;
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

export function accountDocument(account: Account): AccountDocument {
  const { id, name, email, issuer, subject, signedInAt, disabledAt } = account;
  return {
    id,
    name,
    ...(email === undefined ? {} : { email }),
    identityProvider: issuer,
    subject,
    signedInAt: isoTime(signedInAt),
    ...(disabledAt === undefined ? {} : { disabledAt: isoTime(disabledAt) }),
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

/** `publishedIds` are those of the keys that are published now. */
export function mintedTokenDocument(
  { id, name, level, createdAt, expiresAt, lastFour, lastUsedAt, keyId }: MintedToken,
  publishedIds: readonly string[],
): MintedTokenDocument {
  return {
    id,
    name,
    level,
    createdAt: isoTime(createdAt),
    expiresAt: isoTime(expiresAt),
    lastFour,
    ...(lastUsedAt === undefined ? {} : { lastUsedAt: isoTime(lastUsedAt) }),
    ...(publishedIds.includes(keyId) ? {} : { keyReplaced: true }),
  };
}

export function firstPage<T extends { id: string }>(items: T[], limit: number): Page<T> {
  const page = items.slice(0, limit);
  return items.length > limit ? { items: page, next: page.at(-1)?.id } : { items: page };
}

export function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
