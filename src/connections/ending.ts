// Connections are ended, or their level is lowered: effective at once in every process, and recorded.
import { type AuditServices, recordAudit } from '../audit/audit.ts';
import { settleUseOf } from '../connectors/connectors.ts';
import { wasExchanged } from '../grants/grant-life.ts';
import type { GrantRecord } from '../grants/grant-record.ts';
import { announceGrant, endGrant, lowerGrant } from '../grants/grants.ts';
import type { Reason } from '../grants/reasons.ts';
import type { Level } from '../permission-level.ts';
import type { Connection } from './connection.ts';
import { type ConnectionOptions, listConnections, type Wanted } from './connections.ts';

const AT_ONCE = 50;

/** `by`: the account of the administrator who does it in the console. */
export type EndingOptions = ConnectionOptions & AuditServices & { by?: string | undefined };

/** Ends it for good and at once; one that is over already is left as it is. True for the one call that ended it. */
export async function endConnection(
  options: EndingOptions,
  { id, state }: Pick<Connection, 'id' | 'state'>,
  reason: Reason,
): Promise<boolean> {
  const { store, by, now } = options;
  const ended = state === 'ended' ? undefined : await endGrant(store, id, reason, now());
  if (!ended) return false;
  const item = { event: 'grant_ended', ...about(id, ended), by, outcome: 'grant_ended', reason };
  await Promise.all([
    announceGrant(store, id),
    // A use that was not written yet counts all the same.
    wasExchanged(ended) && settleUseOf(store, ended.connector, id),
    recordAudit(options, item),
  ]);
  return true;
}

/** Ends all that are not over; resolves to how many. */
export async function endConnections(
  options: EndingOptions,
  wanted: Wanted,
  reason: Reason,
): Promise<number> {
  const connections = await Array.fromAsync(listConnections(options, wanted));
  let count = 0;
  while (connections.length > 0) {
    const batch = connections.splice(0, AT_ONCE);
    const ended = await Promise.all(
      batch.map(({ connection }) => endConnection(options, connection, reason)),
    );
    count += ended.filter(Boolean).length;
  }
  return count;
}

/** True when the level was above `level`, and is not any more. */
export async function lowerConnection(
  options: EndingOptions,
  id: string,
  level: Level,
): Promise<boolean> {
  const { store, lifetimes, now } = options;
  const before = await lowerGrant(store, id, level, { lifetimes, now: now() });
  if (!before) return false;
  const lowered = { event: 'level_lowered', ...about(id, before), arguments: { level } };
  await recordAudit(options, { ...lowered, outcome: 'done' });
  return true;
}

function about(grantId: string, { grant, connector }: GrantRecord) {
  return { account: grant.accountId, clientId: grant.clientId, connector, grantId };
}
