import { type AuditServices, recordAudit } from '../audit/audit.ts';
import type { ReloadReport, Reloads } from './reloads.ts';

/** Reads the settings again in all processes. `by` says who asked for it (AuditItem). Throws ReloadRefused. */
export async function reloadSettings(
  services: AuditServices & { reloads: () => Reloads },
  by: string,
): Promise<ReloadReport> {
  const report = await services.reloads().run({ dryRun: false });
  const { changed, unanswered } = report;
  const details = unanswered.length > 0 ? { changed, unanswered } : { changed };
  await recordAudit(services, {
    event: 'settings_reloaded',
    by,
    arguments: details,
    outcome: 'done',
  });
  return report;
}
