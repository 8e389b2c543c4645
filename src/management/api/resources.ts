// The JSON resources of the management API as schemas, without server code: the command line loads them too. All times are ISO 8601.
import { z } from 'zod';
import { CLIENT_STATES, type ClientKind } from '../../clients/clients.ts';
import { CONNECTION_STATES } from '../../connections/connection.ts';
import { CONNECTOR_STATES } from '../../connectors/connector.ts';
import type { SigningKeyState } from '../../keys/signing-keys.ts';
import { auditEvents } from '../../observability/labels.ts';
import { TOOL_LEVELS } from '../../settings/schema.ts';
import { DISCOVERY_FAULTS } from '../../upstreams/tool-catalog.ts';

const CLIENT_KINDS = [
  'machine',
  'self-registered',
  'metadata-document',
  'pre-registered',
] as const satisfies ClientKind[];
const SIGNING_KEY_STATES = ['next', 'signing', 'retiring'] as const satisfies SigningKeyState[];

const time = z.iso.datetime();
/** A stored level may no longer be in the settings. */
const level = z.string();
const upstream = z
  .string()
  .describe('Id of the MCP server that it leads to. Absent for the sample, or if none was given.');

const audienceRule = z.strictObject({
  email: z.string().optional(),
  emailDomain: z.string().optional(),
  group: z.string().optional(),
  provider: z.string().optional(),
});

export const connectorSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    level,
    suggestedLevel: level
      .optional()
      .describe('The highest level that the consent page preselects. Absent: `level`.'),
    upstream: upstream.optional(),
    audience: z
      .array(audienceRule)
      .optional()
      .describe('The people who may use the connector. Absent: everybody.'),
    link: z.url(),
    state: z.enum(CONNECTOR_STATES),
    createdAt: time,
    expiresAt: time.optional(),
    maxUses: z.int().optional(),
    uses: z.int().describe('Number of grants that have taken a use.'),
  })
  .meta({ id: 'Connector' });

export const accountSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    email: z.string().optional(),
    emailVerified: z
      .boolean()
      .optional()
      .describe('Whether the identity provider verified that the address belongs to the person.'),
    identityProvider: z
      .string()
      .describe('Issuer of the identity provider that `subject` belongs to.'),
    subject: z.string(),
    signedInAt: time.describe('When the person last signed in.'),
    disabledAt: time.optional(),
    forgottenAt: time
      .optional()
      .describe('When the personal data was removed. `name` is the id from then on.'),
  })
  .meta({ id: 'Account' });

export const forgottenAccountSchema = z
  .strictObject({
    id: z.string().describe('The only identifier that remains, here and in the audit log.'),
    isDisabled: z.boolean().describe('Whether the account stays disabled.'),
    endedGrants: z.int(),
  })
  .meta({ id: 'ForgottenAccount' });

export const grantSchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(CONNECTION_STATES),
    reason: z.string().optional().describe('Why the grant ended or is refused, as a code.'),
    explanation: z.string().optional().describe('The reason as an English sentence.'),
    level: level.optional(),
    connector: z.string(),
    connectorName: z.string().optional(),
    account: z.string(),
    accountName: z.string().optional(),
    accountEmail: z.string().optional(),
    accountEmailVerified: z
      .boolean()
      .optional()
      .describe('Whether the identity provider verified that the address belongs to the person.'),
    clientId: z.string(),
    clientName: z.string(),
    redirectHost: z
      .string()
      .describe('Empty if the access went to no redirect URI, as on a device.'),
    createdAt: time,
    lastUsedAt: time.optional().describe('When the client last fetched tokens.'),
    expiresAt: time.optional().describe('When the grant expires if it is not used.'),
    endedAt: time.optional().describe('Absent if the time is not known.'),
    refusals: z
      .array(z.strictObject({ time, reason: z.string(), explanation: z.string() }))
      .describe(
        'Refreshes that were refused while the grant was active, at most one an hour for each reason.',
      ),
  })
  .meta({ id: 'Grant' });

