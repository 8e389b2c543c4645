// The options by which `gatehouse audit` and its commands find items.
import { type Command, Option } from 'commander';
import { type AuditEvent, auditEvents } from '../../observability/labels.ts';
import type { ManagementClient } from '../api/client.ts';
import { ACCOUNT } from '../resources/account.ts';
import { CLIENT } from '../resources/client.ts';
import { CONNECTOR } from '../resources/connector.ts';
import { absoluteTime, parseTime, type RelativeOrAbsoluteTime } from './options.ts';

type TextFilter = 'account' | 'client' | 'connector' | 'grant' | 'tool' | 'event' | 'outcome';

export type AuditOptions = Partial<Record<TextFilter, string>> & {
  since?: RelativeOrAbsoluteTime;
  until?: RelativeOrAbsoluteTime;
};

const TIMES = 'of the last 15m, 24h or 7d, or since an ISO 8601 time';

export function addAuditFilters(command: Command): Command {
  return command
    .option('--since <when>', `only items ${TIMES}`, parseTime)
    .option(
      '--until <when>',
      'only items before this time, or older than 15m, 24h or 7d',
      parseTime,
    )
    .option('--account <account>', `only items about this person: ${ACCOUNT.help}`)
    .option('--client <client>', `only items about this app: ${CLIENT.help}`)
    .option('--connector <connector>', `only items about this connector: ${CONNECTOR.help}`)
    .option('--grant <id>', 'only items about this connection')
    .option('--tool <name>', 'only calls of this tool, or with this method')
    .addOption(new Option('--event <name>', 'only items with this event').choices(auditEvents))
    .option('--outcome <outcome>', 'only items with this outcome, such as refused');
}

/** Machines, minted tokens and workloads, which are no accounts. */
const OTHER_CALLER = /^(machine|minted|workload):/;

/** The parameters of the API. Names become ids. */
export async function auditQueryOf(
  api: ManagementClient,
  { since, until, account, client, connector, grant, tool, event, outcome }: AuditOptions,
  now: number,
) {
  const isOther = account !== undefined && OTHER_CALLER.test(account);
  return {
    since: since && absoluteTime(since, now),
    until: until && absoluteTime(until, now),
    account: account && (isOther ? account : await ACCOUNT.resolve(api, account)),
    client: client && (await CLIENT.resolve(api, client)),
    connector: connector && (await CONNECTOR.resolve(api, connector)),
    grant,
    tool,
    event: event as AuditEvent | undefined,
    outcome,
  };
}
