// Minted tokens: access tokens that an administrator creates for programs.
import * as z from 'zod';
import { tokenExample } from '../../links/app-instructions.ts';
import type { MintedTokenChange, NewMintedToken } from '../../links/minted-tokens.ts';
import type { Levels } from '../../permission-levels.ts';
import { allItems } from '../api/all-items.ts';
import {
  CALLS_OPTION,
  CHANGED_CALLS_OPTION,
  changedToolsOption,
  expiresOption,
  searchOption,
  toolsOption,
} from '../commands/options.ts';
import { resolveId } from '../commands/resolve.ts';
import { minute, plain } from '../commands/terminal.ts';
import { CONSOLE_PATH } from '../console/address.ts';
import { etagOf } from '../etags.ts';
import { represent } from '../represent.ts';
import { callsField, type Fields, lastUsedFields, toolsField } from './fields.ts';
import {
  CALLS_FIELD,
  daysField,
  expiryField,
  type FormField,
  levelField,
  nameField,
  TOOLS_FIELD,
  UPSTREAM_FIELD,
} from './form-fields.ts';
import { openedMember, openedText } from './opened.ts';
import {
  type Argument,
  type ConsoleList,
  type Operation,
  type ResourceCommands,
} from './resource.ts';
import * as schemas from './schemas.ts';
import { UPSTREAM_OPTION, upstreamField } from './upstream.ts';

export const tokenSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    level: schemas.level,
    upstream: schemas.upstream.optional(),
    tools: schemas.tools.optional(),
    createdAt: schemas.time,
    by: z
      .string()
      .optional()
      .describe('Who minted it, as in the audit log. Absent if an earlier version minted it.'),
    expiresAt: schemas.time,
    calls: schemas.calls,
    lastFour: z.string(),
    lastUsedAt: schemas.time.optional(),
    keyReplaced: z
      .literal(true)
      .optional()
      .describe('The signing key was replaced immediately, so the token is no longer valid.'),
  })
  .meta({ id: 'MintedToken' });

export type Token = z.output<typeof tokenSchema>;

/** What an administrator can change. */
export const changeableTokenSchema = tokenSchema.pick({
  name: true,
  expiresAt: true,
  tools: true,
  calls: true,
});

export function tokenEtag(token: z.output<typeof changeableTokenSchema>): string {
  return etagOf(represent(changeableTokenSchema, token));
}

export const newTokenSchema = tokenSchema
  .pick({
    id: true,
    name: true,
    level: true,
    upstream: true,
    tools: true,
    expiresAt: true,
    calls: true,
  })
  .extend({ token: z.string(), ...openedMember })
  .meta({ id: 'NewToken', description: 'The only response that contains the token itself.' });

/** `keyReplaced`: the key that signed it is no longer published, so it is refused. */
const TOKEN_STATES = ['active', 'keyReplaced'] as const;

/** A minted token always expires. */
function newTokenBody(now: number, levels: Levels) {
  return z
    .strictObject(
      {
        name: schemas.newName,
        upstream: schemas.newUpstream,
        level: schemas.levelIn(levels),
        tools: schemas.newTools,
        calls: schemas.newCalls,
        ...schemas.expiryFields(now, schemas.MAX_LIFETIME_SECONDS),
      },
      schemas.OBJECT,
    )
    .refine(schemas.hasOneExpiry, schemas.ONE_EXPIRY)
    .transform(({ expiresIn = schemas.DEFAULT_LIFETIME_SECONDS, ...token }): NewMintedToken => {
      return { expiresAt: now + expiresIn, ...token };
    });
}

function changedTokenBody(now: number) {
  return z
    .strictObject(
      {
        name: schemas.newName.optional(),
        tools: schemas.changedTools,
        calls: schemas.changedCalls,
        ...schemas.expiryFields(now),
      },
      schemas.OBJECT,
    )
    .refine(schemas.hasOneExpiry, schemas.ONE_EXPIRY)
    .transform((sent): MintedTokenChange => schemas.withExpiry(now, sent));
}

export const tokenOperations = {
  mintToken: {
    method: 'post',
    path: '/tokens',
    role: 'operator',
    summary: 'Mints a token. Only this response contains it.',
    body: newTokenBody,
    status: 201,
    response: newTokenSchema,
  },
  listTokens: {
    method: 'get',
    path: '/tokens',
    role: 'viewer',
    summary: 'Lists minted tokens that have not expired, oldest first.',
    query: z.strictObject({
      ...schemas.pageQuery(/^[0-9a-f]{32}$/),
      q: schemas.search('its name, id or last four characters'),
      state: schemas.oneOf(TOKEN_STATES),
    }),
    response: schemas.pageSchema('MintedTokenPage', tokenSchema),
  },
  showToken: {
    method: 'get',
    path: '/tokens/:id',
    role: 'viewer',
    summary: 'Shows a minted token, without the token itself.',
    response: tokenSchema,
    etag: tokenEtag,
  },
  updateToken: {
    method: 'patch',
    path: '/tokens/:id',
    role: 'operator',
    summary:
      'Changes the name of a minted token or what it opens, or makes it expire earlier. Takes effect at the next call.',
    body: changedTokenBody,
    response: tokenSchema,
    etag: tokenEtag,
  },
  revokeToken: {
    method: 'delete',
    path: '/tokens/:id',
    role: 'operator',
    summary: 'Revokes a minted token immediately.',
    response: tokenSchema,
  },
} as const satisfies Record<string, Operation>;

