// Connectors: the links that people add to their apps.
import * as z from 'zod';
import { MAX_EMAIL_LENGTH } from '../../people/account.ts';
import { claudeCommand } from '../../links/app-instructions.ts';
import {
  AUDIENCE_FORMS,
  audienceText,
  MAX_AUDIENCE_RULES,
  parseAudienceRule,
} from '../../links/audience.ts';
import { canonicalResource } from '../../links/connect-link.ts';
import { CONNECTOR_ID, CONNECTOR_STATES, type ConnectorChange } from '../../links/connector.ts';
import type { NewConnector } from '../../links/connectors.ts';
import { isAtLeast, type Levels } from '../../permission-levels.ts';
import type { AudienceRule } from '../../settings/entitlements.ts';
import { emailDomain } from '../../settings/identity-provider-schema.ts';
import { allItems } from '../api/all-items.ts';
import type { ManagementClient } from '../api/client.ts';
import { ManagementError } from '../api/management-error.ts';
import {
  CALLS_OPTION,
  CHANGED_CALLS_OPTION,
  changedExpiresOption,
  DRY_RUN,
  expiresOption,
  InvalidOptionValue,
  parseCount,
  changedToolsOption,
  searchOption,
  toolsOption,
} from '../commands/options.ts';
import { foundOnly, resolveId } from '../commands/resolve.ts';
import { minute, plain } from '../commands/terminal.ts';
import { recordPath } from '../console/address.ts';
import { etagOf } from '../etags.ts';
import { represent } from '../represent.ts';
import { affectedMembers, affectedText } from './affected.ts';
import { callsField, dateFields, detailsText, type Fields, toolsField } from './fields.ts';
import {
  CALLS_FIELD,
  daysField,
  expiryField,
  type FormField,
  type Note,
  levelField,
  linesIn,
  nameField,
  TOOLS_FIELD,
  UPSTREAM_FIELD,
} from './form-fields.ts';
import { openedField, openedMember } from './opened.ts';
import {
  type Argument,
  type ConsoleList,
  type Operation,
  type ResourceCommands,
} from './resource.ts';
import * as schemas from './schemas.ts';
import { UPSTREAM_OPTION, upstreamField } from './upstream.ts';

const audienceRule = z.strictObject({
  email: z.string().optional(),
  emailDomain: z.string().optional(),
  group: z.string().optional(),
  provider: z.string().optional(),
});

export const connectorSchema = z
  .strictObject({
    id: z.string(),
    key: schemas.key.optional(),
    name: z.string(),
    level: schemas.level,
    suggestedLevel: schemas.level
      .optional()
      .describe('The highest level that the consent page preselects. Absent: `level`.'),
    upstream: schemas.upstream.optional(),
    audience: z
      .array(audienceRule)
      .optional()
      .describe('The people who may use the connector. Absent: everybody.'),
    tools: schemas.tools.optional(),
    link: z.url(),
    state: z.enum(CONNECTOR_STATES),
    paused: z
      .literal(true)
      .optional()
      .describe('An administrator paused it. If only its MCP server is paused, `state` says so.'),
    createdAt: schemas.time,
    expiresAt: schemas.time.optional(),
    maxUses: z.int().optional(),
    calls: schemas.calls,
    uses: z.int().describe('Number of grants that have taken a use.'),
  })
  .meta({ id: 'Connector' });

export type Connector = z.output<typeof connectorSchema>;

/** With how many of the people who have signed in its audience matches. */
const shownSchema = connectorSchema
  .extend({
    ...openedMember,
    people: z
      .strictObject({
        matched: z.int(),
        known: z.int().describe('How many people were compared, at most 2000.'),
      })
      .optional()
      .describe('How many of the known people the audience matches. Absent without an audience.'),
  })
  .meta({ id: 'ShownConnector' });

export type ShownConnector = z.output<typeof shownSchema>;

/** What an administrator can change. */
export const changeableSchema = connectorSchema.pick({
  key: true,
  name: true,
  level: true,
  suggestedLevel: true,
  audience: true,
  tools: true,
  expiresAt: true,
  maxUses: true,
  calls: true,
  paused: true,
});

