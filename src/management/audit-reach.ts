import { lastAuditNumber, readAuditAfter } from '../audit/audit-log.ts';
import { keptCalls, readAuditReach, roomForCalls } from '../audit/audit-reach.ts';
import type { Handlers } from './context.ts';
import { type auditReachOperations, auditReachSchema } from './resources/audit-reach.ts';
import { represent } from './represent.ts';
import type { Store } from '../store/store.ts';

export const auditReachHandlers: Handlers<keyof typeof auditReachOperations> = {
  async showAuditReach({ settings, services }) {
    const { time, items } = keptCalls(settings);
    const [seconds, room, unreadable] = await Promise.all([
      readAuditReach(services, time),
      roomForCalls(services.store),
      countUnreadable(services.store),
    ]);
    return represent(auditReachSchema, {
      seconds: Math.floor(seconds),
      items,
      room: Number.isFinite(room) ? room : undefined,
      ...(unreadable > 0 ? { unreadable } : {}),
    });
  },
};

const NEWEST_ITEMS = 2000;

async function countUnreadable(store: Store): Promise<number> {
  const after = Math.max(0, (await lastAuditNumber(store)) - NEWEST_ITEMS);
  const items = await readAuditAfter(store, after, NEWEST_ITEMS);
  return items.filter(({ item }) => item === undefined).length;
}
