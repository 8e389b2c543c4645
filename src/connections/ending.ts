// Connections are ended, or allow less: effective at once in every process, and recorded.
import { recordAudit } from '../audit/audit.ts';
import { releaseUseOf, settleUseOf } from '../connectors/connectors.ts';
import { wasExchanged } from '../grants/grant-life.ts';
import { type EndedMark, grantedLevel, type GrantRecord } from '../grants/grant-record.ts';
import { announceGrant, denyGrant, endGrant, narrowGrant } from '../grants/grants.ts';
import type { Limit } from '../grants/narrowing.ts';
import type { Reason } from '../grants/reasons.ts';
import type { Level } from '../permission-level.ts';
import type { Connection } from './connection.ts';
import { type ConnectionOptions, listConnections, type Wanted } from './connections.ts';

const AT_ONCE = 50;

type Recording = Pick<ConnectionOptions, 'store' | 'lifetimes' | 'now'>;

/** `by`: the account of the administrator who does it in the console. */
export type EndingOptions = ConnectionOptions & { by?: string | undefined };

/** Ends it for good and at once; one that is over already is left as it is. True for the one call that ended it. */
export async function endConnection(
  options: Recording & Pick<EndingOptions, 'by'>,
  { id, state }: Pick<Connection, 'id' | 'state'>,
  reason: Reason,
): Promise<boolean> {
  const { store, now } = options;
  const ended = state === 'ended' ? undefined : await endGrant(store, id, reason, now());
  if (ended) await recordEnd(options, id, ended, reason);
  return ended !== undefined;
}

/** Ends it as `endConnection` does, and prevents for `ttl` seconds that it is made when it is not there yet. */
export async function denyConnection(
  options: Recording,
  id: string,
  facts: Pick<EndedMark, 'connector' | 'client' | 'clientId' | 'accountId'>,
  ttl: number,
): Promise<void> {
  const moment = Math.floor(options.now());
  const mark: EndedMark = {
    version: 1,
    ended: 'denied',
    endedAt: moment,
    createdAt: moment,
    ...facts,
  };
  const ended = await denyGrant(options.store, id, mark, ttl);
  if (ended) await recordEnd(options, id, ended, mark.ended);
}

async function recordEnd(
  { store, by, now }: Recording & Pick<EndingOptions, 'by'>,
  id: string,
  ended: GrantRecord,
  reason: Reason,
): Promise<void> {
  const item = { event: 'grant_ended', ...about(id, ended), by, outcome: 'grant_ended', reason };
  // A use that was not written yet counts all the same; one that was only reserved is free again.
  const settle = wasExchanged(ended) ? settleUseOf : releaseUseOf;
  await Promise.all([
    announceGrant(store, id),
    settle(store, ended.connector, id),
    recordAudit(store, item, now()),
  ]);
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

/** The level that the connection has from now on, which is never higher than before. Undefined when it ended. */
export async function narrowConnection(
  options: Recording,
  id: string,
  limit: Limit,
): Promise<Level | undefined> {
  const { store, lifetimes, now } = options;
  const narrowing = await narrowGrant(store, id, limit, { lifetimes, now: now() });
  if (!narrowing) return undefined;
  const { before, after, isNarrower } = narrowing;
  const level = grantedLevel(after);
  if (isNarrower && level !== grantedLevel(before)) {
    const item = { event: 'level_lowered', ...about(id, before), arguments: { level } };
    await recordAudit(store, { ...item, outcome: 'done' }, now());
  }
  return level;
}

function about(grantId: string, { grant, connector }: GrantRecord) {
  return { account: grant.accountId, clientId: grant.clientId, connector, grantId };
}
