// The receivers of the audit log, which are in the settings.
import * as z from 'zod';
import { DELIVERY_STATES } from '../../audit/delivery/progress.ts';
import type { Fields } from './fields.ts';
import { NOT_FOUND, type Operation } from './resource.ts';
import * as schemas from './schemas.ts';

const count = z.int().min(0);

export const deliverySchema = z
  .strictObject({
    id: z.string(),
    kind: z.enum(['webhook', 'otlp']),
    url: z
      .string()
      .describe('Address of the receiver without its path and query, which can be secret.'),
    state: z
      .enum(DELIVERY_STATES)
      .describe(
        '`delivering`: the last attempt succeeded, or there was none. `retrying`: it failed. `refused`: the receiver refuses everything, so somebody has to change something.',
      ),
    delivered: count.describe('Number of the last item that the receiver has.'),
    backlog: count.describe('How many items are not delivered yet.'),
    oldestAt: schemas.time.optional().describe('When the oldest of them was stored.'),
    deliveredAt: schemas.time.optional().describe('When a batch was last accepted.'),
    failedAt: schemas.time.optional().describe('When an attempt last failed.'),
    retryAt: schemas.time.optional().describe('When the next attempt is made after a failure.'),
    failures: count.describe('How many attempts failed in a row.'),
    reason: z.string().optional().describe('Why the last attempt failed, as the receiver says.'),
    rejected: count.describe('How many items the receiver refused since the target exists.'),
    lost: count.describe('How many items were trimmed before the receiver had them.'),
  })
  .meta({ id: 'AuditDelivery' });

export type AuditDelivery = z.output<typeof deliverySchema>;

export const deliveryFields: Fields<AuditDelivery> = {
  id: { code: 'id' },
  kind: { text: 'kind' },
  address: { code: 'url', label: 'receiver' },
  state: { text: 'state' },
  backlog: { text: ({ backlog }) => String(backlog) },
  oldest: { time: 'oldestAt' },
  lastDelivered: { time: 'deliveredAt', label: 'deliveredAt', none: 'never' },
  lastFailed: { time: 'failedAt', label: 'failedAt' },
  nextAttempt: { time: 'retryAt', label: 'retryAt' },
  reason: { text: 'reason' },
};

export const deliveryColumns = 'id kind address state backlog oldest lastDelivered reason';

export const deliveryOperations = {
  listAuditDelivery: {
    method: 'get',
    path: '/audit/delivery',
    role: 'viewer',
    summary: 'Lists the receivers of the audit log in the settings, and how far each has the log.',
    response: schemas.pageSchema('AuditDeliveryPage', deliverySchema),
  },
  resendAudit: {
    method: 'post',
    path: '/audit/delivery/:id/resend',
    role: 'administrator',
    summary:
      'Sends the items since a time again to a receiver, as new batches, and then those that it does not have yet.',
    body: () => z.strictObject({ since: schemas.timestamp }, schemas.OBJECT),
    response: deliverySchema,
    errors: NOT_FOUND,
  },
} as const satisfies Record<string, Operation>;
