// The operator's MCP servers, which are in the settings.
import * as z from 'zod';
import { TOOL_LEVELS } from '../../settings/schema.ts';
import { DISCOVERY_FAULTS } from '../../upstreams/tool-catalog.ts';
import { resolveId } from '../commands/resolve.ts';
import { plain, table } from '../commands/terminal.ts';
import { detailsText, type Field, type Fields } from './fields.ts';
import {
  type Argument,
  type CommandOption,
  type Operation,
  type ResourceCommands,
} from './resource.ts';
import * as schemas from './schemas.ts';
import { approveBody, reviewText, type ToolReview, toolReviewSchema } from './tool-review.ts';

const hint = z.boolean().optional();

export const upstreamSchema = z
  .strictObject({
    id: z.string(),
    name: z.string(),
    url: z.string().describe('Address of the MCP server, without a query.'),
    toolLevels: z
      .enum(TOOL_LEVELS)
      .describe('Where the levels of tools that are not in the settings come from.'),
    defaultLevel: schemas.level,
    paused: z.literal(true).optional().describe('The settings pause it.'),
    revision: z.string().optional().describe('The negotiated protocol revision.'),
    seenAt: schemas.time
      .optional()
      .describe('When the tools were last read. Absent if they never were.'),
    triedAt: schemas.time.optional().describe('When Gatehouse last tried to read them.'),
    error: z
      .strictObject({ fault: z.enum(DISCOVERY_FAULTS), message: z.string() })
      .optional()
      .describe('Present if the last attempt failed. The message continues "the MCP server".'),
    credential: z
      .strictObject({
        kind: z.enum(['oauth', 'exchange', 'key']),
        redirectUri: z
          .string()
          .optional()
          .describe('For a client that an operator registers at the service.'),
        readSince: schemas.time
          .optional()
          .describe("Since when the tools are read with the operator's own credential."),
        isNeeded: z
          .literal(true)
          .optional()
          .describe(
            'The server answers nobody without a credential: tools are known when somebody has connected an account.',
          ),
      })
      .optional()
      .describe('Calls of people have a credential of each person.'),
    tools: z.array(
      z.strictObject({
        name: z.string(),
        title: z.string().optional(),
        level: schemas.level
          .optional()
          .describe('Absent if the tool is refused, because its name is too similar to another.'),
        isDeclared: z.boolean().describe('Whether the settings name the tool.'),
        held: z
          .enum(['new', 'changed', 'twins', 'twice'])
          .optional()
          .describe('Why it is hidden and refused until an operator approves it.'),
        isMissed: z
          .literal(true)
          .optional()
          .describe('It is held, and was called in the last week.'),
        schemaFault: z.string().optional().describe('Why its input schema is not enforced.'),
        isNoObject: z
          .literal(true)
          .optional()
          .describe(
            'Its input schema is not of an object, for which some apps drop all tools of the server.',
          ),
        readOnlyHint: hint,
        destructiveHint: hint,
        idempotentHint: hint,
        openWorldHint: hint,
      }),
    ),
    changes: z
      .int()
      .optional()
      .describe(
        'How many changes of its tools and instructions wait for the review. Absent if none do.',
      ),
    missingTools: z.array(z.string()).describe('Tools in the settings that the server lacks.'),
    emptyConnectors: z
      .array(z.strictObject({ id: z.string(), name: z.string() }))
      .describe('Usable connectors that open none of the tools.'),
    levels: z
      .array(
        z.strictObject({
          level: schemas.level,
          tools: z.int().describe('Number of tools that can be called with the level.'),
          connectors: z.int().describe('Number of usable connectors with the level.'),
          tokens: z.int().describe('Number of minted tokens with the level.'),
        }),
      )
      .describe('Tools, connectors and minted tokens of each level, the lowest first.'),
  })
  .meta({ id: 'Upstream' });

export type Upstream = z.output<typeof upstreamSchema>;

const operatorAddressSchema = z
  .strictObject({
    url: z.string().describe('Where the account is connected, in a browser.'),
    expiresIn: z.int().describe('Seconds.'),
  })
  .meta({ id: 'OperatorAddress' });

const levelSchema = z
  .strictObject({
    id: z.string(),
    recorded: z.boolean().describe('Whether calls are recorded before their responses.'),
  })
  .meta({ id: 'Level' });