const changedSchema = connectorSchema
  .extend({ ...affectedMembers, ...openedMember })
  .meta({ id: 'ChangedConnector' });

export type ChangedConnector = z.output<typeof changedSchema>;

export type Changeable = z.output<typeof changeableSchema>;

export function connectorEtag(connector: Changeable): string {
  return etagOf(represent(changeableSchema, connector));
}

/** The record of a connector, which every call reads, holds an entry for each use. */
const MAX_USES = 10_000;
const USES = `a whole number from 1 to ${MAX_USES}`;
const MAX_DOMAIN_LENGTH = 253;
const VISIBLE_TEXT =
  /^[^\p{Cc}\p{Cs}\p{Bidi_Control}\u00AD\u200B\u2028\u2029\u2060\uFEFF]{1,200}$/u;
const GROUP = '1 to 200 visible characters';
const CRITERION = 'exactly one of email, emailDomain and group';
const RULES = `a list of 1 to ${MAX_AUDIENCE_RULES} rules, each with ${CRITERION}; without it, or with null in a change, it is for everybody`;
const PROVIDER = 'the id of an identity provider or trusted issuer';

const newAudienceRule = z
  .strictObject(
    {
      email: z
        .email('an email address')
        .max(MAX_EMAIL_LENGTH, 'an email address')
        .toLowerCase()
        .optional()
        .describe('Matches one person by a verified email address.'),
      emailDomain: emailDomain
        .max(MAX_DOMAIN_LENGTH, 'a domain such as example.com')
        .toLowerCase()
        .optional()
        .describe('Matches everybody with a verified email address in this domain.'),
      group: z
        .string(GROUP)
        .regex(VISIBLE_TEXT, GROUP)
        .optional()
        .describe('Matches the members of a group.'),
      provider: z
        .string(PROVIDER)
        .min(1, PROVIDER)
        .max(MAX_DOMAIN_LENGTH, PROVIDER)
        .optional()
        .describe(
          'Id of the sign-in provider or trusted issuer that must assert this. Required for a group if there are several sign-in providers. A rule without it never applies to a trusted issuer.',
        ),
    },
    CRITERION,
  )
  .refine(
    ({ email, emailDomain: domain, group }) =>
      [email, domain, group].filter((criterion) => criterion !== undefined).length === 1,
    CRITERION,
  );

export const audience = z
  .array(newAudienceRule, RULES)
  .min(1, RULES)
  .max(MAX_AUDIENCE_RULES, RULES)
  .describe('The people who may use the connector. Absent: everybody.');
export const maxUses = z.int(USES).min(1, USES).max(MAX_USES, USES);

/** `now` and the resulting `expiresAt` are in seconds. */
function newConnectorBody(now: number, levels: Levels) {
  const level = schemas.levelIn(levels);
  return z
    .strictObject(
      {
        name: schemas.newName,
        upstream: schemas.newUpstream,
        level,
        suggestedLevel: level.optional(),
        audience: audience.optional(),
        tools: schemas.newTools,
        maxUses: maxUses.optional(),
        calls: schemas.newCalls,
        ...schemas.expiryFields(now),
      },
      schemas.OBJECT,
    )
    .refine(schemas.hasOneExpiry, schemas.ONE_EXPIRY)
    .refine(
      ({ level: max, suggestedLevel: suggested }) =>
        suggested === undefined || isAtLeast(levels, max, suggested),
      { error: 'at most the level of the connector', path: ['suggestedLevel'] },
    )
    .transform(({ expiresIn, ...connector }): NewConnector => {
      return expiresIn === undefined ? connector : { ...connector, expiresAt: now + expiresIn };
    });
}

