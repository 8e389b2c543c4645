// The connections on the page of a connector, app or person, each with why it does not work, what to do, and the form to disconnect it.
import { isMachineSubject } from '../../grants/machine-subject.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { isRecorded } from '../../permission-levels.ts';
import { includesRole } from '../../settings/management-roles.ts';
import type { GrantResource } from '../api/resources.ts';
import { ROUTES } from '../api/routes.ts';
import { listRecentGrants } from '../grants.ts';
import { CONSOLE_PATH, recordPath, type RecordSection } from './address.ts';
import type { ConsoleContext } from './context.ts';
import { epochSeconds } from './layout.ts';

export type Connection = ViewValues['console/record']['connections'][number];
type Reason = NonNullable<Connection['reason']>;

/** The page that shows a connection. */
export type RecordPlace = { section: RecordSection; id: string };

const FILTERS = { connectors: 'connector', clients: 'client', accounts: 'account' } as const;

/** Returns the newest connections of a connector, app or person. */
export async function connectionValues(
  context: ConsoleContext,
  { section, id }: { section: keyof typeof FILTERS; id: string },
): Promise<{ connections: Connection[]; ended: Connection[]; allConnections?: string }> {
  const filter = { [FILTERS[section]]: id };
  const { open, ended, isAll } = await listRecentGrants(context.management, filter);
  const toValues = (grant: GrantResource) => connectionOf(context, grant, { section, id });
  const query = new URLSearchParams(filter);
  return {
    connections: open.map(toValues),
    ended: ended.map(toValues),
    ...(isAll ? {} : { allConnections: `${CONSOLE_PATH}/grants?${query}` }),
  };
}

export function connectionOf(
  { management }: ConsoleContext,
  grant: GrantResource,
  { section, id }: RecordPlace,
): Connection {
  const { state, level, lastUsedAt, endedAt, reason } = grant;
  const person = verifiedEmail(grant) ?? grant.accountName;
  const { connectorName } = grant;
  const canReconnect =
    person !== undefined && connectorName !== undefined && !isMachineSubject(grant.account);
  const isRecordedLevel = level !== undefined && isRecorded(management.settings.levels, level);
  const isActive = state !== 'ended' && includesRole(management.role, ROUTES.revokeGrant.role);
  return {
    ...(section === 'clients'
      ? {}
      : { app: { name: grant.clientName, href: recordPath('clients', grant.clientId) } }),
    ...(section === 'accounts'
      ? {}
      : {
          person:
            person === undefined
              ? {}
              : {
                  name: person,
                  ...(isMachineSubject(grant.account)
                    ? {}
                    : { href: recordPath('accounts', grant.account) }),
                },
        }),
    ...(section === 'connectors'
      ? {}
      : {
          connector:
            connectorName === undefined
              ? {}
              : { name: connectorName, href: recordPath('connectors', grant.connector) },
        }),
    ...(section === 'grants' ? {} : { href: recordPath('grants', grant.id) }),
    ...(level === undefined ? {} : { level }),
    state,
    isOk: needsNothing(grant),
    since: epochSeconds(grant.createdAt),
    ...(lastUsedAt === undefined ? {} : { lastActive: epochSeconds(lastUsedAt) }),
    ...(endedAt === undefined ? {} : { endedAt: epochSeconds(endedAt) }),
    ...(reason === undefined
      ? {}
      : { reason: reasonOf(reason, { canReconnect, isRecorded: isRecordedLevel }) }),
    actions: isActive
      ? [
          {
            name: endActionOf(grant),
            action: `${CONSOLE_PATH}/grants/end`,
            field: 'id',
            id: grant.id,
            returnTo: recordPath(section, id),
          },
        ]
      : [],
  };
}

/** An ended connection needs attention only if somebody else may have used it. */
export function needsNothing({ state, reason = '' }: GrantResource): boolean {
  return state !== 'refused' && !IS_SUSPICIOUS.has(reason);
}

/** The text of the action to end a connection says what it takes to connect again. */
export function endActionOf({ state, account }: GrantResource): string {
  if (isMachineSubject(account)) return 'endMachine';
  return state === 'refused' ? 'endPaused' : 'endGrant';
}

/** An address that is not verified may belong to somebody else. */
function verifiedEmail({ accountEmail, accountEmailVerified }: GrantResource): string | undefined {
  return accountEmailVerified ? accountEmail : undefined;
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
  level_removed: 'settings',
  account_disabled: 'enable',
  identity_provider_ended: 'provider',
  identity_provider_unavailable: 'wait',
  sign_in_again: 'signIn',
  not_entitled: 'entitle',
  not_in_audience: 'audience',
  dpop_required: 'dpop',
};

/** Somebody else may have called tools with a copied key. */
const IS_SUSPICIOUS: ReadonlySet<string> = new Set(['refresh_replay', 'code_replay']);

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
