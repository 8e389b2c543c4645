// What a person gets through a connector, as accounts and explanations show it.
import * as z from 'zod';
import { accessRefusals, type AccessRefusal } from '../../observability/labels.ts';
import { plain } from '../commands/terminal.ts';
import * as schemas from './schemas.ts';

export const accessSchema = z.strictObject({
  connector: z.string(),
  name: z.string(),
  level: schemas.level
    .nullable()
    .describe(
      'The highest that the person may grant, or null. An app that is connected keeps a lower one.',
    ),
  rule: z.string().optional().describe('The entitlement that gives it: `entitlements[2]`.'),
  reason: z.enum(accessRefusals).optional().describe('Why there is none.'),
});

export type PersonAccess = z.output<typeof accessSchema>;

export const accessMember = z
  .array(accessSchema)
  .describe('For each connector, what the person gets with an app that they connect now.');

const REFUSALS: Record<AccessRefusal, string> = {
  no_rule: 'No entitlement in the settings file matches this person.',
  not_in_audience: 'The connector is only for certain people.',
  level_gone: 'The access level is no longer in the settings file.',
  used_up: 'The connector has no uses left.',
  connector_revoked: 'The connector was revoked.',
  connector_expired: 'The connector has expired.',
  connector_paused: 'The connector or its MCP server is paused.',
  account_disabled: 'The person’s account was disabled.',
  client_blocked: 'An administrator blocked this app.',
  client_waiting: 'An administrator has to allow the app first.',
  kept_out: 'An administrator keeps this app away from the person.',
};

export function refusalText(reason: AccessRefusal): string {
  return REFUSALS[reason];
}

/** One line for each connector. */
export function accessLines(access: readonly PersonAccess[]): string[] {
  return access.map(({ name, connector, level, rule, reason }) => {
    const what = `${plain(name)} (${connector}): `;
    if (level !== null) return `${what}${level}, by ${rule ?? 'no rule'}`;
    return `${what}no access, ${reason ?? 'unknown'}. ${reason ? REFUSALS[reason] : ''}`;
  });
}
