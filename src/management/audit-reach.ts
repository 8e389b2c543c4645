import { lastAuditNumber, readAuditAfter } from '../audit/audit-log.ts';
import { keptCalls, readAuditReach, roomForCalls } from '../audit/audit-reach.ts';
import type { Handlers, ManagementContext } from './context.ts';
import {
  type AuditReach,
  type auditReachOperations,
  auditReachSchema,
} from './resources/audit-reach.ts';
import { represent } from './represent.ts';
import type { Store } from '../store/store.ts';

export const auditReachHandlers: Handlers<keyof typeof auditReachOperations> = {
  async showAuditReach(management) {
    const [reach, unreadable] = await Promise.all([
      describeReach(management),
      countUnreadable(management.services.store),
    ]);
    return { ...reach, ...(unreadable > 0 ? { unreadable } : {}) };
  },
};

/** Without the count of unreadable items, for which the newest 2,000 are decrypted. */
export async function describeReach({
  settings,
  services,
}: ManagementContext): Promise<AuditReach> {
  const { time, items } = keptCalls(settings);
  const [seconds, room] = await Promise.all([
    readAuditReach(services, time),
    roomForCalls(services.store),
  ]);
  return represent(auditReachSchema, {
    seconds: Math.floor(seconds),
    items,
    room: Number.isFinite(room) ? room : undefined,
  });
}

const NEWEST_ITEMS = 2000;

async function countUnreadable(store: Store): Promise<number> {
  const after = Math.max(0, (await lastAuditNumber(store)) - NEWEST_ITEMS);
  const items = await readAuditAfter(store, after, NEWEST_ITEMS);
  return items.filter(({ item }) => item === undefined).length;
}