/** `null` removes a member. The handler checks the suggested level against the level, which may not be sent. */
function changedConnectorBody(now: number, levels: Levels) {
  const level = schemas.levelIn(levels);
  return z
    .strictObject(
      {
        name: schemas.newName.optional(),
        level: level.optional(),
        suggestedLevel: level.nullable().optional(),
        audience: audience.nullable().optional(),
        tools: schemas.changedTools,
        maxUses: maxUses.nullable().optional(),
        calls: schemas.changedCalls,
        paused: z
          .boolean('true or false')
          .optional()
          .describe('Calls get an error and nobody can connect, until it is `false`.'),
        ...schemas.changedExpiryFields(now),
      },
      schemas.OBJECT,
    )
    .refine(schemas.hasOneExpiry, schemas.ONE_EXPIRY)
    .transform((sent): ConnectorChange => schemas.withExpiry(now, sent));
}

export const connectorOperations = {
  createConnector: {
    method: 'post',
    path: '/connectors',
    role: 'operator',
    summary: 'Creates a connector. People add its `link` to their app.',
    body: newConnectorBody,
    status: 201,
    response: shownSchema,
    location: ({ id }) => `/connectors/${id}`,
  },
  listConnectors: {
    method: 'get',
    path: '/connectors',
    role: 'viewer',
    summary: 'Lists connectors, oldest first.',
    query: z.strictObject({
      ...schemas.pageQuery(/^\d{1,12}(\.\d{1,9})?-[A-Za-z0-9]{22}$/),
      q: schemas.search('its name, id or link'),
      state: schemas.oneOf(CONNECTOR_STATES),
    }),
    response: schemas.pageSchema('ConnectorPage', connectorSchema),
  },
  showConnector: {
    method: 'get',
    path: '/connectors/:id',
    role: 'viewer',
    summary: 'Shows a connector.',
    response: shownSchema,
    etag: connectorEtag,
  },
  updateConnector: {
    method: 'patch',
    path: '/connectors/:id',
    role: 'operator',
    summary:
      'Changes the members that are sent; `null` removes one. Takes effect at the next call. Nobody gets a higher level than was granted.',
    query: schemas.dryRunQuery,
    body: changedConnectorBody,
    response: changedSchema,
    etag: connectorEtag,
    errors: { 409: 'The connector was revoked or has expired.' },
  },
  revokeConnector: {
    method: 'delete',
    path: '/connectors/:id',
    role: 'operator',
    summary: 'Revokes a connector. All grants made through it end immediately.',
    response: connectorSchema,
  },
  deleteConnector: {
    method: 'post',
    path: '/connectors/:id/delete',
    role: 'operator',
    summary: 'Deletes a connector that is revoked or has expired.',
    response: connectorSchema,
    errors: { 409: 'The connector still works. Revoke it first.' },
  },
} as const satisfies Record<string, Operation>;

const TEXTS = 'console.connectors';
const EVERYBODY = { label: 'audience', textKey: `${TEXTS}.everybody` };

export const connectorFields: Fields<Connector> = {
  id: { code: 'id' },
  key: { code: 'key' },
  name: { text: 'name' },
  link: { code: 'link' },
  level: { level: 'level' },
  levelWithCode: { console: ({ level }) => [{ label: 'level', level, code: level }] },
  suggested: {
    level: 'suggestedLevel',
    heading: 'suggested level',
    console: ({ suggestedLevel: level }) =>
      level === undefined ? [] : [{ label: 'suggested', level, code: level }],
  },
  upstream: upstreamField(),
  audience: {
    heading: 'for',
    text: ({ audience }) => audience?.map(audienceText).join(' ') ?? 'everybody',
    isColumn: (items) => items.some(({ audience }) => audience !== undefined),
    // The first rule, and how many others there are.
    cell: ({ audience: [first, ...others] = [] }) =>
      first && audienceText(first) + (others.length > 0 ? ` +${others.length}` : ''),
    console: ({ audience }) =>
      audience ? [{ label: 'audience', codes: audience.map(audienceText) }] : [EVERYBODY],
  },
  firstAudience: {
    console: ({ audience: [first, ...others] = [] }) =>
      first
        ? [
            {
              label: 'audience',
              before: `${TEXTS}.onlyFor`,
              code: audienceText(first),
              others: others.length,
            },
          ]
        : [EVERYBODY],
  },
  tools: toolsField(),
  opened: openedField,
  state: { text: 'state' },
  uses: {
    text: ({ uses, maxUses }) => (maxUses === undefined ? String(uses) : `${uses} of ${maxUses}`),
    console: ({ uses, maxUses: most }) => [
      {
        label: 'uses',
        labelKey: `${TEXTS}.usesTitle`,
        textKey: `${TEXTS}.${most === undefined ? 'used' : 'usedOf'}`,
        textValues: most === undefined ? { uses } : { uses, most },
      },
    ],
  },
  calls: callsField(),
  people: {
    heading: 'matches',
    row: peopleText,
    console: ({ people }: ShownConnector) =>
      people === undefined
        ? []
        : [{ label: 'people', textKey: `${TEXTS}.people`, textValues: people }],
  },
  created: { time: 'createdAt' },
  expires: {
    time: 'expiresAt',
    none: 'never',
    console: ({ expiresAt }) =>
      expiresAt === undefined
        ? [{ label: 'expires', textKey: 'console.fields.never' }]
        : dateFields('expires', expiresAt),
  },
};