export const clientSchema = z
  .strictObject({
    id: z.string(),
    kind: z.enum(CLIENT_KINDS),
    state: z
      .enum(CLIENT_STATES)
      .describe('`waiting` for an administrator to allow it; `blocked` by a rule.'),
    name: z.string().optional(),
    redirectUris: z.array(z.string()),
    usesDevice: z
      .literal(true)
      .optional()
      .describe('It may also connect devices without a browser (RFC 8628).'),
    lastUsedAt: time.optional(),
    revokedAt: time
      .optional()
      .describe('When the client was revoked. It is refused until it is allowed.'),
    waitingSince: time
      .optional()
      .describe('When a person first tried to connect the client, if it waits.'),
  })
  .meta({ id: 'Client' });

export const revokedClientSchema = z
  .strictObject({ ...clientSchema.shape, endedGrants: z.int() })
  .meta({ id: 'RevokedClient' });

export const clientRuleSchema = z
  .strictObject({
    id: z.string(),
    effect: z.enum(['block', 'allow']),
    host: z.string().optional().describe('Includes its subdomains.'),
    name: z.string().optional(),
    destinations: z
      .array(z.string())
      .readonly()
      .optional()
      .describe('Hosts of redirect URIs that the allowed app may have, or `loopback`.'),
    createdAt: time,
    by: z.string().optional().describe('Who made the rule, as in the audit log.'),
  })
  .meta({ id: 'ClientRule' });

export const blockSchema = z
  .strictObject({ ...clientRuleSchema.shape, endedGrants: z.int() })
  .meta({ id: 'ClientBlock' });

export const signingKeySchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(SIGNING_KEY_STATES),
    signsFrom: time,
    publishedUntil: time.optional().describe('When the last token signed with the key expires.'),
  })
  .meta({ id: 'SigningKey' });

export const mintedTokenSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    level,
    upstream: upstream.optional(),
    createdAt: time,
    by: z
      .string()
      .optional()
      .describe('Who minted it, as in the audit log. Absent if an earlier version minted it.'),
    expiresAt: time,
    lastFour: z.string(),
    lastUsedAt: time.optional(),
    keyReplaced: z
      .literal(true)
      .optional()
      .describe('The signing key was replaced immediately, so the token is no longer valid.'),
  })
  .meta({ id: 'MintedToken' });

export const levelSchema = z
  .strictObject({
    id: z.string(),
    recorded: z.boolean().describe('Whether calls are recorded before their responses.'),
  })
  .meta({ id: 'Level' });

const hint = z.boolean().optional();

export const upstreamSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    url: z.string().describe('Address of the MCP server, without a query.'),
    toolLevels: z
      .enum(TOOL_LEVELS)
      .describe('Where the levels of tools that are not in the settings come from.'),
    defaultLevel: level,
    revision: z.string().optional().describe('The negotiated protocol revision.'),
    seenAt: time.optional().describe('When the tools were last read. Absent if they never were.'),
    triedAt: time.optional().describe('When Gatehouse last tried to read them.'),
    error: z
      .strictObject({ fault: z.enum(DISCOVERY_FAULTS), message: z.string() })
      .optional()
      .describe('Present if the last attempt failed. The message continues "the MCP server".'),
    tools: z.array(
      z.strictObject({
        name: z.string(),
        title: z.string().optional(),
        level: level
          .optional()
          .describe('Absent if the tool is refused, because its name is too similar to another.'),
        isDeclared: z.boolean().describe('Whether the settings name the tool.'),
        readOnlyHint: hint,
        destructiveHint: hint,
        idempotentHint: hint,
        openWorldHint: hint,
      }),
    ),
    missingTools: z.array(z.string()).describe('Tools in the settings that the server lacks.'),
    levels: z
      .array(
        z.strictObject({
          level,
          tools: z.int().describe('Number of tools that can be called with the level.'),
          connectors: z.int().describe('Number of usable connectors with the level.'),
          tokens: z.int().describe('Number of minted tokens with the level.'),
        }),
      )
      .describe('Tools, connectors and minted tokens of each level, the lowest first.'),
  })
  .meta({ id: 'Upstream' });

