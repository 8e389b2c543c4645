// What a person would get through each connector, and by which rule, or why nothing.
import * as z from 'zod';
import { MAX_EMAIL_LENGTH } from '../../people/account.ts';
import { accessRefusals } from '../../observability/labels.ts';
import { RULE_KINDS, RULE_MISSES, type RuleMiss } from '../../people/entitlement.ts';
import { FORBIDDEN_BY } from '../../upstreams/tool-access.ts';
import { plain, table } from '../commands/terminal.ts';
import { ACCOUNT } from './account.ts';
import { CONNECTOR } from './connector.ts';
import { accessLines, accessSchema } from './person-access.ts';
import { NOT_FOUND, type Operation, type ResourceCommands } from './resource.ts';
import * as schemas from './schemas.ts';
import { UPSTREAM_OPTION } from './upstream.ts';

const MAX_GROUPS = 500;
const GROUPS = `at most ${MAX_GROUPS} groups`;
const ADDRESS = 'an email address';

const judgedRule = z.strictObject({
  rule: z.string().describe('Its place: `entitlements[2]` in the settings, or `audience[0]`.'),
  kind: z.enum(RULE_KINDS),
  value: z.string().optional().describe('What it has to be equal to.'),
  provider: z.string().optional(),
  level: schemas.level.optional().describe('What an entitlement gives.'),
  miss: z.enum(RULE_MISSES).optional().describe('Why it does not match. Absent if it does.'),
});

export type JudgedRule = z.output<typeof judgedRule>;

const EXPLAINED_BY = [...FORBIDDEN_BY, 'access', 'unknown'] as const;

const toolAccessMembers = {
  account: z.string(),
  connector: z.string(),
  level: schemas.level
    .nullable()
    .describe('The highest that the person may grant through the connector, or null.'),
  reason: z.enum(accessRefusals).optional().describe('Why there is none.'),
  rules: z
    .array(
      z.strictObject({
        rule: z.string().describe('Its place: `entitlements[2]` in the settings.'),
        level: schemas.level,
        tools: schemas.tools.optional(),
      }),
    )
    .describe('The entitlements that match the person.'),
  tools: z
    .array(
      z.strictObject({
        name: z.string(),
        level: schemas.level.optional().describe('What the tool needs.'),
        allowed: z.boolean().describe('Whether an app with this level may use it.'),
        forbiddenBy: z
          .enum(EXPLAINED_BY)
          .optional()
          .describe(
            '`level`: it needs a higher one. `connector`: its list does not open it. `rule`: no entitlement with a level that suffices opens it. `name`: its name is too similar to another. `held`: it waits for an operator. `access`: the person gets nothing here. `unknown`: the server has no such tool.',
          ),
      }),
    )
    .describe('The tools of the MCP server as they were last read.'),
};

const toolAccessSchema = z.strictObject(toolAccessMembers).meta({ id: 'ToolAccess' });

export type ToolAccess = z.output<typeof toolAccessSchema>;

const opener = z.strictObject({ id: z.string(), name: z.string(), level: schemas.level });

const whoSchema = z
  .strictObject({
    tool: z.string(),
    upstreams: z
      .array(z.strictObject({ upstream: z.string(), level: schemas.level.optional() }))
      .describe('The MCP servers that list the tool, and the level that it needs there.'),
    rules: z
      .array(
        judgedRule.omit({ miss: true }).extend({
          upstream: z.string(),
          tools: schemas.tools.optional(),
        }),
      )
      .describe('The entitlements that open it, with a level that suffices.'),
    connectors: z.array(
      opener.extend({
        upstream: z.string(),
        people: z
          .int()
          .optional()
          .describe('Number of people connected there. Absent if it was not counted.'),
      }),
    ),
    tokens: z.array(opener.extend({ upstream: z.string() })),
    machines: z.array(opener.extend({ connector: z.string() })),
    arePeoplePartial: z
      .literal(true)
      .optional()
      .describe('There are too many connections to count all people.'),
  })
  .meta({ id: 'WhoReaches' });

export type WhoReaches = z.output<typeof whoSchema>;

const NAME = 'the name of a tool';
const toolName = z.string(NAME).min(1, NAME).max(512, NAME);

const explanationSchema = z
  .strictObject({
    ...z.strictObject(toolAccessMembers).partial().shape,
    provider: z.string().describe('The id of the sign-in provider or trusted issuer.'),
    entitlements: z.array(judgedRule),
    access: z.array(
      accessSchema.extend({
        audience: z
          .array(judgedRule)
          .optional()
          .describe('The rules of its audience, if it has one.'),
      }),
    ),
  })
  .meta({ id: 'AccessExplanation' });