const shownText = (connector: ShownConnector) =>
  detailsText(
    connectorFields,
    'name link id key level suggested upstream tools opened audience people state uses calls created expires',
    connector,
  );

/** Warns if the audience matches nobody: a group may be misspelled. */
function peopleText({ people }: ShownConnector): string | undefined {
  if (!people) return undefined;
  const { matched, known } = people;
  const counted = `${matched} of ${known} known people`;
  return matched === 0 && known > 0 ? `${counted}: check the audience for mistakes` : counted;
}

const EXAMPLES = `
Examples:
  $ gatehouse connector create --name "Ops" --level operations
  $ gatehouse connector create --name "Auditors" --level analytics --max-uses 5 --expires 30d
  $ gatehouse connector create --name "Front desk" --level admin --suggest operations
  $ gatehouse connector create --name "Support" --level full --tools 'search_*' --tools '!search_salaries'
  $ gatehouse connector create --name "Analysts" --level analytics --for group:analysts --for email:ada@example.com`;

const UPDATE_EXAMPLES = `
Examples:
  $ gatehouse connector update "Ops" --level analytics --dry-run
  $ gatehouse connector update "Ops" --for group:analysts --expires 30d
  $ gatehouse connector update "Ops" --for everyone --expires never
  $ gatehouse connector update "Ops" --pause`;

export const CONNECTOR: Required<Argument> = {
  name: 'connector',
  help: 'id, connect link or unique name of a connector',
  resolve: (api, argument) =>
    resolveId<Connector>(argument, {
      noun: 'connector',
      names: ', connect link or name',
      find: (text) => findConnector(api, text),
      list: () => allItems((query) => api.listConnectors({ query })),
      isNamed: ({ name }, text) => name.normalize() === text,
      describe: ({ state, level, createdAt }) => `${state}  ${level}  created ${minute(createdAt)}`,
      id: CONNECTOR_ID,
    }),
};

const LINK = /^https?:\/\/.*\/connect\/([^/]+)\/mcp\/?$/i;

/** Rejects a link with another address: it may belong to another Gatehouse with a copy of the same store. */
async function findConnector(api: ManagementClient, text: string): Promise<Connector | undefined> {
  const id = LINK.exec(text)?.[1];
  const connector = CONNECTOR_ID.test(id ?? text)
    ? await foundOnly(api.showConnector({ id: id ?? text }))
    : undefined;
  if (!connector || id === undefined) return connector;
  if (canonicalResource(text) === canonicalResource(connector.link)) return connector;
  const message = `this connect link has another address; the connector's link is ${connector.link}`;
  throw new ManagementError('not_found', message);
}

