// What the management API answers: connectors, accounts, minted tokens, signing keys and the audit log as JSON, with their schemas; all times are ISO 8601.
import { z } from 'zod';
import type { Account } from '../accounts/account.ts';
import { connectLink } from '../connectors/connect-link.ts';
import { type Connector, CONNECTOR_STATES, connectorState } from '../connectors/connector.ts';
import { type PublishedKey, SIGNING_KEY_STATES } from '../keys/signing-keys.ts';
import type { MintedToken } from '../minted-tokens/minted-tokens.ts';
import { LEVELS } from '../permission-level.ts';

export const time = z.iso.datetime();
export const level = z.enum(LEVELS);

export const connectorSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    level,
    suggestedLevel: level
      .optional()
      .describe('The highest level that the consent page preselects; `level` when missing.'),
    link: z.url(),
    state: z.enum(CONNECTOR_STATES),
    createdAt: time,
    expiresAt: time.optional(),
    maxUses: z.int().optional(),
    uses: z.int().describe('Grants that took a use and kept it.'),
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
      .describe('Whether the identity provider says that the address is the person’s.'),
    identityProvider: z.string().describe('Its issuer, where the person is `subject`.'),
    subject: z.string(),
    signedInAt: time.describe('The last time.'),
    disabledAt: time.optional(),
    forgottenAt: time
      .optional()
      .describe('Nothing else is known of the person since then: `name` is the id.'),
  })
  .meta({ id: 'Account' });

export const forgottenAccountSchema = z
  .strictObject({
    id: z.string().describe('All that is left, here and in the audit log.'),
    isDisabled: z.boolean().describe('Whether the person cannot come back.'),
    endedGrants: z.int(),
  })
  .meta({ id: 'ForgottenAccount' });

export const signingKeySchema = z
  .strictObject({
    id: z.string(),
    state: z.enum(SIGNING_KEY_STATES),
    signsFrom: time,
    publishedUntil: time.optional().describe('When nothing that it signed is good any more.'),
  })
  .meta({ id: 'SigningKey' });

export const mintedTokenSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    level,
    createdAt: time,
    expiresAt: time,
    lastFour: z.string(),
    lastUsedAt: time.optional(),
    keyReplaced: z
      .literal(true)
      .optional()
      .describe('The key that signed it was replaced at once: it is good no longer.'),
  })
  .meta({ id: 'MintedToken' });

export const newTokenSchema = z
  .strictObject({ id: z.string(), name: z.string(), level, expiresAt: time, token: z.string() })
  .meta({ id: 'NewToken', description: 'The answer to minting, and the only one with the token.' });

export const auditItemSchema = z
  .strictObject({
    time,
    event: z.string().describe('`call`, or a security event.'),
    account: z.string().optional(),
    clientId: z.string().optional(),
    connector: z.string().optional(),
    grantId: z.string().optional(),
    by: z
      .string()
      .optional()
      .describe('The account of the administrator who did it in the console.'),
    tool: z.string().optional(),
    arguments: z.unknown().optional(),
    outcome: z.string(),
    reason: z.string().optional(),
  })
  .meta({ id: 'AuditItem' });

/** `next`, when there is more, goes into the query parameter `after`. */
export function pageOf<Item extends z.ZodType>(id: string, item: Item) {
  return z.strictObject({ items: z.array(item), next: z.string().optional() }).meta({ id });
}

export const connectorPage = pageOf('ConnectorPage', connectorSchema);
export const accountPage = pageOf('AccountPage', accountSchema);
export const signingKeyPage = pageOf('SigningKeyPage', signingKeySchema);
export const mintedTokenPage = pageOf('MintedTokenPage', mintedTokenSchema);
export const auditPage = pageOf('AuditPage', auditItemSchema);

export type ConnectorDocument = z.output<typeof connectorSchema>;
export type AccountDocument = z.output<typeof accountSchema>;
export type ForgottenAccountDocument = z.output<typeof forgottenAccountSchema>;
export type SigningKeyDocument = z.output<typeof signingKeySchema>;
export type MintedTokenDocument = z.output<typeof mintedTokenSchema>;
export type NewTokenDocument = z.output<typeof newTokenSchema>;
export type Page<T> = { items: T[]; next?: string | undefined };

export function connectorDocument(
  connector: Connector,
  resourceUrl: string,
  now: number,
): ConnectorDocument {
  const { id, name, level, suggestedLevel, createdAt, expiresAt, maxUses, used } = connector;
  return {
    id,
    name,
    level,
    ...(suggestedLevel === undefined ? {} : { suggestedLevel }),
    link: connectLink(resourceUrl, id),
    state: connectorState(connector, now),
    createdAt: isoTime(createdAt),
    ...(expiresAt === undefined ? {} : { expiresAt: isoTime(expiresAt) }),
    ...(maxUses === undefined ? {} : { maxUses }),
    uses: used,
  };
}

export function accountDocument(account: Account): AccountDocument {
  const { id, name, email, emailVerified, issuer, subject, signedInAt, disabledAt, forgottenAt } =
    account;
  return {
    id,
    name: name || id,
    ...(email === undefined ? {} : { email, emailVerified }),
    identityProvider: issuer,
    subject,
    signedInAt: isoTime(signedInAt),
    ...(disabledAt === undefined ? {} : { disabledAt: isoTime(disabledAt) }),
    ...(forgottenAt === undefined ? {} : { forgottenAt: isoTime(forgottenAt) }),
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
    ...(publishedIds.includes(keyId) ? {} : { keyReplaced: true as const }),
  };
}

export function firstPage<T extends { id: string }>(items: T[], limit: number): Page<T> {
  const page = items.slice(0, limit);
  return items.length > limit ? { items: page, next: page.at(-1)?.id } : { items: page };
}

export function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