export type AccessExplanation = z.output<typeof explanationSchema>;

const missingGroupsSchema = z
  .strictObject({
    items: z.array(
      z.strictObject({
        provider: z.string(),
        rules: z.array(z.string()).describe('The rules about groups: `entitlements[2]`.'),
        remedy: z.string(),
      }),
    ),
  })
  .meta({ id: 'MissingGroups' });

export const accessOperations = {
  explainAccess: {
    method: 'post',
    path: '/access/explain',
    role: 'viewer',
    summary:
      'Says what a person gets through each connector, and why: somebody who has signed in, or anybody with this email address and these groups. Changes nothing.',
    body: () =>
      z.strictObject(
        {
          account: schemas.idSchema('the id of an account').optional(),
          email: z
            .email(ADDRESS)
            .max(MAX_EMAIL_LENGTH, ADDRESS)
            .optional()
            .describe('Counts as verified. With `account`, replaces its address.'),
          groups: z
            .array(z.string('the name of a group').max(500, 'the name of a group'))
            .max(MAX_GROUPS, GROUPS)
            .optional()
            .describe('With `account`, replace its groups.'),
          provider: schemas
            .idSchema('the id of an identity provider or trusted issuer')
            .optional()
            .describe('Default: the owner of the email domain, or the only provider.'),
          connector: schemas
            .idSchema('the id of a connector')
            .optional()
            .describe('Default: all. With one, the response has its tools.'),
          tool: toolName
            .optional()
            .describe('With `connector`: says only what is decided about it.'),
        },
        schemas.OBJECT,
      ),
    isBodyOptional: true,
    response: explanationSchema,
    errors: NOT_FOUND,
  },
  showAccess: {
    method: 'get',
    path: '/access',
    role: 'viewer',
    summary:
      'Says which tools a person may use through a connector, by which entitlements, and what forbids the others.',
    query: z.strictObject({
      account: schemas.idSchema('the id of an account'),
      connector: schemas.idSchema('the id of a connector'),
      tool: toolName.optional().describe('Says only what is decided about it.'),
    }),
    response: toolAccessSchema,
    errors: NOT_FOUND,
  },
  listWhoReaches: {
    method: 'get',
    path: '/access/who',
    role: 'viewer',
    summary:
      'Lists the entitlements, connectors, minted tokens and machines through which a tool can be reached.',
    query: z.strictObject({
      tool: toolName,
      upstream: schemas
        .idSchema('the id of an upstream')
        .optional()
        .describe('Id of an MCP server in the settings. Default: all.'),
    }),
    response: whoSchema,
    errors: NOT_FOUND,
  },
  listMissingGroups: {
    method: 'get',
    path: '/access/missing-groups',
    role: 'viewer',
    summary:
      'Lists identity providers whose groups rules use, through which people signed in within a week, but nobody with groups.',
    response: missingGroupsSchema,
  },
} as const satisfies Record<string, Operation>;

const MISSES: Record<RuleMiss, string> = {
  other_provider: 'is about another identity provider',
  other_subject: 'is about another person',
  no_groups: 'the provider sent no groups',
  groups_omitted: 'the provider left the groups out, because they are too many',
  not_in_group: 'is not in this group',
  not_in_organization: 'is not in this organization',
  no_email: 'the provider sent no email address',
  email_not_verified: 'the email address is not verified',
  other_email: 'has another email address',
  other_email_domain: 'has an address in another domain',
  unusable_rule: 'does not fit the identity providers in the settings',
};

function ruleLine({ rule, kind, value, provider, level, miss }: JudgedRule): string {
  const about = [kind, value && plain(value), provider && `at ${provider}`]
    .filter(Boolean)
    .join(' ');
  const gives = level === undefined ? '' : ` gives ${level}`;
  return `${rule} (${about})${gives}: ${miss === undefined ? 'matches' : `no match, ${MISSES[miss]}`}`;
}

const list = (lines: readonly string[]) => lines.map((line) => `  ${line}`).join('\n');

const FORBIDDEN: Record<(typeof EXPLAINED_BY)[number], string> = {
  level: 'needs a higher level',
  connector: 'the connector does not open it',
  machine: 'the machine does not open it',
  token: 'the minted token does not open it',
  rule: 'no entitlement with a level that suffices opens it',
  name: 'its name is too similar to another',
  held: 'an operator has to approve it first',
  access: 'the person gets nothing here',
  unknown: 'the MCP server has no such tool',
};