export const connectorCommands: ResourceCommands = {
  noun: 'connector',
  description:
    'create, change, list, revoke and delete connectors: links that people add to their AI apps',
  examples: EXAMPLES,
  commands: [
    {
      operation: 'createConnector',
      name: 'create',
      description: 'create a connector and print its connect link',
      options: [
        { flags: '--name <name>', help: 'name on the consent page', isRequired: true },
        { flags: '--level <level>', help: 'highest level that people can grant', isRequired: true },
        {
          flags: '--suggest <level>',
          help: 'lower level that the consent page preselects',
          member: 'suggestedLevel',
        },
        UPSTREAM_OPTION,
        {
          flags: '--for <who>',
          help: `who may use it: ${AUDIENCE_FORMS}; repeatable (default: everyone)`,
          parse: parseAudience,
          member: 'audience',
        },
        toolsOption('what it opens'),
        {
          flags: '--max-uses <number>',
          help: 'maximum uses; one person with one app is one use (default: no limit)',
          parse: parseCount,
        },
        CALLS_OPTION,
        expiresOption('90s, 15m, 12h or 30d'),
      ],
      help: EXAMPLES,
      text: (connector) => `Created a connector.

${shownText(connector)}

Add it to an app, for example:
  ${claudeCommand(connector.link, connector.name)}
`,
    },
    {
      operation: 'listConnectors',
      name: 'list',
      description: 'list all connectors, oldest first',
      options: [searchOption('its name, id or link')],
      fields: connectorFields,
      columns: 'id name level upstream audience state uses expires link',
      empty: `There are no connectors. To create one:
  gatehouse connector create --name "Ops" --level operations`,
    },
    {
      operation: 'showConnector',
      name: 'show',
      description: 'show one connector and its connect link',
      argument: CONNECTOR,
      text: shownText,
    },
    {
      operation: 'updateConnector',
      name: 'update',
      description: 'change a connector, at the next call; its link and connections stay',
      argument: CONNECTOR,
      options: [
        { flags: '--name <name>', help: 'name on the consent page' },
        { flags: '--level <level>', help: 'highest level that people can grant' },
        {
          flags: '--suggest <level>',
          help: 'lower level that the consent page preselects, or none',
          member: 'suggestedLevel',
          removal: 'none',
        },
        {
          flags: '--for <who>',
          help: `who may use it, in place of those before: ${AUDIENCE_FORMS}; repeatable; or everyone`,
          parse: parseAudience,
          member: 'audience',
          removal: 'everyone',
        },
        changedToolsOption('what it opens'),
        {
          flags: '--max-uses <number>',
          help: 'maximum uses, or unlimited',
          parse: parseCount,
          removal: 'unlimited',
        },
        CHANGED_CALLS_OPTION,
        changedExpiresOption('90s, 15m, 12h or 30d'),
        {
          flags: '--pause',
          help: 'refuse calls and new connections; connected apps stay connected',
          members: () => ({ paused: true }),
        },
        { flags: '--resume', help: 'end the pause', members: () => ({ paused: false }) },
        DRY_RUN,
      ],
      help: UPDATE_EXAMPLES,
      text: changedText,
    },
    {
      operation: 'revokeConnector',
      name: 'revoke',
      description: 'revoke a connector and end all connections through it',
      argument: CONNECTOR,
      text: ({ name, id }) =>
        `Revoked "${plain(name)}" (${id}). Its link no longer works, and all connections through it ended.`,
    },
    {
      operation: 'deleteConnector',
      name: 'delete',
      description: 'delete a revoked or expired connector',
      argument: CONNECTOR,
      options: [{ flags: '--yes', help: 'revoke the connector first if it is active' }],
      help: `
A revoked link tells people to ask for a new one. A deleted link is not found, and its id is never reused.`,
      run: async (api, { id, options }) => {
        if (options['yes']) await api.revokeConnector({ id });
        return api.deleteConnector({ id });
      },
      text: ({ name, id }) => `Deleted "${plain(name)}" (${id}). Its id is never reused.`,
    },
  ],
};

function changedText(changed: ChangedConnector): string {
  const { affected, isAffectedPartial: _isPartial, ...connector } = changed;
  const shown = shownText(connector);
  if (!affected) return `Changed the connector.\n\n${shown}`;
  return `Nothing was changed. The connector would be:\n\n${shown}\n\n${affectedText(changed)}`;
}

