import { instructionsFor } from '../../connectors/app-instructions.ts';
import { audienceText, parseAudienceRule } from '../../connectors/audience.ts';
import { type Connector, CONNECTOR_STATES } from '../../connectors/connector.ts';
import { findConnector, type NewConnector } from '../../connectors/connectors.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { seeOther } from '../../http/see-other.ts';
import {
  isAtLeast,
  isLevel,
  levelIds,
  lowestLevel,
  recordedLevels,
} from '../../permission-levels.ts';
import {
  audienceIssues,
  createConnector,
  deleteConnector,
  listConnectors,
  revokeConnector,
  showConnector,
} from '../connectors.ts';
import { type ManagementContext, requireRole } from '../context.ts';
import type { ConnectorResource } from '../api/resources.ts';
import { connectorsQuery, newConnectorBody } from '../api/requests.ts';
import { ROUTES } from '../api/routes.ts';
import { upstreamChoice } from '../upstreams.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { connectionValues } from './connections.ts';
import { doneQuery } from './done.ts';
import { claimIdempotencyKey, createIdempotencyKey, type Form, optionalValue } from './forms.ts';
import {
  cursorIn,
  epochSeconds,
  type FormProblem,
  layout,
  listValues,
  queryIn,
  searchIn,
  stateFilter,
} from './layout.ts';

type Item = ViewValues['console/connectors']['items'][number];

const PATH = `${CONSOLE_PATH}/connectors`;
const PAGE_ITEMS = 100;
const DAY_SECONDS = 86_400;

export function connectorPages({ page, form }: ConsoleRoutes): void {
  page('/connectors', showList);
  page('/connectors/new', showNewForm);
  form('/connectors', ROUTES.createConnector.role, create);
  page('/connectors/:id', showOne);
  form('/connectors/:id/revoke', ROUTES.revokeConnector.role, async ({ management, ctx }) => {
    const { id } = await revokeConnector(management, String(ctx.params.id));
    seeOther(ctx, `${PATH}/${id}${doneQuery('revoked')}`);
  });
  form('/connectors/:id/delete', ROUTES.deleteConnector.role, async ({ management, ctx }) => {
    const { id } = await deleteConnector(management, String(ctx.params.id));
    seeOther(ctx, PATH + doneQuery('deleted', id));
  });
}

async function showList(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const after = cursorIn(ctx, connectorsQuery);
  const q = searchIn(ctx, connectorsQuery);
  const { filter, state } = stateFilter(ctx, CONNECTOR_STATES);
  const found = await listConnectors(management, { limit: PAGE_ITEMS, after, q, state });
  const mayCreate = includesRole(management.role, ROUTES.createConnector.role);
  await management.services.pages.render(ctx, 'console/connectors', {
    console: layout(context, 'connectors'),
    items: found.items.map(itemOf),
    ...listValues(ctx, PATH, found, { q, filters: [filter] }),
    ...(mayCreate ? { create: `${PATH}/new` } : {}),
  });
}

/** `from` in the query is the id of a connector with the same settings. */
async function showNewForm(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  requireRole(management, ROUTES.createConnector.role);
  const connector = await findConnector(management.services.store, queryIn(ctx).from ?? '');
  await showForm(context, connector ? entriesOf(management, connector) : {}, {
    isPartial: connector !== undefined && !isConfigured(management, connector),
  });
}

/** Whether the settings have its level and its MCP server. */
function isConfigured({ settings }: ManagementContext, { level, upstream }: Connector): boolean {
  const hasServer = upstream === undefined || settings.upstreams.some(({ id }) => id === upstream);
  return hasServer && isLevel(settings.levels, level);
}

/** Leaves out a level or MCP server that the settings no longer have. */
function entriesOf({ settings }: ManagementContext, connector: Connector): Form {
  const { name, level, suggestedLevel, upstream, audience, maxUses } = connector;
  const { levels, upstreams } = settings;
  const { createdAt, expiresAt } = connector;
  const hasLevel = isLevel(levels, level);
  const suggested = suggestedLevel !== undefined && isLevel(levels, suggestedLevel);
  return {
    name,
    ...(hasLevel ? { level } : {}),
    ...(hasLevel && suggested && isAtLeast(levels, level, suggestedLevel)
      ? { suggestedLevel }
      : {}),
    ...(upstream !== undefined && upstreams.some(({ id }) => id === upstream) ? { upstream } : {}),
    ...(audience ? { audience: audience.map(audienceText).join('\n') } : {}),
    ...(maxUses === undefined ? {} : { maxUses: String(maxUses) }),
    ...(expiresAt === undefined
      ? {}
      : { days: String(Math.max(1, Math.round((expiresAt - createdAt) / DAY_SECONDS))) }),
  };
}

