import { affectedConnections } from '../connections/affected.ts';
import { HttpError } from '../http/errors.ts';
import { type RefusalKind, ReloadRefused } from '../reload/reloads.ts';
import { reloadSettings } from '../reload/reload-settings.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { toolLosses } from './lost-tools.ts';
import { affectedResources } from './resources/affected.ts';
import type { Reload, settingsOperations } from './resources/settings.ts';

export const settingsHandlers: Handlers<keyof typeof settingsOperations> = {
  async reloadSettings(management, { body: { dryRun = false } }) {
    try {
      return dryRun
        ? await previewReload(management)
        : await reloadSettings(management.services, management.by);
    } catch (error) {
      throw error instanceof ReloadRefused ? refusal(error) : error;
    }
  },
};

/** As long as an administrator waits. */
const MAX_AFFECTED_READ = 20_000;

async function previewReload({ settings, services }: ManagementContext): Promise<Reload> {
  const reloads = services.reloads();
  const report = await reloads.run({ dryRun: true });
  const change = { before: { settings }, after: { settings: await reloads.read() } };
  const found = await affectedConnections(services, {
    ...change,
    limit: MAX_AFFECTED_READ,
    toolLosses: toolLosses(services, change),
  });
  return { ...report, ...affectedResources(found) };
}

const REFUSALS: Record<RefusalKind, [status: number, code: string]> = {
  invalid: [400, 'invalid_settings'],
  restart: [409, 'restart_required'],
  busy: [409, 'reload_in_progress'],
  secrets: [409, 'secrets_differ'],
  unavailable: [503, 'temporarily_unavailable'],
};

function refusal({ kind, message, processes }: ReloadRefused): HttpError {
  const [status, code] = REFUSALS[kind];
  return new HttpError(status, code, message, {
    members: processes.length > 0 ? { processes } : {},
  });
}
