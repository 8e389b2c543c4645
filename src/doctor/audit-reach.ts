// How far back the audit log has calls, and what fits into the store.
import { MIN_REACH_SECONDS } from '../management/resources/audit-reach.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { counted, findingAbout, type Findings } from './report.ts';

export async function checkAuditReach({
  settings,
  listRecords,
}: ConfiguredDeployment): Promise<Findings> {
  if (settings.audit.calls !== 'all') return undefined;
  const finding = findingAbout('audit-reach', 'calls');
  const reach = (await listRecords())?.reach;
  if (!reach) return finding.unknown('the management API does not tell how far back they reach');
  const { seconds, items, room } = reach;
  const all = `the audit log has all calls of the last ${timeText(seconds)}`;
  const fits =
    room === undefined
      ? 'the store does not tell how many more fit'
      : `the store has room for ${room} more`;
  const what = `${all}; up to ${items} are kept, and ${fits}`;
  if (seconds >= MIN_REACH_SECONDS) return finding.ok(what);
  return finding.warning({
    what,
    why: 'earlier calls are missing, or only some of them are there',
    remedy:
      room === 0
        ? 'give the store more memory or disk'
        : 'raise audit.keepCalls if the store has room for more, or find the connection that calls so often',
  });
}

function timeText(seconds: number): string {
  const hours = Math.floor(seconds / 3600);
  return hours < 48 ? counted(hours, 'hour') : counted(Math.floor(hours / 24), 'day');
}
