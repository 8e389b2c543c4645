// What the management API says of grants and clients: JSON, with the reasons in words.
import type { Client, ClientKind } from '../clients/clients.ts';
import type { Connection, ConnectionState } from '../connections/connection.ts';
import { type Reason, reasonText } from '../grants/reasons.ts';
import type { Level } from '../permission-level.ts';
import { isoTime } from './documents.ts';

/**
 * Times are ISO 8601. Names are missing where nobody knows them any more. `lastUsedAt`: when the client last fetched tokens. `expiresAt`: when
 * it runs out unless it is used. `endedAt` is missing when nobody knows when.
 */
export type GrantDocument = {
  id: string;
  state: ConnectionState;
  reason?: Reason;
  explanation?: string;
  level?: Level;
  connector: string;
  connectorName?: string;
  account: string;
  accountName?: string;
  accountEmail?: string;
  clientId: string;
  clientName: string;
  redirectHost: string;
  createdAt: string;
  lastUsedAt?: string;
  expiresAt?: string;
  endedAt?: string;
  /** Refreshes that were refused while the grant stood: the last few, of one reason once an hour at most. */
  refusals: { time: string; reason: Reason; explanation: string }[];
};

/** `revokedAt`: refused since then, until somebody allows it again. */
export type ClientDocument = {
  id: string;
  kind: ClientKind;
  state: 'allowed' | 'revoked';
  name?: string;
  redirectUris: string[];
  lastUsedAt?: string;
  revokedAt?: string;
};

/** The answer to revoking a client. */
export type RevokedClientDocument = ClientDocument & { endedGrants: number };

export function grantDocument(connection: Connection): GrantDocument {
  const { id, state, reason, level, connector, account, client, refusals } = connection;
  return present({
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
    clientId: client.id,
    clientName: client.name,
    redirectHost: client.redirectHost,
    createdAt: isoTime(connection.createdAt),
    lastUsedAt: timeOf(connection.lastUsedAt),
    expiresAt: timeOf(connection.expiresAt),
    endedAt: timeOf(connection.endedAt),
    refusals: refusals.map((refusal) => ({
      time: isoTime(refusal.at),
      reason: refusal.reason,
      explanation: reasonText(refusal.reason),
    })),
  });
}

export function clientDocument(client: Client): ClientDocument {
  const { id, kind, name, redirectUris, lastUsedAt, revokedAt } = client;
  return present({
    id,
    kind,
    state: revokedAt === undefined ? ('allowed' as const) : ('revoked' as const),
    name,
    redirectUris,
    lastUsedAt: timeOf(lastUsedAt),
    revokedAt: timeOf(revokedAt),
  });
}

function timeOf(seconds: number | undefined): string | undefined {
  return seconds === undefined ? undefined : isoTime(Math.floor(seconds));
}

type Present<T> = { [Name in keyof T as undefined extends T[Name] ? never : Name]: T[Name] } & {
  [Name in keyof T as undefined extends T[Name] ? Name : never]?: Exclude<T[Name], undefined>;
};

/** Without the members that are undefined. */
function present<T extends object>(document: T): Present<T> {
  const entries = Object.entries(document).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Present<T>;
}
