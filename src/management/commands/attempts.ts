// `gatehouse attempts`: who tried to connect, how far they got and why no further.
import type { Command } from 'commander';
import { allItems } from '../api/all-items.ts';
import { ATTEMPT_OWNERS, attemptFields } from '../resources/attempt.ts';
import { listText } from '../resources/fields.ts';
import { absoluteTime, parseTime, type RelativeOrAbsoluteTime } from './options.ts';
import { foundOnly } from './resolve.ts';
import type { Terminal } from './terminal.ts';

type AttemptOptions = { account?: string; client?: string; since?: RelativeOrAbsoluteTime };

const HELP = `
Attempts are kept for 30 days. Explain one by its reference or id: gatehouse why <reference>

Examples:
  $ gatehouse attempts --since 24h
  $ gatehouse attempts --account ada@example.com`;

const NONE =
  'There are no attempts. An app leaves none if it cannot reach Gatehouse (VPN, firewall), or if its organization has not enabled custom apps: open the link from another network.';

export function addAttemptsCommand(program: Command, { openClient, print }: Terminal): void {
  program
    .command('attempts')
    .description('list attempts of apps to connect, newest first, and where they ended')
    .option('--account <account>', `only attempts of this person: ${ATTEMPT_OWNERS.account.help}`)
    .option('--client <client>', `only attempts of this app: ${ATTEMPT_OWNERS.client.help}`)
    .option(
      '--since <when>',
      'only attempts of the last 15m, 24h or 7d, or since an ISO 8601 time',
      parseTime,
    )
    .addHelpText('after', HELP)
    .action(async ({ account, client, since }: AttemptOptions) => {
      const api = openClient();
      const query = {
        account: account && (await ATTEMPT_OWNERS.account.resolve(api, account)),
        // An id that is no longer known has attempts too.
        client: client && ((await foundOnly(ATTEMPT_OWNERS.client.resolve(api, client))) ?? client),
        since: since && absoluteTime(since, Date.now() / 1000),
      };
      const read = (page: object) => api.listAttempts({ query: { ...query, ...page } });
      const items = await Array.fromAsync(allItems(read));
      print({ items }, () =>
        items.length === 0 ? NONE : listText(attemptFields, 'time id app person step end', items),
      );
    });
}