export const upstreamOperations = {
  listLevels: {
    method: 'get',
    path: '/levels',
    role: 'viewer',
    summary: 'Lists the permission levels in the settings, the lowest first.',
    response: schemas.pageSchema('LevelPage', levelSchema),
  },
  listUpstreams: {
    method: 'get',
    path: '/upstreams',
    role: 'viewer',
    summary: 'Lists the MCP servers in the settings, with their tools and the level of each.',
    response: schemas.pageSchema('UpstreamPage', upstreamSchema),
  },
  showUpstream: {
    method: 'get',
    path: '/upstreams/:id',
    role: 'viewer',
    summary: 'Shows an MCP server in the settings.',
    response: upstreamSchema,
  },
  reviewUpstream: {
    method: 'get',
    path: '/upstreams/:id/review',
    role: 'viewer',
    summary:
      'Shows which tools of an MCP server, and whether its instructions, wait for approval. With `toolChanges: follow`, what changed since somebody last looked at it.',
    response: toolReviewSchema,
  },
  connectUpstream: {
    method: 'post',
    path: '/upstreams/:id/connect',
    role: 'administrator',
    summary:
      "Returns an address where an account of the operator is connected at an MCP server, for 15 minutes. The server's tools are read with it, and no call has it.",
    response: operatorAddressSchema,
    errors: {
      409: 'The server has no credential that could be connected, or its tools are read with its headers.',
    },
  },
  approveUpstream: {
    method: 'post',
    path: '/upstreams/:id/approve',
    role: 'operator',
    summary:
      'Approves tools and instructions of an MCP server as the review shows them, all or none. With `toolChanges: follow`, marks their changes as seen. A removed tool is forgotten: if it comes back, it is new.',
    body: () => approveBody,
    response: toolReviewSchema,
    errors: { 409: 'A digest is no longer current, or does not wait.' },
  },
} as const satisfies Record<string, Operation>;

/** Lists the ids if none fits, because settings have few. */
const resolveUpstream: NonNullable<Argument['resolve']> = async (api, argument) => {
  const { items } = await api.listUpstreams();
  const ids = items.map(({ id }) => id).join(', ');
  return resolveId<Upstream>(argument, {
    noun: 'upstream',
    names:
      ids === ''
        ? ' or name, because the settings have no upstream'
        : ` or name; expected one of ${ids}`,
    list: () => items,
    isNamed: ({ name }, text) => name.normalize() === text,
    describe: ({ url }) => url,
  });
};

const UPSTREAM_ARGUMENT: Argument = {
  name: 'upstream',
  help: 'id or unique name of an MCP server, see gatehouse upstream list',
  resolve: resolveUpstream,
};

/** The option of commands that create what leads to an MCP server. */
export const UPSTREAM_OPTION: CommandOption = {
  flags: '--upstream <upstream>',
  help: 'id or unique name of its MCP server (default: the first in the settings)',
  members: async (text: string, api) => ({ upstream: await resolveUpstream(api, text) }),
};

type Leading = { upstream?: string | undefined };

/** The field of what leads to an MCP server. It is a column if the items lead to several. */
export function upstreamField<Item extends Leading>(): Field<Item> {
  return {
    code: ({ upstream }) => upstream,
    isColumn: (items) => new Set(items.map(({ upstream }) => upstream)).size > 1,
    lookUp: async (api) =>
      new Map((await api.listUpstreams()).items.map(({ id, name }) => [id, name])),
  };
}

function stateText({ paused, error, triedAt, credential }: Upstream): string {
  if (paused) return 'paused';
  if (error) return plain(error.message);
  if (credential?.isNeeded) return 'answers people who have connected their account';
  return triedAt ? 'answers' : 'not tried yet';
}

export function levelSource({ toolLevels }: Upstream, { isDeclared }: Upstream['tools'][number]) {
  if (isDeclared) return 'settings';
  return toolLevels === 'annotations' ? 'annotations' : 'default';
}

const fields: Fields<Upstream> = {
  id: { code: 'id' },
  name: { text: 'name' },
  address: { code: 'url' },
  tools: { text: ({ tools }) => String(tools.length) },
  connectors: {
    text: ({ levels }) => String(levels.reduce((sum, { connectors }) => sum + connectors, 0)),
  },
  lastSeen: { time: 'seenAt', none: 'never' },
  state: { text: stateText },
  revision: { text: 'revision' },
  toolLevels: { text: 'toolLevels' },
  missingTools: { text: ({ missingTools }) => missingTools.join(', ') },
  emptyConnectors: {
    text: ({ emptyConnectors }) => emptyConnectors.map(({ name }) => name).join(', '),
  },
  credential: { text: ({ credential }) => credential?.kind },
  redirectUri: { code: ({ credential }) => credential?.redirectUri },
  toolsReadWith: {
    text: ({ credential }) =>
      credential?.readSince === undefined ? undefined : "the operator's own credential",
  },
};

