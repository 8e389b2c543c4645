// The operator's MCP servers, as the settings and the catalogs of their tools describe them.
import { findCredential } from '../credentials/credentials.ts';
import { createOperatorAddress, isReadByOperator, OPERATOR } from '../credentials/operator.ts';
import { redirectUri } from '../credentials/page-address.ts';
import { type Connector, isUsable } from '../links/connector.ts';
import { listConnectors } from '../links/connectors.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { listMintedTokens } from '../links/minted-tokens.ts';
import { type Level, levelIds } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';
import {
  findUpstream,
  type LeadsToUpstream,
  type Upstream as Configured,
} from '../settings/upstreams.ts';
import { type LeveledTool, rightsAt, toolsWithLevels, isOpen } from '../upstreams/opened-tools.ts';
import { selectionOf } from '../upstreams/tool-access.ts';
import { missingTools } from '../upstreams/tool-catalog.ts';
import { findKnownTools, type KnownTools } from '../upstreams/tool-pin-records.ts';
import { usedLately } from '../upstreams/tool-uses.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { isoTime, represent } from './represent.ts';
import { approveTools, countChanges, reviewTools } from './tool-review.ts';
import { type Upstream, type upstreamOperations, upstreamSchema } from './resources/upstream.ts';

/** Returns the upstream of a new record, by default the first. Throws HttpError 400 for an unknown id. */
export function requireUpstream(
  { upstreams }: Pick<Settings, 'upstreams'>,
  wanted: string | undefined,
): { upstream?: string } {
  const [first] = upstreams;
  if (wanted === undefined) return first ? { upstream: first.id } : {};
  if (upstreams.some(({ id }) => id === wanted)) return { upstream: wanted };
  throw new HttpError(400, 'invalid_request', `upstream: ${expectedIds(upstreams)}`);
}

function expectedIds(upstreams: readonly Configured[]): string {
  return upstreams.length > 0
    ? `one of ${upstreams.map(({ id }) => id).join(', ')}`
    : 'no value, because the settings have no upstream';
}

export const upstreamHandlers: Handlers<keyof typeof upstreamOperations> = {
  listLevels: async ({ settings: { levels } }) => ({
    items: levels.map(({ id, recorded }) => ({ id, recorded })),
  }),

  /** In the order of the settings. Empty if the sample serves calls. */
  listUpstreams: async (management) => ({ items: await describeUpstreams(management) }),

  async showUpstream(management, { id }) {
    return resource(management, configured(management, id), await readUsers(management));
  },

  async connectUpstream(management, { id }) {
    const upstream = configured(management, id);
    if (!isReadByOperator(upstream))
      throw new HttpError(
        409,
        'invalid_request',
        upstream.credential && upstream.credential.kind !== 'exchange'
          ? 'the tools of this MCP server are read with its headers'
          : 'this MCP server has no credential that could be connected',
      );
    const { settings, services, by } = management;
    return createOperatorAddress(settings, services.store, { upstream: id, by });
  },

  async reviewUpstream(management, { id }) {
    return reviewTools(management, configured(management, id));
  },

  async approveUpstream(management, { id, body }) {
    const upstream = configured(management, id);
    await approveTools(management, upstream, body);
    return reviewTools(management, upstream);
  },
};

/** `connectors` are all, if they were read already. An empty list leaves out who can use the tools. */
export async function describeUpstreams(
  management: ManagementContext,
  connectors?: Promise<readonly Connector[]>,
): Promise<Upstream[]> {
  const { upstreams } = management.settings;
  if (upstreams.length === 0) return [];
  const users = await readUsers(management, connectors);
  return Promise.all(upstreams.map((each) => resource(management, each, users)));
}

/** Throws HttpError 404. */
function configured({ settings: { upstreams } }: ManagementContext, id: string): Configured {
  const upstream = upstreams.find((each) => each.id === id);
  if (upstream) return upstream;
  throw notFound(`there is no upstream with this id; expected ${expectedIds(upstreams)}`);
}

type User = LeadsToUpstream & { level: Level };
type Users = { connectors: readonly Connector[]; tokens: readonly User[] };

/** The connectors and minted tokens that give access now. */
async function readUsers(
  { settings, services }: ManagementContext,
  all: Promise<readonly Connector[]> = listConnectors(services.store),
): Promise<Users> {
  const { store, now } = services;
  const [connectors, tokens] = await Promise.all([all, listMintedTokens(store, now())]);
  return {
    connectors: connectors.filter((connector) => isUsable(connector, now(), settings)),
    tokens,
  };
}

async function resource(
  { settings, services: { store, now } }: ManagementContext,
  upstream: Configured,
  users: Users,
): Promise<Upstream> {
  const known = await findKnownTools(store, upstream);
  const { catalog } = known;
  const { origin, pathname } = new URL(upstream.url);
  const own = await findCredential(store, { account: OPERATOR, upstream: upstream.id });
  const tools = toolsWithLevels(settings.levels, upstream, known, now());
  const held = tools.filter((tool) => tool.held !== undefined).map(({ name }) => name);
  const used = await usedLately(store, upstream.id, held);
  const count = (all: readonly User[], level: Level) =>
    all.filter((user) => leadsHere(user) && user.level === level).length;
  const opensNothing = (connector: Connector) => {
    const rights = rightsAt(connector.level, selectionOf({ connector }));
    return !tools.some((tool) => isOpen(settings.levels, rights, tool));
  };
  const leadsHere = (user: User) => findUpstream(settings.upstreams, user)?.id === upstream.id;
  const areKnown = catalog?.seenAt !== undefined && tools.length > 0;
  const empty = areKnown
    ? users.connectors.filter((user) => leadsHere(user) && opensNothing(user))
    : [];
  return represent(upstreamSchema, {
    ...catalog,
    ...upstream,
    credential: upstream.credential && {
      kind: upstream.credential.kind,
      redirectUri: upstream.credential.kind === 'oauth' ? redirectUri(settings) : undefined,
      readSince: own && isoTime(own.connectedAt),
      isNeeded: catalog?.needsCredential,
    },
    paused: upstream.paused || undefined,
    // A query may contain a secret.
    url: origin + pathname,
    error: catalog?.error && { fault: catalog.error.fault, message: catalog.error.message },
    tools: tools.map(toolOf(known, used)),
    changes: countChanges(known.pins, upstream) || undefined,
    missingTools: catalog?.seenAt === undefined ? [] : missingTools(upstream, catalog.tools),
    emptyConnectors: empty.map(({ id, name }) => ({ id, name })),
    levels: levelIds(settings.levels).map((level) => ({
      level,
      tools: tools.filter((tool) => isOpen(settings.levels, rightsAt(level, {}), tool)).length,
      connectors: count(users.connectors, level),
      tokens: count(users.tokens, level),
    })),
  });
}

type Tool = Upstream['tools'][number];

function toolOf({ pins }: KnownTools, used: ReadonlySet<string>): (tool: LeveledTool) => Tool {
  const pinned = new Map(pins?.tools);
  return ({ name, title, level, isDeclared, held, hints }) => {
    const { isNoObject, schemaFault } = pinned.get(name)?.approved.at(-1) ?? {};
    const isMissed = used.has(name) ? (true as const) : undefined;
    return { name, title, level, isDeclared, held, isMissed, isNoObject, schemaFault, ...hints };
  };
}
