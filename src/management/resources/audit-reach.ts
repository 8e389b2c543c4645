// How far back the audit log has calls.
import * as z from 'zod';
import type { Operation } from './resource.ts';

const count = z.int().min(0);

/** Shorter is an alert. */
export const MIN_REACH_SECONDS = 7 * 86_400;

export const auditReachSchema = z
  .strictObject({
    seconds: count.describe('How far back the log has all calls, at most `audit.keepCalls.time`.'),
    items: count.describe('How many calls are kept (`audit.keepCalls.items`).'),
    room: count
      .optional()
      .describe('How many more fit into the store. Absent if the store does not tell.'),
    unreadable: count
      .optional()
      .describe('How many of the newest 2,000 items cannot be read. Absent if there are none.'),
  })
  .meta({ id: 'AuditReach' });

export type AuditReach = z.output<typeof auditReachSchema>;

export const auditReachOperations = {
  showAuditReach: {
    method: 'get',
    path: '/audit/reach',
    role: 'viewer',
    summary:
      'Shows how far back the audit log has all calls of levels that are not recorded, and how many more fit into the store.',
    response: auditReachSchema,
  },
} as const satisfies Record<string, Operation>;
