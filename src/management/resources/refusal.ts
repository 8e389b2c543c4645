// Why a person got no access, by the reference on the page.
import * as z from 'zod';
import { accessRefusals } from '../../observability/labels.ts';
import { RULE_KINDS } from '../../people/entitlement.ts';
import { details, minute } from '../commands/terminal.ts';
import type { Attempt } from './attempt.ts';
import { refusalText } from './person-access.ts';
import type { Operation } from './resource.ts';
import * as schemas from './schemas.ts';

const refusalSchema = z
  .strictObject({
    reference: z
      .string()
      .describe('As on the page that the person saw, and as `requestId` in the log.'),
    time: schemas.time,
    reason: z.enum(accessRefusals),
    tried: z
      .array(z.enum(RULE_KINDS))
      .optional()
      .describe('The kinds of rules that did not match, of `no_rule`.'),
    account: z.string().optional().describe('Absent if nobody had signed in.'),
    clientId: z.string().optional(),
    connector: z.string().optional(),
  })
  .meta({ id: 'Refusal' });

export type Refusal = z.output<typeof refusalSchema>;

export const refusalOperations = {
  showRefusal: {
    method: 'get',
    path: '/refusals/:id',
    role: 'viewer',
    summary: 'Says why a person got no access, by the reference on the page. Kept for 30 days.',
    response: refusalSchema,
  },
} as const satisfies Record<string, Operation>;

/** What the command prints. */
export function refusalDetails({
  time,
  reason,
  tried,
  account,
  clientId,
  connector,
  groups,
}: Refusal & Pick<Attempt, 'groups'>): string {
  const next =
    account === undefined ? '' : `\nWhat this person gets: gatehouse account show ${account}`;
  const rows = {
    time: minute(time),
    reason,
    tried: tried?.join(', '),
    account,
    groups: groups && (groups.join(', ') || 'none'),
    app: clientId,
    connector,
  };
  const known = Object.entries(rows).filter((row): row is [string, string] => row[1] !== undefined);
  return `${refusalText(reason)}\n\n${details(Object.fromEntries(known))}${next}`;
}
