// Whether the audit log is as it was written.
import * as z from 'zod';
import { type Operation, TEXT_STREAM } from './resource.ts';
import * as schemas from './schemas.ts';

const verification = z
  .strictObject({
    verifiedAt: schemas.time.optional().describe('Absent before the first one.'),
    ok: z.boolean().optional(),
    checkpoints: z.int().optional().describe('How many were verified.'),
    problems: z
      .array(z.strictObject({ kind: z.string(), id: z.string(), time: z.string() }))
      .describe('The first ones: `changed`, `removed`, `inserted` or `index`, with the item.'),
  })
  .meta({ id: 'AuditVerification' });

export type AuditVerification = z.output<typeof verification>;

const jwks = z.object({ keys: z.array(z.record(z.string(), z.unknown())) });

export const auditIntegrityOperations = {
  showAuditKeys: {
    method: 'get',
    path: '/audit/keys',
    role: 'viewer',
    summary: 'Shows the public keys (RFC 7517) that verify the checkpoints of the audit log.',
    response: jwks.meta({ id: 'AuditKeys' }),
  },
  showAuditVerification: {
    method: 'get',
    path: '/audit/verification',
    role: 'viewer',
    summary: 'Shows what the last daily verification of the audit log found.',
    response: verification,
  },
  verifyAudit: {
    method: 'get',
    path: '/audit/verify',
    role: 'auditor',
    summary:
      'Verifies the audit log. Sends lines of JSON: `{"progress": {"checkpoints"}}`, at the end `{"result": {"ok", "checkpoints", "problems": [{"kind", "id", "time"}], "notes"}}`, or `{"error", "error_description"}`.',
    query: z.strictObject({
      since: schemas.timestamp.optional().describe('Only checkpoints of this time and later.'),
      checkpoint: z
        .string()
        .max(4096)
        .optional()
        .describe('`jws` of a checkpoint that must be part of the log.'),
    }),
    response: TEXT_STREAM,
    stream: 'application/x-ndjson',
  },
} as const satisfies Record<string, Operation>;
