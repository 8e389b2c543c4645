import type { Command } from 'commander';
import { attemptText } from '../resources/attempt.ts';
import { whyText } from '../resources/grant.ts';
import { refusalDetails } from '../resources/refusal.ts';
import { foundOnly } from './resolve.ts';
import type { Terminal } from './terminal.ts';

const HELP = `
The reference is on the page that a person without access saw. Refusals are kept for 30 days.

Examples:
  $ gatehouse why Zr8kT2mQp1Vx`;

export function addWhyCommand(program: Command, { openClient, print }: Terminal): void {
  program
    .command('why <reference>')
    .description('explain why a person got no access, or why a connection ended or is refused')
    .addHelpText('after', HELP)
    .action(async (id: string) => {
      const client = openClient();
      const refusal = await foundOnly(client.showRefusal({ id }));
      if (refusal) return print(refusal, refusalDetails);
      const attempt = await foundOnly(client.showAttempt({ id }));
      if (attempt && attempt.grant !== id) return print(attempt, attemptText);
      return print(await client.showGrant({ id }), whyText);
    });
}
