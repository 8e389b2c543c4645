// What the management API says of grants and clients: JSON, with the reasons in words, and the schemas of it; all times are ISO 8601.
import { z } from 'zod';
import { type Client, CLIENT_KINDS } from '../clients/clients.ts';
import { type Connection, CONNECTION_STATES } from '../connections/connection.ts';
import { reasonText } from '../grants/reasons.ts';
import { isoTime, level, pageOf, time } from './documents.ts';

/** Names are missing where nobody knows them any more. */
export const grantSchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(CONNECTION_STATES),
    reason: z.string().optional().describe('Why it ended or is refused, as a code.'),
    explanation: z.string().optional().describe('The same in words.'),
    level: level.optional(),
    connector: z.string(),
    connectorName: z.string().optional(),
    account: z.string(),
    accountName: z.string().optional(),
    accountEmail: z.string().optional(),
    accountEmailVerified: z
      .boolean()
      .optional()
      .describe('Whether the identity provider says that the address is the person’s.'),
    clientId: z.string(),
    clientName: z.string(),
    redirectHost: z.string(),
    createdAt: time,
    lastUsedAt: time.optional().describe('When the client last fetched tokens.'),
    expiresAt: time.optional().describe('When it runs out, unless it is used.'),
    endedAt: time.optional().describe('Missing when nobody knows when.'),
    refusals: z
      .array(z.strictObject({ time, reason: z.string(), explanation: z.string() }))
      .describe('Refreshes that were refused while it stood: of one reason once an hour at most.'),
  })
  .meta({ id: 'Grant' });

export const clientSchema = z
  .strictObject({
    id: z.string(),
    kind: z.enum(CLIENT_KINDS),
    state: z.enum(['allowed', 'revoked']),
    name: z.string().optional(),
    redirectUris: z.array(z.string()),
    lastUsedAt: time.optional(),
    revokedAt: time.optional().describe('Refused since then, until somebody allows it again.'),
  })
  .meta({ id: 'Client' });

export const revokedClientSchema = z
  .strictObject({ ...clientSchema.shape, endedGrants: z.int() })
  .meta({ id: 'RevokedClient' });

export const grantPage = pageOf('GrantPage', grantSchema);
export const clientPage = pageOf('ClientPage', clientSchema);

export type GrantDocument = z.output<typeof grantSchema>;
export type ClientDocument = z.output<typeof clientSchema>;
export type RevokedClientDocument = z.output<typeof revokedClientSchema>;

export function grantDocument(connection: Connection): GrantDocument {
  const { id, state, reason, connector, account, client, refusals } = connection;
  return present({
    id,
    state,
    reason,
    explanation: reason && reasonText(reason),
    level: connection.level,
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

/** How the person is called: an address that was not verified may be somebody else's. */
export function personIn({
  account,
  accountName,
  accountEmail,
  accountEmailVerified,
}: GrantDocument): string {
  return (accountEmailVerified ? accountEmail : undefined) ?? accountName ?? account;
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
