import type { Command } from 'commander';
import { ManagementError } from '../api/management-error.ts';
import { type Attempt, attemptText } from '../resources/attempt.ts';
import { whyText } from '../resources/grant.ts';
import { refusalDetails } from '../resources/refusal.ts';
import { foundOnly } from './resolve.ts';
import { plain, type Terminal } from './terminal.ts';

const HELP = `
The reference is on the page that a person without access saw. Refusals are kept for 30 days.

Examples:
  $ gatehouse why Zr8kT2mQp1Vx`;

const TRY =
  'compare it with the page, which may be older than 30 days, or look for what the person tried: gatehouse attempts --account <account>';

/** Of an attempt that is recorded: refusals do not have them. */
const groupsOf = ({ groups }: Partial<Attempt> = {}) => (groups ? { groups } : {});

export function addWhyCommand(program: Command, { openClient, print }: Terminal): void {
  program
    .command('why <reference>')
    .description('explain why a person got no access, or why a connection ended or is refused')
    .addHelpText('after', HELP)
    .action(async (id: string) => {
      const client = openClient();
      const refusal = await foundOnly(client.showRefusal({ id }));
      const attempt = await foundOnly(client.showAttempt({ id }));
      if (refusal) return print({ ...refusal, ...groupsOf(attempt) }, refusalDetails);
      if (attempt && attempt.grant !== id) return print(attempt, attemptText);
      const grant = await foundOnly(client.showGrant({ id }));
      if (grant) return print(grant, whyText);
      throw new ManagementError('not_found', `nothing has the reference ${plain(id)}: ${TRY}`);
    });
}
