// Values of the view `connected-apps` (types: pages/values.ts).
import type { Account } from '../../accounts/account.ts';
import type { Connection } from '../../connections/connection.ts';
import { listConnections } from '../../connections/connections.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { levelsUpTo } from '../../permission-level.ts';
import { isIdentifiedByHost } from '../engine/client-metadata-documents.ts';
import { accountValues } from './consent.ts';
import type { InteractionContext } from './interaction.ts';

type Values = ViewValues['connected-apps'];

const DONE = ['disconnected', 'disconnected-all', 'lowered'] as const;
const MAX_ACTIVITY = 50;

export async function accountPageValues(
  { settings, services, site }: InteractionContext,
  account: Account,
  { action, token, done }: { action: string; token: string; done: unknown },
): Promise<Values> {
  const found = await Array.fromAsync(listConnections(settings, services, { account: account.id }));
  const newestFirst = found.map(({ connection }) => connection).toReversed();
  const outcome = DONE.find((known) => known === done);
  return {
    action,
    token,
    account: accountValues(site.identityProviders, account),
    apps: newestFirst.filter(isConnected).map(appValues),
    activity: newestFirst
      .filter(({ state }) => state === 'ended')
      .toSorted((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0))
      .slice(0, MAX_ACTIVITY)
      .map(activityValues),
    ...(outcome ? { done: outcome } : {}),
  };
}

function isConnected({ state }: Connection): boolean {
  return state === 'active' || state === 'refused';
}

function appValues(connection: Connection): Values['apps'][number] {
  const { id, client, connector, level, createdAt, lastUsedAt, expiresAt, reason } = connection;
  return {
    grant: id,
    client: clientValues(connection),
    destination: client.redirectHost,
    connector: connector.name ?? connector.id,
    level: level ?? 'analytics',
    lower: levelsUpTo(level ?? 'analytics').slice(0, -1),
    since: createdAt,
    lastUsed: lastUsedAt ?? createdAt,
    until: expiresAt ?? createdAt,
    ...(reason ? { reason } : {}),
  };
}

function activityValues(connection: Connection): Values['activity'][number] {
  const { connector, endedAt, reason = 'revoked_by_administrator' } = connection;
  return {
    client: clientValues(connection),
    connector: connector.name ?? connector.id,
    reason,
    ...(endedAt === undefined ? {} : { at: endedAt }),
  };
}

function clientValues({ client: { id, name } }: Connection): Values['apps'][number]['client'] {
  return { name, ...(isIdentifiedByHost(id) ? { host: new URL(id).host } : {}) };
}
