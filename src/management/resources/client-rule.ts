// Rules that block and allow clients by host or name.
import * as z from 'zod';
import { blockableHost, comparableName } from '../../clients/rules.ts';
import { ManagementError } from '../api/management-error.ts';
import { plain, quoted } from '../commands/terminal.ts';
import { codeField, type Fields } from './fields.ts';
import { type Command, type ConsoleList, type Operation } from './resource.ts';
import * as schemas from './schemas.ts';

export const clientRuleSchema = z
  .strictObject({
    id: z.string(),
    key: schemas.key.optional(),
    effect: z.enum(['block', 'allow']),
    host: z.string().optional().describe('Includes its subdomains.'),
    name: z.string().optional(),
    destinations: z
      .array(z.string())
      .readonly()
      .optional()
      .describe('Hosts of redirect URIs that the allowed app may have, or `loopback`.'),
    createdAt: schemas.time,
    by: z.string().optional().describe('Who made the rule, as in the audit log.'),
  })
  .meta({ id: 'ClientRule' });

export type ClientRule = z.output<typeof clientRuleSchema>;

const HOST =
  'a host name such as evil.example, without scheme, port, path and *; not a loopback host';
const BLOCKED_NAME = `${schemas.VISIBLE_CHARACTERS} with a letter or digit`;
const ONE_BLOCK = 'either host or name';

export type BlockBody = { host: string } | { name: string };

export const blockBody = z
  .strictObject(
    {
      host: z
        .string(HOST)
        .max(500, HOST)
        .transform((text, context) => {
          const host = blockableHost(text);
          if (host === undefined) context.addIssue(HOST);
          return host ?? z.NEVER;
        })
        .optional()
        .describe('Blocks this host and its subdomains in redirect URIs and metadata documents.'),
      name: z
        .string(BLOCKED_NAME)
        .trim()
        .regex(schemas.NAME, BLOCKED_NAME)
        .refine((name) => comparableName(name) !== '', BLOCKED_NAME)
        .optional()
        .describe('Blocks this name. Case, spaces, punctuation and accents are ignored.'),
    },
    schemas.OBJECT,
  )
  .refine(({ host, name }) => (host === undefined) !== (name === undefined), {
    error: ONE_BLOCK,
    when: ({ value, issues }) => typeof value === 'object' && value !== null && issues.length === 0,
  })
  .transform(({ host, name = '' }): BlockBody => (host === undefined ? { name } : { host }));

export const clientRuleOperations = {
  listClientRules: {
    method: 'get',
    path: '/client-rules',
    role: 'viewer',
    summary: 'Lists the rules that block hosts and names or allow apps.',
    response: schemas.pageSchema('ClientRulePage', clientRuleSchema),
  },
  blockClients: {
    method: 'post',
    path: '/client-rules',
    role: 'operator',
    summary:
      'Blocks current and future apps with a host or name. Their grants end, and they cannot register or be connected.',
    body: () => blockBody,
    response: z
      .strictObject({ ...clientRuleSchema.shape, endedGrants: z.int() })
      .meta({ id: 'ClientBlock' }),
    errors: { 409: 'There are too many rules.' },
  },
  removeClientRule: {
    method: 'delete',
    path: '/client-rules/:id',
    role: 'operator',
    summary: 'Removes an app rule. Ended grants are not restored.',
    response: clientRuleSchema,
  },
} as const satisfies Record<string, Operation>;

const fields: Fields<ClientRule> = {
  id: { code: 'id' },
  key: { code: 'key', isColumn: (items) => items.some(({ key }) => key !== undefined) },
  effect: { text: 'effect' },
  what: { text: ruleText },
  kind: {
    console: ({ host }) => {
      const code = host === undefined ? 'name' : 'host';
      return [{ label: 'comparedBy', code, textKey: `console.rules.${code}` }];
    },
  },
  destinations: {
    console: ({ destinations = [] }) =>
      destinations.map((destination) =>
        codeField('redirectHost', destination === 'loopback' ? 'localhost' : destination),
      ),
  },
  since: { time: 'createdAt' },
  by: { code: 'by' },
};

function ruleText({ host, name = '', destinations }: ClientRule): string {
  if (host !== undefined) return `host ${host}`;
  return `name ${quoted(name)}${destinations ? ` with ${destinations.join(', ')}` : ''}`;
}

function removedText(rule: ClientRule): string {
  const did = rule.effect === 'block' ? 'blocked' : 'allowed';
  return `Removed the rule that ${did} the ${plain(ruleText(rule))}.`;
}

/** The commands of `gatehouse client` for rules. */
export const ruleCommands: readonly Command[] = [
  {
    operation: 'listClientRules',
    name: 'rules',
    description: 'list the rules that block or allow apps',
    fields,
    columns: 'id key effect what since by',
    empty: 'There are no rules.',
  },
  {
    operation: 'blockClients',
    name: 'block',
    description: 'block current and future apps with this host or name',
    options: [
      {
        flags: '--host <host>',
        help: 'host of redirect URIs or metadata documents, including subdomains',
      },
      { flags: '--name <name>', help: 'name of the app' },
    ],
    help: `
Ends all grants of matching apps. Name matching ignores case, spaces, punctuation and accents. An app can change its name,
so prefer --host.

Examples:
  $ gatehouse client block --host evil.example
  $ gatehouse client block --name "Evil App"
  $ gatehouse client unblock --host evil.example`,
    text: ({ endedGrants, ...rule }) => {
      const grants = endedGrants === 1 ? '1 grant' : `${endedGrants} grants`;
      return `Blocked the ${plain(ruleText(rule))} and ended ${grants}. Matching apps cannot register or be connected.`;
    },
  },
  {
    operation: 'removeClientRule',
    name: 'unblock',
    description: 'unblock a host or name; ended grants are not restored',
    options: [
      { flags: '--host <host>', help: 'blocked host' },
      { flags: '--name <name>', help: 'blocked name' },
    ],
    run: async (api, { options: { host, name } }) => {
      const { items } = await api.listClientRules();
      const isIt = (rule: ClientRule) =>
        rule.effect === 'block' && rule.host === host && rule.name === name;
      const found = items.find(isIt);
      if (found) return api.removeClientRule({ id: found.id });
      const message = 'this host or name is not blocked: see gatehouse client rules';
      throw new ManagementError('not_found', message);
    },
    text: removedText,
  },
  {
    operation: 'removeClientRule',
    name: 'remove-rule',
    description: 'remove a rule; apps that people have connected stay allowed',
    argument: { name: 'id', help: 'id of a rule, see gatehouse client rules' },
    text: removedText,
  },
];

export const ruleList: ConsoleList<ClientRule> = {
  section: 'rules',
  operation: 'listClientRules',
  limit: Infinity,
  block: 'blockClients',
  fields,
  title: ({ host, name = '' }) => host ?? name,
  state: ({ effect }) => (effect === 'block' ? 'blocked' : 'allowed'),
  isOk: ({ effect }) => effect === 'allow',
  facts: 'kind destinations since',
  details: 'id by',
  actions: [
    {
      path: 'remove',
      operation: 'removeClientRule',
      done: 'rule-removed',
      button: ({ effect }) => (effect === 'block' ? 'removeBlock' : 'removeAllow'),
    },
  ],
};
