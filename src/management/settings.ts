import { HttpError } from '../http/errors.ts';
import { type RefusalKind, ReloadRefused } from '../reload/reloads.ts';
import { reloadSettings } from '../reload/reload-settings.ts';
import type { Handlers } from './context.ts';
import type { settingsOperations } from './resources/settings.ts';

export const settingsHandlers: Handlers<keyof typeof settingsOperations> = {
  async reloadSettings({ services, by }, { body: { dryRun = false } }) {
    try {
      if (dryRun) return await services.reloads().run({ dryRun });
      return await reloadSettings(services, by);
    } catch (error) {
      throw error instanceof ReloadRefused ? refusal(error) : error;
    }
  },
};

const REFUSALS: Record<RefusalKind, [status: number, code: string]> = {
  invalid: [400, 'invalid_settings'],
  restart: [409, 'restart_required'],
  busy: [409, 'reload_in_progress'],
  secrets: [409, 'secrets_differ'],
};

function refusal({ kind, message, processes }: ReloadRefused): HttpError {
  const [status, code] = REFUSALS[kind];
  return new HttpError(status, code, message, {
    members: processes.length > 0 ? { processes } : {},
  });
}
