// Writes many items into an audit log, of calls in the last 30 days.
import { auditItem } from '../../src/audit/audit.ts';
import { appendAudit } from '../../src/audit/audit-log.ts';
import type { Store } from '../../src/store/store.ts';

export type Subjects = { account: string; clientId: string; connector: string; grantId: string };

const BATCH = 1000;
const DAY = 86_400;

type Limits = { deadline?: number; write?: (append: () => Promise<unknown>) => Promise<unknown> };

/** Returns how many were written: all, unless they take longer than `deadline`, a time of `performance.now()`. */
export async function writeAuditItems(
  store: Store,
  count: number,
  subjectsOf: (n: number) => Subjects,
  { deadline = Infinity, write = (append) => append() }: Limits = {},
): Promise<number> {
  const now = Date.now() / 1000;
  for (let first = 0; first < count; first += BATCH) {
    if (performance.now() > deadline) return first;
    const added = Array.from({ length: Math.min(BATCH, count - first) }, (_, index) => {
      const n = first + index;
      const at = now - 30 * DAY * (1 - n / count);
      const item = auditItem({ now: () => at }, { ...callOf(n), ...subjectsOf(n) });
      return { item, part: n % 10 === 0 ? ('lasting' as const) : ('bulk' as const) };
    });
    await write(() => appendAudit(store, added));
  }
  return count;
}

function callOf(n: number) {
  return {
    event: n % 1000 === 1 ? 'signed_in' : 'call',
    tool: n % 50_000 === 7 ? 'rare_tool' : `tool_${n % 30}`,
    upstream: 'main',
    level: 'operations',
    outcome: n % 97 === 0 ? 'refused' : 'answered',
    ms: n % 900,
    bytesIn: 300,
    bytesOut: 4000,
    address: '203.0.113.7',
    userAgent: 'Claude-User/1.0',
    traceId: String(n).padStart(32, '0'),
    ...(n % 10 === 0 ? { argumentsJson: JSON.stringify({ member: n, months: [1, 2, 3] }) } : {}),
  };
}
