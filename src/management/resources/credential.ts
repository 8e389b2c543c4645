// Credentials of people at the operator's MCP servers. What authenticates at the server is never shown.
import * as z from 'zod';
import { OPERATOR } from '../../credentials/operator.ts';
import { plain } from '../commands/terminal.ts';
import { recordPath } from '../console/address.ts';
import { ACCOUNT } from './account.ts';
import type { Fields } from './fields.ts';
import { NOT_FOUND, type Argument, type Operation, type ResourceCommands } from './resource.ts';
import * as schemas from './schemas.ts';
import { UPSTREAM_OPTION } from './upstream.ts';

export const credentialSchema = z
  .strictObject({
    id: z.string(),
    account: z
      .string()
      .describe('Id of the account; `operator` for the credential with which tools are read.'),
    accountName: z.string().optional().describe('Name of the person.'),
    upstream: z.string().describe('Id of the MCP server.'),
    kind: z.enum(['oauth', 'exchange', 'key']),
    name: z.string().optional().describe('The account at the service, as the service names it.'),
    scopes: z.array(z.string()).describe('Granted by the service.'),
    connectedAt: schemas.time,
    expiresAt: schemas.time
      .optional()
      .describe('When the token expires. It is renewed before, where the service allows it.'),
    isRenewed: z.boolean().describe('Whether Gatehouse can renew the token without the person.'),
    failedAt: schemas.time.optional().describe('When a renewal last failed.'),
  })
  .meta({ id: 'Credential' });

export type CredentialResource = z.output<typeof credentialSchema>;

const ID = /^[a-z][a-z0-9-]{0,31}\.([\w-]{27}|operator)$/;

export const credentialOperations = {
  listCredentials: {
    method: 'get',
    path: '/credentials',
    role: 'viewer',
    summary: "Lists the credentials of people at the operator's MCP servers.",
    query: z.strictObject({
      ...schemas.pageQuery(ID),
      account: schemas.idSchema('the id of an account').optional(),
      upstream: schemas.upstream.optional(),
    }),
    response: schemas.pageSchema('CredentialPage', credentialSchema),
  },
  endCredential: {
    method: 'delete',
    path: '/credentials/:id',
    role: 'operator',
    summary:
      'Ends a credential immediately, and revokes it at its service. The person is asked to connect the account again at the next call.',
    response: credentialSchema,
    errors: NOT_FOUND,
  },
} as const satisfies Record<string, Operation>;

export const credentialFields: Fields<CredentialResource> = {
  id: { code: 'id' },
  person: {
    text: ({ accountName, account }) => accountName ?? account,
    href: ({ account }) => (account === OPERATOR ? undefined : recordPath('accounts', account)),
  },
  upstream: { text: 'upstream' },
  kind: { text: 'kind' },
  name: { text: 'name' },
  scopes: { text: ({ scopes }) => scopes.join(' ') || undefined },
  connected: { time: 'connectedAt' },
  expires: { time: 'expiresAt', none: 'never' },
  lastFailed: { time: 'failedAt' },
};

const CREDENTIAL: Argument = {
  name: 'credential',
  help: 'id, see gatehouse credential list',
};

export const credentialCommands: ResourceCommands = {
  noun: 'credential',
  description: "list and end people's own credentials at MCP servers",
  examples: `
Examples:
  $ gatehouse credential list
  $ gatehouse credential list --account ada@example.com
  $ gatehouse credential end tools.mZ0v5LxT2wQYb8n1kRr7c4Xe9aU`,
  commands: [
    {
      operation: 'listCredentials',
      name: 'list',
      description: 'list credentials, oldest first',
      options: [
        {
          flags: '--account <account>',
          help: `only those of this person: ${ACCOUNT.help}`,
          members: async (given: string, api) => ({ account: await ACCOUNT.resolve(api, given) }),
        },
        { ...UPSTREAM_OPTION, help: 'id or unique name of the MCP server (default: all)' },
      ],
      fields: credentialFields,
      sort: (credentials) =>
        credentials.toSorted((a, b) => a.connectedAt.localeCompare(b.connectedAt)),
      columns: 'id person upstream kind name scopes connected expires',
      empty: 'Nobody has connected an account at an MCP server.',
    },
    {
      operation: 'endCredential',
      name: 'end',
      argument: CREDENTIAL,
      description: 'end a credential immediately, and revoke it at its service',
      text: ({ id, accountName, account, upstream }) =>
        `Ended ${id}. ${plain(accountName ?? account)} is asked to connect the account again at the next call of ${plain(upstream)}.`,
    },
  ],
};
