// Pages to create a machine for a connector, and to show its secret once.
import { machineCommand } from '../../connectors/app-instructions.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import { isAtLeast, levelIds, lowestLevel, recordedLevels } from '../../permission-levels.ts';
import { machineKeyBody, newMachineBody } from '../api/requests.ts';
import type { MachineResource } from '../api/resources.ts';
import { ROUTES } from '../api/routes.ts';
import { showConnector } from '../connectors.ts';
import { createMachine, replaceMachineCredentials } from '../machines.ts';
import { requireRole } from '../context.ts';
import { CONSOLE_PATH, recordPath } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { claimIdempotencyKey, createIdempotencyKey, type Form, optionalValue } from './forms.ts';
import { epochSeconds, type FormProblem, layout } from './layout.ts';

export function machinePages({ page, form }: ConsoleRoutes): void {
  page('/connectors/:id/machine', (context) => showForm(context));
  form('/connectors/:id/machine', ROUTES.createMachine.role, create);
  form('/clients/machine-key', ROUTES.replaceMachineKey.role, replaceKey);
}

/** `rejected` is a form with a problem, whose values are shown again. */
async function showForm(
  context: ConsoleContext,
  rejected?: { problem: FormProblem; form: Form },
): Promise<void> {
  const { management, ctx } = context;
  requireRole(management, ROUTES.createMachine.role);
  const { levels } = management.settings;
  const connector = await showConnector(management, String(ctx.params.id));
  const { name = '', level = lowestLevel(levels), days = '', keys = '' } = rejected?.form ?? {};
  const back = recordPath('connectors', connector.id);
  const values = {
    console: layout(context, 'connectors', rejected?.problem),
    connector: { name: connector.name, href: back },
    form: {
      action: `${back}/machine`,
      idempotencyKey: createIdempotencyKey(),
      levels: levelIds(levels).filter((each) => isAtLeast(levels, connector.level, each)),
      recorded: recordedLevels(levels),
      name,
      level,
      days,
      upstreams: [],
      upstream: '',
      keys,
    },
  };
  const status = rejected ? 400 : 200;
  await management.services.pages.render(ctx, 'console/new-machine', values, status);
}

/** Responds with the page instead of a redirect: the secret is not stored, so it cannot be shown later. */
async function create(context: ConsoleContext, form: Form): Promise<void> {
  const { management, ctx } = context;
  const { settings, services } = management;
  const connector = String(ctx.params.id);
  const days = optionalValue(form, 'days');
  const jwksUri = optionalValue(form, 'keys');
  const parsed = newMachineBody(services.now(), settings.levels).safeParse({
    name: form.name,
    level: form.level,
    connector,
    ...(days === undefined ? {} : { expiresIn: `${days}d` }),
    ...(jwksUri === undefined ? {} : { jwksUri }),
  });
  if (!parsed.success) {
    const [member] = parsed.error.issues[0]?.path ?? [];
    return showForm(context, { problem: PROBLEMS[String(member)] ?? 'other', form });
  }
  if (!(await claimIdempotencyKey(services.store, form)))
    return seeOther(ctx, recordPath('connectors', connector));
  try {
    await showMachine(context, await createMachine(management, parsed.data), 'created');
  } catch (error) {
    if (error instanceof HttpError && error.code === 'used_up')
      return showForm(context, { problem: 'usedUp', form });
    throw error;
  }
}

const PROBLEMS: Record<string, FormProblem> = { name: 'name', expiresIn: 'days', jwksUri: 'keys' };

/** The machine gets a secret, also if it had a key. */
async function replaceKey(context: ConsoleContext, form: Form): Promise<void> {
  const { id } = machineKeyBody.parse({ id: form.id });
  await showMachine(
    context,
    await replaceMachineCredentials(context.management, id, {}),
    'replaced',
  );
}

async function showMachine(
  context: ConsoleContext,
  { id, name, link, level, expiresAt, secret }: MachineResource,
  done: 'created' | 'replaced',
): Promise<void> {
  const { management, ctx } = context;
  await management.services.pages.render(ctx, 'console/machine', {
    console: layout(context, 'clients'),
    done,
    machine: {
      id,
      name,
      link,
      level,
      expiresAt: epochSeconds(expiresAt),
      href: recordPath('clients', id),
      ...(secret === undefined ? {} : { secret }),
    },
    example: machineCommand({ id, link }),
    list: `${CONSOLE_PATH}/clients`,
  });
}
