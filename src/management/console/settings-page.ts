// What reading the settings again would change, and the button that does it.
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import { requireRole } from '../context.ts';
import type { Reload } from '../resources/settings.ts';
import { settingsOperations } from '../resources/settings.ts';
import { settingsHandlers } from '../settings.ts';
import { CONSOLE_PATH } from './address.ts';
import { affectedValues } from './affected.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { afterAction } from './done.ts';
import { layout } from './layout.ts';

export const SETTINGS_PATH = `${CONSOLE_PATH}/settings`;
const HEALTH_PATH = `${CONSOLE_PATH}/health`;

export function settingsPage({ page, form }: ConsoleRoutes): void {
  const { role } = settingsOperations.reloadSettings;
  page('/settings', async (context) => {
    requireRole(context.management, role);
    await show(context, true);
  });
  form('/settings', role, async (context) => {
    if (await show(context, false)) seeOther(context.ctx, afterAction(HEALTH_PATH, 'reloaded'));
  });
}

const NOTHING: Reload = { changed: [], notReloadable: [], unanswered: [] };

/** Shows what would change, or why not. Without `dryRun`, reloads, shows only a refusal, and resolves to whether there was none. */
async function show(context: ConsoleContext, dryRun: boolean): Promise<boolean> {
  const { management, ctx } = context;
  const found = await settingsHandlers
    .reloadSettings(management, { body: { dryRun } })
    .catch(refusalOf);
  const isRefused = found instanceof HttpError;
  if (!isRefused && !dryRun) return true;
  const { changed, notReloadable, unanswered, affectedTokens, ...affected } = isRefused
    ? NOTHING
    : found;
  await management.services.pages.render(
    ctx,
    'console/settings',
    {
      console: layout(context, 'settings'),
      changed,
      notReloadable,
      unanswered,
      tokens: (affectedTokens ?? []).map(({ name }) => name),
      ...affectedValues(affected),
      ...(isRefused ? { problem: { kind: found.code, lines: found.message.split('\n') } } : {}),
      action: SETTINGS_PATH,
      back: HEALTH_PATH,
    },
    isRefused && !dryRun ? found.status : 200,
  );
  return false;
}

const REFUSALS = new Set([
  'invalid_settings',
  'restart_required',
  'reload_in_progress',
  'secrets_differ',
]);

function refusalOf(error: unknown): HttpError {
  if (error instanceof HttpError && REFUSALS.has(error.code)) return error;
  throw error;
}