export const upstreamCommands: ResourceCommands = {
  noun: 'upstream',
  description: 'list the MCP servers and the levels of their tools',
  examples: `
Examples:
  $ gatehouse upstream list
  $ gatehouse upstream show orders`,
  commands: [
    {
      operation: 'listUpstreams',
      name: 'list',
      description: 'list the MCP servers in the settings',
      fields,
      columns: 'id name tools connectors lastSeen state',
      empty: `There is no MCP server in the settings, so Gatehouse serves the built-in sample.
To put Gatehouse in front of your own, set resourceServer.upstream.`,
    },
    {
      operation: 'showUpstream',
      name: 'show',
      argument: UPSTREAM_ARGUMENT,
      description: 'show the tools of one MCP server and the level each needs',
      text: (upstream) => {
        const { tools, levels } = upstream;
        const names =
          'name id address state lastSeen revision toolLevels missingTools emptyConnectors credential redirectUri toolsReadWith';
        const toolRows = tools.map((tool) => [
          tool.name,
          tool.level ?? 'refused: its name is too similar to another',
          levelSource(upstream, tool),
          tool.held === undefined ? '' : `held: ${tool.held}${tool.isMissed ? ', was in use' : ''}`,
          tool.title ?? '',
        ]);
        const levelRows = levels.map(({ level, ...counts }) => [
          level,
          ...[counts.tools, counts.connectors, counts.tokens].map(String),
        ]);
        return [
          detailsText(fields, names, upstream),
          ...(tools.length === 0
            ? []
            : [table(['TOOL', 'LEVEL', 'FROM', 'HELD', 'TITLE'], toolRows)]),
          table(['LEVEL', 'TOOLS', 'CONNECTORS', 'TOKENS'], levelRows),
          ...tools.flatMap(({ name, isNoObject, schemaFault }) => [
            ...(isNoObject
              ? [
                  `The input schema of ${plain(name)} is not of an object: some apps drop all tools of the server.`,
                ]
              : []),
            ...(schemaFault === undefined
              ? []
              : [`The input schema of ${plain(name)} is not enforced: ${plain(schemaFault)}.`]),
          ]),
        ].join('\n\n');
      },
    },
    {
      operation: 'connectUpstream',
      name: 'connect',
      argument: UPSTREAM_ARGUMENT,
      description: 'connect an account of the operator, with which the tools are read',
      text: ({ url, expiresIn }) =>
        `Open this address in a browser within ${expiresIn / 60} minutes, and connect an account of your organization:\n\n${url}`,
    },
    {
      operation: 'reviewUpstream',
      name: 'review',
      argument: UPSTREAM_ARGUMENT,
      description: 'show what an MCP server changed in its tools, and what waits for approval',
      text: reviewText,
    },
    {
      operation: 'approveUpstream',
      name: 'approve',
      argument: UPSTREAM_ARGUMENT,
      description: 'approve tools as they are now, so that they can be used',
      options: [
        {
          flags: '--tool <name=digest>',
          help: 'tool with the digest that the review shows; repeatable',
          parse: (text: string, earlier: string[] = []) => [...earlier, text],
        },
        { flags: '--instructions <digest>', help: 'instructions of the server with this digest' },
        { flags: '--all', help: 'everything that waits now; review it first' },
      ],
      help: `
With toolChanges: follow, tools are in force anyway, and this marks their changes as seen.

Examples:
  $ gatehouse upstream review orders
  $ gatehouse upstream approve orders --tool search_orders=5Zc…
  $ gatehouse upstream approve orders --all`,
      run: async (api, { id, options }) => {
        const { tool, instructions, all } = options;
        if (all !== true)
          return api.approveUpstream({
            id,
            body: {
              ...(Array.isArray(tool) ? { tools: tool.map(approvalIn) } : {}),
              ...(typeof instructions === 'string' ? { instructions } : {}),
            },
          });
        const waiting = await api.reviewUpstream({ id });
        if (waiting.tools.length === 0 && !waiting.instructions) return waiting;
        return api.approveUpstream({ id, body: approvalOfAll(waiting) });
      },
      text({ tools, more = 0, instructions }) {
        const left = tools.length + more + (instructions ? 1 : 0);
        return left === 0
          ? 'Nothing waits for approval now.'
          : `Approved. Still waiting: ${left}. See gatehouse upstream review.`;
      },
    },
  ],
};

/** A name may contain the sign, a digest does not. */
function approvalIn(text: string): { name: string; digest: string } {
  const at = text.lastIndexOf('=');
  return { name: text.slice(0, Math.max(at, 0)), digest: text.slice(at + 1) };
}

/** A name that comes twice cannot be approved. */
export function approvalOfAll({ tools, instructions }: ToolReview) {
  return {
    ...(tools.length === 0 ? {} : { tools: tools.map(({ name, digest }) => ({ name, digest })) }),
    ...(instructions ? { instructions: instructions.digest } : {}),
  };
}
