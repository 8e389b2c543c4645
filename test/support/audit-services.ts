import type { AuditServices } from '../../src/audit/audit.ts';
import type { Store } from '../../src/store/store.ts';

/** Services for `recordAudit` without metrics and log, at a fixed time in seconds since the epoch. */
export function auditServices(store: Store, now: number): AuditServices {
  return {
    store,
    metrics: { auditEvent: () => undefined },
    auditLog: () => undefined,
    now: () => now,
  };
}
