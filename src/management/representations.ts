// Turns records into the resources of the management API.
import type { Account } from '../accounts/account.ts';
import type { Client } from '../clients/clients.ts';
import type { Connection } from '../connections/connection.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { type Connector, type ConnectorSettings, connectorState } from '../connectors/connector.ts';
import { reasonText } from '../grants/reasons.ts';
import type { PublishedKey } from '../keys/signing-keys.ts';
import type { MintedToken } from '../minted-tokens/minted-tokens.ts';
import type {
  AccountResource,
  ClientResource,
  ConnectorResource,
  GrantResource,
  MintedTokenResource,
  Page,
  SigningKeyResource,
} from './api/resources.ts';

export function connectorResource(
  connector: Connector,
  settings: ConnectorSettings & { resourceUrl: string },
  now: number,
): ConnectorResource {
  const { id, name, level, suggestedLevel, upstream, audience } = connector;
  const { createdAt, expiresAt, maxUses, used } = connector;
  return {
    id,
    name,
    level,
    suggestedLevel,
    upstream,
    audience,
    link: connectLink(settings.resourceUrl, id),
    state: connectorState(connector, now, settings),
    createdAt: isoTime(createdAt),
    expiresAt: optionalTime(expiresAt),
    maxUses,
    uses: used,
  };
}

export function accountResource(account: Account): AccountResource {
  const { id, name, email, emailVerified, issuer, subject, signedInAt, disabledAt, forgottenAt } =
    account;
  return {
    id,
    name: name || id,
    email,
    emailVerified: email === undefined ? undefined : emailVerified,
    identityProvider: issuer,
    subject,
    signedInAt: isoTime(signedInAt),
    disabledAt: optionalTime(disabledAt),
    forgottenAt: optionalTime(forgottenAt),
  };
}

export function grantResource(connection: Connection): GrantResource {
  const { id, state, reason, level, connector, account, client, refusals } = connection;
  return {
    id,
    state,
    reason,
    explanation: reason && reasonText(reason),
    level,
    connector: connector.id,
    connectorName: connector.name,
    account: account.id,
    accountName: account.name,
    accountEmail: account.email,
    accountEmailVerified: account.emailVerified,
    clientId: client.id,
    clientName: client.name,
    redirectHost: client.redirectHost,
    createdAt: isoTime(connection.createdAt),
    lastUsedAt: optionalSecond(connection.lastUsedAt),
    expiresAt: optionalSecond(connection.expiresAt),
    endedAt: optionalSecond(connection.endedAt),
    refusals: refusals.map((refusal) => ({
      time: isoTime(refusal.at),
      reason: refusal.reason,
      explanation: reasonText(refusal.reason),
    })),
  };
}

export function clientResource(client: Client): ClientResource {
  const { id, kind, state, name, redirectUris, usesDevice, lastUsedAt, revokedAt, waitingSince } =
    client;
  return {
    id,
    kind,
    state,
    name,
    redirectUris,
    ...(usesDevice ? { usesDevice } : {}),
    lastUsedAt: optionalSecond(lastUsedAt),
    revokedAt: optionalSecond(revokedAt),
    waitingSince: optionalSecond(waitingSince),
  };
}

export function signingKeyResource(key: PublishedKey): SigningKeyResource {
  const { jwk, state, signsFrom, publishedUntil } = key;
  return {
    id: jwk.kid,
    state,
    signsFrom: isoTime(signsFrom),
    publishedUntil: optionalTime(publishedUntil),
  };
}

/** `publishedKeyIds` are the ids of the currently published signing keys. */
export function mintedTokenResource(
  { id, name, level, upstream, createdAt, by, expiresAt, lastFour, lastUsedAt, keyId }: MintedToken,
  publishedKeyIds: readonly string[],
): MintedTokenResource {
  return {
    id,
    name,
    level,
    upstream,
    createdAt: isoTime(createdAt),
    by,
    expiresAt: isoTime(expiresAt),
    lastFour,
    lastUsedAt: optionalTime(lastUsedAt),
    keyReplaced: publishedKeyIds.includes(keyId) ? undefined : true,
  };
}

/** Returns the first `limit` items. `next` is the id of the last one if there are more. */
export function firstPage<Item extends { id: string }>(items: Item[], limit: number): Page<Item> {
  const page = items.slice(0, limit);
  return items.length > limit ? { items: page, next: page.at(-1)?.id } : { items: page };
}

/** Converts seconds since the epoch to ISO 8601. */
export function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

function optionalTime(seconds: number | undefined): string | undefined {
  return seconds === undefined ? undefined : isoTime(seconds);
}

function optionalSecond(seconds: number | undefined): string | undefined {
  return seconds === undefined ? undefined : isoTime(Math.floor(seconds));
}