/** With a `problem`, the entries are shown again. `isPartial`: not all settings of the other connector are there. */
async function showForm(
  context: ConsoleContext,
  entries: Form,
  { problem, isPartial = false }: { problem?: FormProblem; isPartial?: boolean } = {},
): Promise<void> {
  const { management, ctx } = context;
  const { levels } = management.settings;
  const {
    name = '',
    level = lowestLevel(levels),
    suggestedLevel = '',
    maxUses = '',
    days = '',
    upstream = '',
  } = entries;
  const providers = management.settings.identityProviders.map(({ id }) => id);
  const form = {
    action: PATH,
    idempotencyKey: createIdempotencyKey(),
    levels: levelIds(levels),
    recorded: recordedLevels(levels),
    name,
    level,
    suggestedLevel,
    audience: linesIn(entries.audience).join('\n'),
    providers,
    maxUses,
    days,
    upstreams: upstreamChoice(management.settings),
    upstream,
  };
  const values = {
    console: layout(context, 'connectors', problem),
    form,
    ...(isPartial ? { isPartial } : {}),
  };
  const status = problem ? 400 : 200;
  await management.services.pages.render(ctx, 'console/new-connector', values, status);
}

async function create(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const parsed = parseForm(management, form);
  if ('problem' in parsed) return showForm(context, form, parsed);
  if (!(await claimIdempotencyKey(management.services.store, form))) return seeOther(ctx, PATH);
  const { id } = await createConnector(management, parsed);
  seeOther(ctx, `${PATH}/${id}${doneQuery('created')}`);
}

const PROBLEMS: Record<string, FormProblem> = {
  name: 'name',
  suggestedLevel: 'suggested',
  audience: 'audience',
  maxUses: 'uses',
  expiresIn: 'days',
};

/** Applies the same rules as the API. */
function parseForm(
  { settings, services }: ManagementContext,
  form: Form,
): NewConnector | { problem: FormProblem } {
  const [maxUses, days] = [optionalValue(form, 'maxUses'), optionalValue(form, 'days')];
  const suggestedLevel = optionalValue(form, 'suggestedLevel');
  const upstream = optionalValue(form, 'upstream');
  const rules = linesIn(form.audience).map(parseAudienceRule);
  if (rules.includes(undefined)) return { problem: 'audience' };
  const parsed = newConnectorBody(services.now(), settings.levels).safeParse({
    name: form.name,
    level: form.level,
    ...(upstream === undefined ? {} : { upstream }),
    ...(suggestedLevel === undefined ? {} : { suggestedLevel }),
    ...(rules.length === 0 ? {} : { audience: rules }),
    ...(maxUses === undefined ? {} : { maxUses: Number(maxUses) }),
    ...(days === undefined ? {} : { expiresIn: `${days}d` }),
  });
  if (parsed.success) {
    const isWrong = audienceIssues(settings, parsed.data.audience).length > 0;
    return isWrong ? { problem: 'audience' } : parsed.data;
  }
  const [member] = parsed.error.issues[0]?.path ?? [];
  return { problem: PROBLEMS[String(member)] ?? 'other' };
}

/** The lines of a text area that are not empty. */
function linesIn(text = ''): string[] {
  return text.split(/\s*[\r\n]+\s*/).filter((line) => line.trim() !== '');
}

async function showOne(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const connector = await showConnector(management, String(ctx.params.id));
  const { id, link, name, state } = connector;
  const isUnusable = !['active', 'used-up'].includes(state);
  await management.services.pages.render(ctx, 'console/connector', {
    console: layout(context, 'connectors'),
    connector: { ...itemOf(connector), link },
    instructions: isUnusable ? [] : instructionsFor(link, name),
    account: `${management.settings.authUrl}/account`,
    ...(await connectionValues(context, { section: 'connectors', id })),
    ...ending(management, id, isUnusable),
    ...(includesRole(management.role, ROUTES.createConnector.role)
      ? { createSame: `${PATH}/new?from=${id}` }
      : {}),
    ...(!isUnusable && includesRole(management.role, ROUTES.createMachine.role)
      ? { newMachine: `${PATH}/${id}/machine` }
      : {}),
  });
}

/** Returns the form that ends or deletes a connector, if the person may send it. */
function ending({ role }: ManagementContext, id: string, isUnusable: boolean) {
  const [name, required] = isUnusable
    ? (['delete', ROUTES.deleteConnector.role] as const)
    : (['revoke', ROUTES.revokeConnector.role] as const);
  return includesRole(role, required) ? { [name]: `${PATH}/${id}/${name}` } : {};
}

function itemOf(connector: ConnectorResource): Item {
  const { id, name, level, suggestedLevel, upstream, audience, state } = connector;
  const { createdAt, expiresAt, maxUses, uses } = connector;
  return {
    id,
    name,
    level,
    ...(suggestedLevel === undefined ? {} : { suggestedLevel }),
    ...(upstream === undefined ? {} : { upstream }),
    ...(audience === undefined ? {} : { audience: audience.map(audienceText) }),
    state,
    href: `${PATH}/${id}`,
    createdAt: epochSeconds(createdAt),
    uses,
    ...(maxUses === undefined ? {} : { left: Math.max(0, maxUses - uses), maxUses }),
    ...(expiresAt === undefined ? {} : { expiresAt: epochSeconds(expiresAt) }),
  };
}
