import { instructionsFor } from '../../links/app-instructions.ts';
import { audienceText } from '../../links/audience.ts';
import { type Connector, isUsableState } from '../../links/connector.ts';
import { findConnector } from '../../links/connectors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { ConsoleField } from '../../pages/console-values.ts';
import { isAtLeast, isLevel } from '../../permission-levels.ts';
import { includesRole, type ManagementRole } from '../../settings/management-roles.ts';
import { OPERATIONS } from '../api/operations.ts';
import { audienceIssues, connectorHandlers } from '../connectors.ts';
import { type ManagementContext, requireRole } from '../context.ts';
import { openedBy } from '../opened-by.ts';
import { CONNECTOR_FACTS, connectorFields, connectorForm } from '../resources/connector.ts';
import { consoleFields } from '../resources/fields.ts';
import { openedFields } from '../resources/opened.ts';
import { requireUpstream } from '../upstreams.ts';
import { CONSOLE_PATH } from './address.ts';
import { connectionValues } from './connections.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { formValues, parseForm } from './create-form.ts';
import { afterAction } from './done.ts';
import { claimIdempotencyKey, type Form } from './forms.ts';
import { layout, queryIn } from './layout.ts';

const PATH = `${CONSOLE_PATH}/connectors`;
const DAY_SECONDS = 86_400;
const { createConnector, updateConnector, revokeConnector, deleteConnector, createMachine } =
  OPERATIONS;

export function connectorPages({ page, form }: ConsoleRoutes): void {
  page('/connectors/new', showNewForm);
  form('/connectors', createConnector.role, create);
  page('/connectors/:id', showOne);
  form('/connectors/:id/revoke', revokeConnector.role, async ({ management, ctx }) => {
    const { id } = await connectorHandlers.revokeConnector(management, { id: ctx.params.id });
    seeOther(ctx, afterAction(`${PATH}/${id}`, 'revoked'));
  });
  form('/connectors/:id/delete', deleteConnector.role, async ({ management, ctx }) => {
    const { id } = await connectorHandlers.deleteConnector(management, { id: ctx.params.id });
    seeOther(ctx, afterAction(PATH, 'deleted', id));
  });
}

/** `from` in the query is the id of a connector with the same settings. */
async function showNewForm(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  requireRole(management, createConnector.role);
  const connector = await findConnector(management.services.store, queryIn(ctx).from ?? '');
  await showForm(context, connector ? entriesOf(management, connector) : {}, {
    isPartial: connector && !isConfigured(management, connector),
  });
}

/** Whether the settings have its level and its MCP server. */
function isConfigured({ settings }: ManagementContext, { level, upstream }: Connector): boolean {
  const hasServer = upstream === undefined || settings.upstreams.some(({ id }) => id === upstream);
  return hasServer && isLevel(settings.levels, level);
}

/** Leaves out a level or MCP server that the settings no longer have. */
function entriesOf({ settings }: ManagementContext, connector: Connector): Form {
  const { levels, upstreams } = settings;
  const { name, level, suggestedLevel, audience, tools, maxUses, calls } = connector;
  const { createdAt, expiresAt } = connector;
  const upstream = upstreams.find(({ id }) => id === connector.upstream)?.id;
  const isSuggested =
    isLevel(levels, level) &&
    isLevel(levels, suggestedLevel) &&
    isAtLeast(levels, level, suggestedLevel);
  const entries = {
    name,
    level: isLevel(levels, level) ? level : undefined,
    suggestedLevel: isSuggested ? suggestedLevel : undefined,
    upstream,
    audience: audience?.map(audienceText).join('\n'),
    tools: tools?.join('\n'),
    maxUses: maxUses?.toString(),
    calls,
    days: expiresAt && String(Math.max(1, Math.round((expiresAt - createdAt) / DAY_SECONDS))),
  };
  return entries as Form;
}

/** With a `problem`, the entries are shown again. `isPartial`: not all settings of the other connector are there. */
async function showForm(
  context: ConsoleContext,
  entries: Form,
  {
    problem,
    isPartial,
    opens = [],
  }: { problem?: string; isPartial?: boolean | undefined; opens?: ConsoleField[] } = {},
): Promise<void> {
  const { management, ctx } = context;
  const values = {
    console: layout(context, 'connectors', problem),
    form: formValues(management, PATH, connectorForm, entries),
    isPartial,
    opens,
  };
  const status = problem ? 400 : 200;
  await management.services.pages.render(ctx, 'console/new-connector', values, status);
}

async function create(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const parsed = parseForm(management, 'createConnector', connectorForm, form);
  if ('problem' in parsed) return showForm(context, form, parsed);
  if (audienceIssues(management.settings, parsed.body.audience).length > 0)
    return showForm(context, form, { problem: 'audience' });
  if (form.preview === 'yes')
    return showForm(context, form, { opens: await wouldOpen(management, parsed.body) });
  if (!(await claimIdempotencyKey(management.services.store, form))) return seeOther(ctx, PATH);
  const { id } = await connectorHandlers.createConnector(management, parsed);
  seeOther(ctx, afterAction(`${PATH}/${id}`, 'created'));
}

async function wouldOpen(
  management: ManagementContext,
  connector: Parameters<typeof openedBy>[2],
): Promise<ConsoleField[]> {
  const { opened } = await openedBy(management, 'connector', {
    ...connector,
    ...requireUpstream(management.settings, connector.upstream),
  });
  if (opened) return openedFields(opened);
  const textKey = connector.tools
    ? 'console.fields.opensUnknown'
    : 'console.fields.opensEverything';
  return [{ label: 'opens', textKey }];
}

async function showOne(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const connector = await connectorHandlers.showConnector(management, { id: ctx.params.id });
  const { id, link, name, state } = connector;
  const isUsable = isUsableState(state);
  const may = ({ role }: { role: ManagementRole }) => includesRole(management.role, role);
  await management.services.pages.render(ctx, 'console/connector', {
    console: layout(context, 'connectors'),
    connector: {
      name,
      link,
      state,
      fields: consoleFields(connectorFields, CONNECTOR_FACTS, connector),
    },
    instructions: isUsable ? instructionsFor(link, name, management.settings.clients) : [],
    account: `${management.settings.authUrl}/account`,
    audit: `${CONSOLE_PATH}/audit?${new URLSearchParams({ connector: id })}`,
    ...(await connectionValues(context, { section: 'connectors', id })),
    // A change of the level can restore what the settings lack.
    edit:
      state !== 'revoked' && state !== 'expired' && may(updateConnector)
        ? `${PATH}/${id}/edit`
        : undefined,
    revoke: isUsable && may(revokeConnector) ? `${PATH}/${id}/revoke` : undefined,
    delete: !isUsable && may(deleteConnector) ? `${PATH}/${id}/delete` : undefined,
    createSame: may(createConnector) ? `${PATH}/new?from=${id}` : undefined,
    newMachine: isUsable && may(createMachine) ? `${PATH}/${id}/machine` : undefined,
  });
}
