// The connections on the page of a connector, app or person, each with why it does not work, what to do, and the form to disconnect it.
import { isMachineSubject } from '../../connections/machine-subject.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { isRecorded } from '../../permission-levels.ts';
import { epochSeconds } from '../resources/fields.ts';
import {
  type Grant,
  grantList,
  IS_SUSPICIOUS,
  needsNothing,
  verifiedEmail,
} from '../resources/grant.ts';
import { listRecentGrants } from '../grants.ts';
import { CONSOLE_PATH, recordPath, type RecordSection } from './address.ts';
import type { ConsoleContext } from './context.ts';
import { offeredActions } from './lists.ts';

export type Connection = ViewValues['console/record']['connections'][number];
type Reason = NonNullable<Connection['reason']>;

const FILTERS = { connectors: 'connector', clients: 'client', accounts: 'account' } as const;

/** Returns the newest connections of a connector, app or person. */
export async function connectionValues(
  context: ConsoleContext,
  { section, id }: { section: keyof typeof FILTERS; id: string },
): Promise<{ connections: Connection[]; ended: Connection[]; allConnections?: string }> {
  const filter = { [FILTERS[section]]: id };
  const { open, ended, isAll } = await listRecentGrants(context.management, filter);
  const toValues = (grant: Grant) => connectionOf(context, grant, { section, id });
  const query = new URLSearchParams(filter);
  return {
    connections: open.map(toValues),
    ended: ended.map(toValues),
    allConnections: isAll ? undefined : `${CONSOLE_PATH}/grants?${query}`,
  };
}

/** Returns the connection as the page of the record with `id` shows it, without what that page is about. */
export function connectionOf(
  { management }: ConsoleContext,
  grant: Grant,
  { section, id }: { section: RecordSection; id: string },
): Connection {
  const { audit, levels } = management.settings;
  const { state, level, lastUsedAt, endedAt, reason } = grant;
  const isMachine = isMachineSubject(grant.account);
  const { person, connector, app } = ownersOf(grant, isMachine);
  const advice = {
    canReconnect: person.name !== undefined && connector.name !== undefined && !isMachine,
    isRecorded: audit.calls === 'all' || (level !== undefined && isRecorded(levels, level)),
  };
  const actions = offeredActions(management, grantList, grant);
  return {
    app: section === 'clients' ? undefined : app,
    person: section === 'accounts' ? undefined : person,
    isMachine,
    connector: section === 'connectors' ? undefined : connector,
    href: section === 'grants' ? undefined : recordPath('grants', grant.id),
    calls: callsOf(grant),
    level,
    state,
    isOk: needsNothing(grant),
    since: epochSeconds(grant.createdAt),
    lastActive: lastUsedAt === undefined ? undefined : epochSeconds(lastUsedAt),
    endedAt: endedAt === undefined ? undefined : epochSeconds(endedAt),
    reason: reason === undefined ? undefined : reasonOf(reason, advice),
    actions: actions.map(({ values }) => ({ ...values, returnTo: recordPath(section, id) })),
  };
}

/** Links to the calls of the app for the person through the connector, also those before the person connected it again. */
function callsOf({ account, clientId: client, connector }: Grant): Connection['calls'] {
  const about = new URLSearchParams({ account, client, connector, event: 'call' });
  const all = `${CONSOLE_PATH}/audit?${about}`;
  const periods = (['today', 'yesterday', 'week'] as const).map((since) => ({
    name: since,
    href: `${all}&since=${since}`,
  }));
  return [...periods, { name: 'all', href: all }];
}

/** The records of a connection. A deleted one has no name; a machine has the page of its client. */
function ownersOf(grant: Grant, isMachine: boolean) {
  const { connectorName, accountName, account } = grant;
  const name = verifiedEmail(grant) ?? accountName;
  const app = { name: grant.clientName, href: recordPath('clients', grant.clientId) };
  const href = isMachine ? app.href : recordPath('accounts', account);
  return {
    app,
    person: name === undefined ? {} : { name, href },
    connector:
      connectorName === undefined
        ? {}
        : { name: connectorName, href: recordPath('connectors', grant.connector) },
  };
}

/** What to do about each reason: the key below `console.advice`. The others need nothing but a new connection. */
const ADVICE: Record<string, string> = {
  refresh_replay: 'suspicious',
  code_replay: 'suspicious',
  client_blocked: 'allowApp',
  client_revoked: 'allowApp',
  connector_revoked: 'newLink',
  connector_expired: 'newLink',
  connector_deleted: 'newLink',
  connector_unconfigured: 'settings',
  connector_paused: 'resume',
  level_removed: 'settings',
  account_disabled: 'enable',
  identity_provider_ended: 'provider',
  identity_provider_unavailable: 'wait',
  sign_in_again: 'signIn',
  not_entitled: 'entitle',
  not_in_audience: 'audience',
  workload_gone: 'settings',
  dpop_required: 'dpop',
};

/**
 * The person cannot reconnect if they or the connector were deleted, or it is a machine: there is nothing to advise then, except to look for calls
 * of somebody else. `isRecorded`: the settings record calls with the connection's level.
 */
export function reasonOf(
  code: string,
  found?: { canReconnect: boolean; isRecorded: boolean },
): Reason {
  const textKey = `console.reasons.${code}`;
  if (!found) return { code, textKey, advice: [] };
  const reconnecting = found.canReconnect ? [ADVICE[code] ?? 'reconnect'] : [];
  const calls = found.isRecorded ? 'callsRecorded' : 'callsUnrecorded';
  return {
    code,
    textKey,
    advice: IS_SUSPICIOUS.has(code) ? [...reconnecting, calls] : reconnecting,
  };
}
