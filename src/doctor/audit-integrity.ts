// Whether the running system found the audit log as it was written.
import type { AuditVerification } from '../management/resources/audit-integrity.ts';
import type { AuditReach } from '../management/resources/audit-reach.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { counted, findingAbout, type Findings } from './report.ts';

/** The running system verifies once a day. */
const LATE_SECONDS = 2 * 86_400;

export async function checkAuditIntegrity({
  listRecords,
  now,
}: ConfiguredDeployment): Promise<Findings> {
  const records = await listRecords();
  return [verificationFinding(records?.verification, now()), unreadableFinding(records?.reach)];
}

function unreadableFinding(reach: AuditReach | undefined): Findings {
  const { unreadable = 0 } = reach ?? {};
  return (
    unreadable > 0 &&
    findingAbout('audit-integrity', 'audit log').problem({
      what: `${counted(unreadable, 'item')} of the newest ones cannot be read`,
      why: 'they were written with keys that the store does not have, or were changed in the database',
      remedy: 'run gatehouse keys rewrap, which names them, and restore them from a backup',
    })
  );
}

function verificationFinding(last: AuditVerification | undefined, now: number): Findings {
  const finding = findingAbout('audit-integrity', 'audit log');
  if (!last) return finding.unknown('the management API does not tell whether it was verified');
  const { verifiedAt, ok, checkpoints = 0, problems } = last;
  if (verifiedAt === undefined) return finding.unknown('it was not verified yet');
  if (ok !== true) {
    const [first] = problems;
    return finding.problem({
      what: `the last verification, at ${verifiedAt}, found ${counted(problems.length, 'problem')}; the first is the item ${first?.id} (${first?.kind})`,
      why: 'somebody may have changed what the log says',
      remedy:
        'run gatehouse audit verify, compare the items with what receivers or exports have, and find out who can write to the store',
    });
  }
  if (now - Date.parse(verifiedAt) > LATE_SECONDS * 1000)
    return finding.warning({
      what: `it was last verified at ${verifiedAt}`,
      why: 'a change would be noticed late',
      remedy: 'look at the log of the processes for “the audit log was not verified”',
    });
  return finding.ok(`its last day is as it was written (${counted(checkpoints, 'checkpoint')})`);
}
