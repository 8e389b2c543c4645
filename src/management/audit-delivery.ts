import { recordChange } from '../audit/recorded-change.ts';
import { resendSince } from '../audit/delivery/resend.ts';
import { deliveryStatus } from '../audit/delivery/status.ts';
import { notFound } from '../http/errors.ts';
import { includesRole } from '../settings/management-roles.ts';
import { AUDITOR } from './audit-readable.ts';
import type { Handlers } from './context.ts';
import { isoTime, represent } from './represent.ts';
import { type deliveryOperations, deliverySchema } from './resources/audit-delivery.ts';

export const deliveryHandlers: Handlers<keyof typeof deliveryOperations> = {
  async listAuditDelivery({ role, settings: { audit }, services: { store } }) {
    const found = await Promise.all(audit.delivery.map((target) => deliveryStatus(store, target)));
    // A receiver may repeat what it was sent.
    const shown = (reason?: string) => (includesRole(role, AUDITOR) ? { reason } : {});
    return {
      items: found.map(({ reason, ...status }) =>
        represent(deliverySchema, { ...status, ...shown(reason) }),
      ),
    };
  },

  async resendAudit({ settings: { audit }, services, by }, { id, body: { since } }) {
    const target = audit.delivery.find((each) => each.id === id);
    if (!target) {
      const ids = audit.delivery.map((each) => each.id).join(', ') || 'none';
      throw notFound(`there is no target with this id; audit.delivery has ${ids}`);
    }
    const details = { target: id, since: isoTime(since) };
    const item = { event: 'delivery_resent', by, arguments: details };
    await recordChange(services, item, {
      make: () => resendSince(services.store, target, since),
      itemOf: () => item,
    });
    return represent(deliverySchema, await deliveryStatus(services.store, target));
  },
};
