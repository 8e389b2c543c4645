// Pages to create a machine for a connector, and to show its secret once.
import { machineCommand } from '../../links/app-instructions.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import { isAtLeast, levelIds } from '../../permission-levels.ts';
import { OPERATIONS } from '../api/operations.ts';
import { connectorHandlers } from '../connectors.ts';
import { requireRole } from '../context.ts';
import { machineHandlers } from '../machines.ts';
import { connectorList } from '../resources/connector.ts';
import { epochSeconds } from '../resources/fields.ts';
import { machineForm, type MachineResource } from '../resources/machine.ts';
import { CONSOLE_PATH, recordPath } from './address.ts';
import { columnsOf } from './columns.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { formValues, parseForm } from './create-form.ts';
import { claimIdempotencyKey, type Form } from './forms.ts';
import { layout, queryIn, searchIn } from './layout.ts';
import { rowOf } from './lists.ts';

const { role: ROLE } = OPERATIONS.createMachine;

export function machinePages({ page, form }: ConsoleRoutes): void {
  page('/machines/new', pickConnector);
  page('/connectors/:id/machine', (context) => showForm(context));
  form('/connectors/:id/machine', ROLE, create);
  form('/clients/machine-key', OPERATIONS.replaceMachineKey.role, async (context, { id = '' }) => {
    // The machine gets a secret, also if it had a key.
    const body = { id };
    const machine = await machineHandlers.replaceMachineKey(context.management, { body });
    await showMachine(context, machine, 'replaced');
  });
}

const MAX_PICKED = 20;

/** Searches on the server: there can be any number of connectors. */
async function pickConnector({ management, ctx, ...context }: ConsoleContext): Promise<void> {
  requireRole(management, ROLE);
  const { query: schema } = OPERATIONS.listConnectors;
  const q = searchIn(queryIn(ctx), schema);
  const { items, next } = await connectorHandlers.listConnectors(management, {
    query: { limit: MAX_PICKED, state: 'active', q: q || undefined },
  });
  const rows = items.map((connector) => {
    const row = rowOf(management, { ...connectorList, facts: 'level upstream expires' }, connector);
    const href = `${recordPath('connectors', connector.id)}/machine`;
    return { ...row, href, fields: [], actions: [], edit: undefined };
  });
  await management.services.pages.render(ctx, 'console/pick-connector', {
    console: layout({ management, ctx, ...context }, 'machines'),
    action: `${CONSOLE_PATH}/machines/new`,
    q,
    columns: columnsOf(rows),
    items: rows,
    ...(next === undefined ? {} : { most: MAX_PICKED }),
    ...(q ? { found: { count: rows.length, isAll: next === undefined } } : {}),
  });
}

/** With a `problem`, the entries are shown again. */
async function showForm(
  context: ConsoleContext,
  entries: Form = {},
  problem?: string,
): Promise<void> {
  const { management, ctx } = context;
  requireRole(management, ROLE);
  const { levels } = management.settings;
  const connector = await connectorHandlers.showConnector(management, { id: ctx.params.id });
  const back = recordPath('connectors', connector.id);
  const allowed = levelIds(levels).filter((each) => isAtLeast(levels, connector.level, each));
  const values = {
    console: layout(context, 'machines', problem),
    connector: { name: connector.name, href: back },
    form: formValues(management, `${back}/machine`, machineForm, entries, allowed),
  };
  const status = problem ? 400 : 200;
  await management.services.pages.render(ctx, 'console/new-machine', values, status);
}

/** Responds with the page instead of a redirect: the secret is not stored, so it cannot be shown later. */
async function create(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const connector = String(ctx.params.id);
  const parsed = parseForm(management, 'createMachine', machineForm, form, { connector });
  if ('problem' in parsed) return showForm(context, form, parsed.problem);
  if (!(await claimIdempotencyKey(management.services.store, form)))
    return seeOther(ctx, recordPath('connectors', connector));
  try {
    const machine = await machineHandlers.createMachine(management, parsed);
    await showMachine(context, machine, 'created');
  } catch (error) {
    if (!(error instanceof HttpError) || error.code !== 'used_up') throw error;
    await showForm(context, form, 'usedUp');
  }
}

async function showMachine(
  context: ConsoleContext,
  { id, name, link, level, expiresAt, secret }: MachineResource,
  done: 'created' | 'replaced',
): Promise<void> {
  const { management, ctx } = context;
  const href = recordPath('clients', id);
  await management.services.pages.render(ctx, 'console/machine', {
    console: layout(context, 'machines'),
    done,
    machine: { id, name, link, level, expiresAt: epochSeconds(expiresAt), href, secret },
    example: machineCommand({ id, link }),
    back: `${CONSOLE_PATH}/machines`,
  });
}