export const newTokenSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    level,
    upstream: upstream.optional(),
    expiresAt: time,
    token: z.string(),
  })
  .meta({ id: 'NewToken', description: 'The only response that contains the token itself.' });

export const machineSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    connector: z.string(),
    link: z.string().describe('The `resource` of its token requests.'),
    level,
    by: z
      .string()
      .optional()
      .describe('Who created it, as in the audit log. Absent if an earlier version created it.'),
    expiresAt: time,
    authentication: z.enum(['client_secret_basic', 'private_key_jwt']),
    secret: z.string().optional().describe('The only response that contains it.'),
  })
  .meta({ id: 'Machine' });

export const auditItemSchema = z
  .strictObject({
    time,
    event: z.string().describe(`One of ${auditEvents.join(', ')}.`),
    account: z.string().optional(),
    clientId: z.string().optional(),
    connector: z.string().optional(),
    grantId: z.string().optional(),
    by: z
      .string()
      .optional()
      .describe(
        'Who made the change: `key:<name>` for a management key, `account:<id>` for an administrator in the console. Older items have the account id alone.',
      ),
    tool: z.string().optional(),
    arguments: z.unknown().optional().describe('Details of the event.'),
    argumentsJson: z
      .string()
      .optional()
      .describe(
        'The arguments of a call as JSON text, up to 64 kB. Of longer ones, texts and lists above 1 kB are replaced by `{bytes, sha256}`. Older calls have `arguments` in its place.',
      ),
    outcome: z.string(),
    reason: z.string().optional(),
  })
  .meta({ id: 'AuditItem' });

export const connectorPageSchema = pageSchema('ConnectorPage', connectorSchema);
export const accountPageSchema = pageSchema('AccountPage', accountSchema);
export const grantPageSchema = pageSchema('GrantPage', grantSchema);
export const clientPageSchema = pageSchema('ClientPage', clientSchema);
export const clientRulePageSchema = pageSchema('ClientRulePage', clientRuleSchema);
export const signingKeyPageSchema = pageSchema('SigningKeyPage', signingKeySchema);
export const mintedTokenPageSchema = pageSchema('MintedTokenPage', mintedTokenSchema);
export const levelPageSchema = pageSchema('LevelPage', levelSchema);
export const upstreamPageSchema = pageSchema('UpstreamPage', upstreamSchema);
export const auditPageSchema = pageSchema('AuditPage', auditItemSchema);

function pageSchema<Item extends z.ZodType>(id: string, item: Item) {
  const next = z.string().optional().describe('Pass as `after` to get the next page.');
  return z.strictObject({ items: z.array(item), next }).meta({ id });
}

export type ConnectorResource = z.output<typeof connectorSchema>;
export type AccountResource = z.output<typeof accountSchema>;
export type ForgottenAccountResource = z.output<typeof forgottenAccountSchema>;
export type GrantResource = z.output<typeof grantSchema>;
export type ClientResource = z.output<typeof clientSchema>;
export type ClientRuleResource = z.output<typeof clientRuleSchema>;
export type BlockResource = z.output<typeof blockSchema>;
export type RevokedClientResource = z.output<typeof revokedClientSchema>;
export type SigningKeyResource = z.output<typeof signingKeySchema>;
export type MintedTokenResource = z.output<typeof mintedTokenSchema>;
export type UpstreamResource = z.output<typeof upstreamSchema>;
export type MachineResource = z.output<typeof machineSchema>;
export type NewTokenResource = z.output<typeof newTokenSchema>;

export type Page<Item> = { items: Item[]; next?: string | undefined };

/** The order of a page or list that people read: apps that wait first, the last one first. Others keep their order. */
export function lastWaitingFirst(clients: readonly ClientResource[]): ClientResource[] {
  return clients.toSorted((one, other) =>
    (other.waitingSince ?? '').localeCompare(one.waitingSince ?? ''),
  );
}

/** Returns what to call the person of a grant. An address that is not verified may belong to somebody else. */
export function personName({
  account,
  accountName,
  accountEmail,
  accountEmailVerified,
}: GrantResource): string {
  return (accountEmailVerified ? accountEmail : undefined) ?? accountName ?? account;
}