const fields: Fields<Token> = {
  id: { code: 'id' },
  name: { text: 'name' },
  level: { level: 'level', label: 'granted' },
  upstream: upstreamField(),
  tools: toolsField(),
  calls: callsField(),
  endsIn: { text: ({ lastFour }) => `…${lastFour}` },
  created: { time: 'createdAt' },
  lastUsed: {
    time: 'lastUsedAt',
    none: 'never',
    console: ({ lastUsedAt }) => lastUsedFields('lastUsed', lastUsedAt),
  },
  expires: {
    time: 'expiresAt',
    cell: ({ keyReplaced }) => (keyReplaced ? 'key replaced: mint again' : undefined),
  },
};

const EXAMPLES = `
Examples:
  $ gatehouse token mint --name "Nightly report" --level analytics
  $ gatehouse token mint --name "Editor" --level operations --expires 30d
  $ gatehouse token list`;

const TOKEN: Argument = {
  name: 'token',
  help: 'id or unique name, see gatehouse token list',
  resolve: (api, argument) =>
    resolveId<Token>(argument, {
      noun: 'minted token',
      names: ' or name',
      list: () => allItems((query) => api.listTokens({ query })),
      isNamed: ({ name }, text) => name.normalize() === text,
      describe: ({ level, lastFour, createdAt }) =>
        `${level}  ends in …${lastFour}  minted ${minute(createdAt)}`,
      id: /^[0-9a-f]{32}$/,
    }),
};

export const tokenCommands: ResourceCommands = {
  noun: 'token',
  description:
    'mint, change, list and revoke tokens for programs that cannot sign in with a browser',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'mintToken',
      name: 'mint',
      description: 'mint a token and show how to use it',
      options: [
        { flags: '--name <name>', help: 'name in the list of tokens', isRequired: true },
        { flags: '--level <level>', help: 'level of calls made with the token', isRequired: true },
        UPSTREAM_OPTION,
        toolsOption('what it opens'),
        CALLS_OPTION,
        expiresOption('12h, 30d or 366d', 'default: 90d'),
      ],
      help: `
The token is shown only once. It works only at the /mcp address of the resource server.
${EXAMPLES}`,
      text: ({ id, name, level, upstream, opened, calls, expiresAt, token }) => {
        const url = audienceOf(token);
        return `Minted a token. It is shown only once.

  name     ${plain(name)}
  id       ${id}
  level    ${level}${upstream === undefined ? '' : `\n  upstream ${upstream}`}${opened ? `\n  opens    ${openedText(opened)}` : ''}${calls === undefined ? '' : `\n  calls    ${calls}`}
  expires  ${minute(expiresAt)}

Send it with every request to ${url}
  Authorization: Bearer ${token}

For example in mcp.json:
${tokenExample(url, token)}

Anyone with the token can make calls, so keep it out of repositories. To revoke it:
  gatehouse token revoke ${id}
`;
      },
    },
    {
      operation: 'listTokens',
      name: 'list',
      description: 'list minted tokens that have not expired, oldest first',
      options: [searchOption('its name, id or last four characters')],
      fields,
      columns: 'id name level upstream endsIn lastUsed expires',
      empty: `There are no minted tokens. To mint one:
  gatehouse token mint --name "Nightly report" --level analytics`,
    },
    {
      operation: 'updateToken',
      name: 'update',
      description:
        'change the name or the limit of a minted token or what it opens, or make it expire earlier',
      argument: TOKEN,
      options: [
        { flags: '--name <name>', help: 'name in the list of tokens' },
        changedToolsOption('what it opens'),
        CHANGED_CALLS_OPTION,
        expiresOption('12h or 30d', 'not later than now set'),
      ],
      help: `
The time at which a token expires is also in the token itself, so it can only become earlier.`,
      text: ({ name, id, expiresAt }) =>
        `Changed "${plain(name)}" (${id}). It expires ${minute(expiresAt)}.`,
    },
    {
      operation: 'revokeToken',
      name: 'revoke',
      argument: TOKEN,
      description: 'revoke a minted token immediately',
      text: ({ id, name }) => `Revoked "${plain(name)}" (${id}). The token no longer works.`,
    },
  ],
};

/** Returns the only address that accepts the token (RFC 9068 section 3). */
function audienceOf(token: string): string {
  const [, claims = ''] = token.split('.');
  return String(JSON.parse(Buffer.from(claims, 'base64url').toString()).aud);
}

export const tokenList: ConsoleList<Token> = {
  section: 'tokens',
  operation: 'listTokens',
  show: 'showToken',
  limit: 50,
  create: 'mintToken',
  fields,
  title: ({ name }) => name,
  state: ({ keyReplaced }) => (keyReplaced ? 'keyReplaced' : 'active'),
  isOk: ({ keyReplaced }) => !keyReplaced,
  facts: 'level upstream tools calls lastUsed expires',
  details: 'created endsIn id',
  edit: { operation: 'updateToken', path: ({ id }) => `${CONSOLE_PATH}/tokens/${id}/edit` },
  actions: [
    {
      path: 'revoke',
      operation: 'revokeToken',
      done: 'token-revoked',
      button: () => 'revokeToken',
      several: true,
    },
  ],
};

export const tokenEditForm: readonly FormField[] = [
  nameField('console.fields.ownNameNote'),
  TOOLS_FIELD,
  CALLS_FIELD,
  expiryField('tokenExpires', 'console.tokens.expiresNote', true),
];

export const tokenForm: readonly FormField[] = [
  nameField('console.fields.ownNameNote'),
  UPSTREAM_FIELD,
  levelField('console.fields.granted', 'console.fields.grantedNote'),
  TOOLS_FIELD,
  CALLS_FIELD,
  daysField('console.tokens.daysNote'),
];
