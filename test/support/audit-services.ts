import type { Logger } from 'pino';
import type { AuditServices } from '../../src/audit/audit.ts';
import { createLogger } from '../../src/observability/logger.ts';
import type { Store } from '../../src/store/store.ts';

/** Services for `recordAudit` without metrics and log, at a fixed time in seconds since the epoch. */
export function auditServices(store: Store, now: number): AuditServices & { logger: Logger } {
  return {
    store,
    metrics: { auditEvent: () => undefined },
    auditLog: () => undefined,
    now: () => now,
    logger: createLogger('silent'),
  };
}