function toolsText({ tools }: Pick<ToolAccess, 'tools'>): string {
  if (tools.length === 0) return 'Tools: not known yet.';
  const rows = tools.map(({ name, level, forbiddenBy }) => [
    plain(name),
    level ?? '',
    forbiddenBy ? `no: ${FORBIDDEN[forbiddenBy]}` : 'yes',
  ]);
  return table(['TOOL', 'LEVEL', 'ALLOWED'], rows);
}

function whoText({ tool, upstreams, rules, connectors, tokens, machines, ...who }: WhoReaches) {
  const servers = upstreams.map(
    ({ upstream, level }) => `${upstream} (${level === undefined ? 'refused' : `needs ${level}`})`,
  );
  const listOf = (title: string, lines: string[]) =>
    `${title}:\n${lines.length === 0 ? '  none' : list(lines)}`;
  const named = ({ id, name, level }: { id: string; name: string; level: string }) =>
    `${plain(name)} (${id}): ${level}`;
  return [
    `${plain(tool)} of ${servers.join(', ')}`,
    listOf(
      'Entitlements',
      rules.map((rule) => ruleLine(rule).replace(/: matches$/, '')),
    ),
    listOf(
      'Connectors',
      connectors.map((each) => `${named(each)}, ${each.people ?? 'uncounted'} people connected`),
    ),
    listOf('Minted tokens', tokens.map(named)),
    listOf(
      'Machines',
      machines.map((each) => `${named(each)}, through ${each.connector}`),
    ),
    ...(who.arePeoplePartial ? ['Not all connections were counted.'] : []),
  ].join('\n\n');
}

function explanationText({ provider, entitlements, access, tools }: AccessExplanation): string {
  const audiences = access.flatMap(({ name, audience }) =>
    audience ? [`Audience of ${plain(name)}:\n${list(audience.map(ruleLine))}`] : [],
  );
  return [
    `Through ${provider}:\n${access.length === 0 ? '  There is no connector.' : list(accessLines(access))}`,
    `Entitlements:\n${entitlements.length === 0 ? '  none' : list(entitlements.map(ruleLine))}`,
    ...audiences,
    ...(tools ? [toolsText({ tools })] : []),
  ].join('\n\n');
}

export const accessCommands: ResourceCommands = {
  noun: 'access',
  description: 'explain what a person gets through the connectors, and why',
  examples: `
Examples:
  $ gatehouse access explain --email ada@example.com --groups analysts,staff --connector Reports
  $ gatehouse access explain --account ada@example.com
  $ gatehouse access explain --account ada@example.com --connector Reports --tool delete_order
  $ gatehouse access who --tool delete_order`,
  commands: [
    {
      operation: 'explainAccess',
      name: 'explain',
      description: 'say what a person gets, by which rule, and why other rules do not match',
      help: `
The decision is the one that is made when the person connects an app. It needs nobody who has signed in: without --account, it is about
anybody with this verified email address and these groups.`,
      options: [
        {
          flags: '--account <account>',
          help: ACCOUNT.help,
          members: async (account: string, api) => ({
            account: await ACCOUNT.resolve(api, account),
          }),
        },
        { flags: '--email <address>', help: 'the verified email address' },
        {
          flags: '--groups <groups>',
          help: 'the groups, separated by commas',
          parse: (text: string) =>
            text
              .split(',')
              .map((group) => group.trim())
              .filter(Boolean),
        },
        {
          flags: '--provider <id>',
          help: 'the identity provider or trusted issuer (default: the owner of the email domain, or the only one)',
        },
        {
          flags: '--connector <connector>',
          help: 'id, connect link or unique name (default: all)',
          members: async (connector: string, api) => ({
            connector: await CONNECTOR.resolve(api, connector),
          }),
        },
        {
          flags: '--tool <name>',
          help: 'with --connector: whether this tool may be used, and why',
        },
      ],
      text: explanationText,
    },
    {
      operation: 'listWhoReaches',
      name: 'who',
      description: 'list through what a tool can be reached',
      options: [
        { flags: '--tool <name>', help: 'name of the tool', isRequired: true },
        { ...UPSTREAM_OPTION, help: 'id or unique name of its MCP server (default: all)' },
      ],
      help: `
Lists the entitlements, connectors, minted tokens and machines that open it, and how many people are connected there. Through a connector, a
person needs one of the entitlements, and has to be in its audience.`,
      text: whoText,
    },
  ],
};
