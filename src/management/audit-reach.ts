import { keptCalls, readAuditReach, roomForCalls } from '../audit/audit-reach.ts';
import type { Handlers } from './context.ts';
import { type auditReachOperations, auditReachSchema } from './resources/audit-reach.ts';
import { represent } from './represent.ts';

export const auditReachHandlers: Handlers<keyof typeof auditReachOperations> = {
  async showAuditReach({ settings, services }) {
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
  },
};