/** Adds the rule to those of earlier options with the same name. */
function parseAudience(text: string, earlier: AudienceRule[] = []): AudienceRule[] {
  const rule = parseAudienceRule(text);
  if (rule) return [...earlier, rule];
  throw new InvalidOptionValue(`Use ${AUDIENCE_FORMS}.`);
}

export const connectorList: ConsoleList<Connector> = {
  section: 'connectors',
  operation: 'listConnectors',
  limit: 100,
  create: 'createConnector',
  fields: connectorFields,
  title: ({ name }) => name,
  href: ({ id }) => recordPath('connectors', id),
  state: ({ state }) => state,
  isOk: ({ state }) => state === 'active',
  facts: 'level upstream uses firstAudience expires created',
};

/** The fields beside the state on its page. */
export const CONNECTOR_FACTS =
  'levelWithCode suggested upstream tools opened audience people uses calls created expires id';

/** The values of the form that changes a connector, as its fields have them. */
export function connectorEntries(connector: Connector): Record<string, string> {
  const { name, level, suggestedLevel = '', audience = [], expiresAt = '', maxUses } = connector;
  const { tools = [], calls = '' } = connector;
  return {
    name,
    level,
    suggestedLevel,
    audience: audience.map(audienceText).join('\n'),
    tools: tools.join('\n'),
    expiresAt,
    maxUses: maxUses?.toString() ?? '',
    calls,
    paused: connector.paused ? 'paused' : '',
  };
}

const PAUSED_FIELD: FormField = {
  name: 'paused',
  kind: 'choice',
  label: `${TEXTS}.calls`,
  notes: [`${TEXTS}.pausedNote`],
  choices: [
    { value: '', textKey: `${TEXTS}.callsAllowed` },
    { value: 'paused', textKey: `${TEXTS}.callsPaused` },
  ],
  members: () => ({ paused: true }),
  removal: { paused: false },
};

export const connectorForm: readonly FormField[] = [
  nameField('console.fields.nameNote'),
  UPSTREAM_FIELD,
  levelField('console.fields.level', 'console.fields.levelNote'),
  {
    name: 'suggestedLevel',
    id: 'suggested',
    kind: 'level',
    none: `${TEXTS}.suggestedSame`,
    label: 'console.fields.suggested',
    notes: [`${TEXTS}.suggestedNote`],
  },
  {
    name: 'audience',
    kind: 'lines',
    none: `${TEXTS}.everybody`,
    maxLength: 20_000,
    label: 'console.fields.audience',
    notes: ({ identityProviders: [first, ...others] }): Note[] => {
      const isOnly = others.length === 0 || first === undefined;
      const group = isOnly ? 'analysts' : `analysts@${first.id}`;
      const providers = [first, ...others].map((provider) => provider?.id).join(', ');
      return [
        { key: `${TEXTS}.audienceNarrows` },
        { key: `${TEXTS}.audienceNote`, values: { group } },
        isOnly
          ? { key: `${TEXTS}.audienceGroups` }
          : { key: `${TEXTS}.audienceProviders`, values: { providers } },
      ];
    },
    members: (text) => ({ audience: linesIn(text).map(parseAudienceRule) }),
  },
  TOOLS_FIELD,
  daysField(`${TEXTS}.daysNote`),
  {
    name: 'maxUses',
    id: 'uses',
    kind: 'number',
    max: MAX_USES,
    none: 'console.limits.none',
    label: `${TEXTS}.uses`,
    notes: [`${TEXTS}.usesNote`],
    members: (text) => ({ maxUses: Number(text) }),
  },
  CALLS_FIELD,
];

/** The MCP server never changes. */
export const connectorEditForm: readonly FormField[] = [
  ...connectorForm.flatMap((field) => {
    if (field.kind === 'upstream') return [];
    return field.name === 'days' ? [expiryField('expires', `${TEXTS}.expiresNote`)] : [field];
  }),
  PAUSED_FIELD,
];
