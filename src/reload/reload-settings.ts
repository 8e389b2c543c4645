import type { AuditServices } from '../audit/audit.ts';
import { recordChange } from '../audit/recorded-change.ts';
import type { ReloadReport, Reloads } from './reloads.ts';

/** Reads the settings again in all processes. `by` says who asked for it (AuditItem). Throws ReloadRefused. */
export async function reloadSettings(
  services: AuditServices & { reloads: () => Reloads },
  by: string,
): Promise<ReloadReport> {
  const item = { event: 'settings_reloaded', by };
  return recordChange(services, item, {
    make: () => services.reloads().run({ dryRun: false }),
    itemOf: ({ changed, unanswered }) => {
      const details = unanswered.length > 0 ? { changed, unanswered } : { changed };
      return { ...item, arguments: details };
    },
  });
}
