// The pages of one person, one app and one connection: what each is, why something does not work, what happened, and what can be done.
import type { Account as StoredAccount } from '../../people/account.ts';
import { findAccount } from '../../people/accounts.ts';
import { UNNAMED } from '../../clients/rules.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { parseRate } from '../../settings/limits.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { attemptHandlers } from '../attempts.ts';
import { accountHandlers } from '../accounts.ts';
import { OPERATIONS } from '../api/operations.ts';
import { type AuditFilter, readAudit } from '../audit-log.ts';
import { showClient } from '../clients.ts';
import type { ManagementContext } from '../context.ts';
import { credentialHandlers } from '../credentials.ts';
import { grantHandlers } from '../grants.ts';
import { type CreatedMachine, listMachinesCreatedBy } from '../machines.ts';
import { listTokensMintedBy } from '../minted-tokens.ts';
import {
  type AccountDetails,
  accountFields,
  accountList,
  accountState,
} from '../resources/account.ts';
import { attemptList } from '../resources/attempt.ts';
import { blockBody } from '../resources/client-rule.ts';
import { type Client, clientFields, clientList, shownState } from '../resources/client.ts';
import {
  codeField,
  consoleFields,
  epochSeconds,
  textField,
  translatedField,
} from '../resources/fields.ts';
import { credentialFields } from '../resources/credential.ts';
import { grantFields } from '../resources/grant.ts';
import type { CallLimits } from '../resources/call-limit.ts';
import { type KeptOut, keptOutList } from '../resources/kept-out.ts';
import type { PersonAccess } from '../resources/person-access.ts';
import type { ConsoleList } from '../resources/resource.ts';
import { CONSOLE_PATH, recordId, recordPath, type RecordSection } from './address.ts';
import { describeAudit } from './audit-events.ts';
import { connectionOf, connectionValues, reasonOf } from './connections.ts';
import { accountManager, type ConsoleContext, type ConsoleRoutes } from './context.ts';
import { layout } from './layout.ts';
import { withNames } from './record-names.ts';
import { ruleFields } from './rule-texts.ts';
import { toolsOfPerson } from './tool-access-pages.ts';
import { offeredActions, rowOf } from './lists.ts';

type Values = ViewValues['console/record'];
type Action = Values['actions'][number];

const HISTORY_ITEMS = 20;

export function recordPages({ page }: ConsoleRoutes): void {
  page('/accounts/:id', (context) => render(context, 'accounts', personValues));
  page('/clients/:id', (context) => render(context, 'clients', clientValues));
  page('/grants/:id', (context) => render(context, 'grants', connectionPageValues));
}

const SHOWN_ATTEMPTS = 5;

/** The last attempts of a person or an app. */
async function attemptValues(
  { management }: ConsoleContext,
  about: { account: string } | { client: string },
): Promise<Pick<Values, 'attempts'>> {
  const query = { ...about, limit: SHOWN_ATTEMPTS };
  const { items } = await attemptHandlers.listAttempts(management, { query });
  // The page is about the person.
  const rows = items.map((each) => {
    const row = rowOf(management, attemptList, each);
    const facts = row.facts?.filter(({ label }) => !('account' in about) || label !== 'person');
    return { ...row, facts };
  });
  return {
    attempts: {
      items: await withNames(management, rows),
      all: `${CONSOLE_PATH}/attempts?${new URLSearchParams(about)}`,
    },
  };
}

/** `list` is the list that the record is in, if not the one that its path begins with. */
type RecordValues = Omit<Values, 'console' | 'back' | 'history' | 'allHistory'> & {
  list?: 'machines';
};

const AUDIT_FILTERS = { accounts: 'account', clients: 'client', grants: 'grant' } as const;

/** Throws 404 if there is no record with the id in the path. */
async function render(
  context: ConsoleContext,
  section: keyof typeof AUDIT_FILTERS,
  read: (context: ConsoleContext, id: string) => Promise<RecordValues>,
): Promise<void> {
  const { management, ctx } = context;
  const id = recordId(String(ctx.params.id));
  const about = { [AUDIT_FILTERS[section]]: id };
  const [{ list = section, ...values }, history] = await Promise.all([
    read(context, id),
    readHistory(management, about),
  ]);
  await management.services.pages.render(ctx, 'console/record', {
    console: layout(context, list),
    back: `${CONSOLE_PATH}/${list}`,
    ...values,
    history,
    allHistory: `${CONSOLE_PATH}/audit?${new URLSearchParams(about)}`,
  });
}

/** Returns the actions of the list, which return to the page of the record if it still exists. */
function actionsOf<Item extends { id: string }>(
  { management }: ConsoleContext,
  list: ConsoleList<Item>,
  item: Item,
  section: RecordSection,
): Action[] {
  return offeredActions(management, list, item).map(({ action, values }) => {
    const isKept = action.keepsPage?.(item) ?? true;
    return isKept ? { ...values, returnTo: recordPath(section, item.id) } : values;
  });
}

const PERSON_MEANINGS = {
  active: 'personActive',
  disabled: 'personDisabled',
  deleted: 'personDeleted',
} as const;

const MAX_CREATED = 50;
const MAX_CREDENTIALS = 50;

/** The tokens and machines that a person created, which work without the person. */
async function createdValues(
  { management }: ConsoleContext,
  id: string,
): Promise<Pick<Values, 'created'>> {
  const by = accountManager(id);
  const [tokens, machines] = await Promise.all([
    listTokensMintedBy(management, by),
    listMachinesCreatedBy(management, by),
  ]);
  const items = [
    ...tokens.map(({ name, level, expiresAt }) => {
      const href = `${CONSOLE_PATH}/tokens?${new URLSearchParams({ q: name })}`;
      return createdItem('token', { name, href, level, expiresAt: epochSeconds(expiresAt) });
    }),
    ...machines.items.map((machine) =>
      createdItem('machine', { ...machine, href: recordPath('clients', machine.id) }),
    ),
  ];
  const isAll = machines.isAll && items.length <= MAX_CREATED;
  return { created: { items: items.slice(0, MAX_CREATED), isAll } };
}

function createdItem(
  kind: 'token' | 'machine',
  { name, href, level, expiresAt }: Omit<CreatedMachine, 'id'> & { href: string },
): NonNullable<Values['created']>['items'][number] {
  return {
    title: name,
    href,
    facts: [
      translatedField('type', kind, 'console.created'),
      { label: 'granted', level },
      { label: 'expires', time: expiresAt },
    ],
    fields: [],
    actions: [],
  };
}

async function personValues(context: ConsoleContext, id: string): Promise<RecordValues> {
  const { management } = context;
  const [account, stored] = await Promise.all([
    accountHandlers.showAccount(management, { id }),
    findAccount(management.services.store, id),
  ]);
  const { disabledAt, forgottenAt } = account;
  const state = accountState(account);
  const isForgotten = forgottenAt !== undefined;
  return {
    title: isForgotten ? undefined : account.name,
    state,
    isOk: disabledAt === undefined,
    meaning: PERSON_MEANINGS[state],
    isYou: management.by === accountManager(id),
    stateSince: disabledAt === undefined ? undefined : epochSeconds(disabledAt),
    fields: [
      ...consoleFields(accountFields, 'email provider', account),
      ...(stored && !isForgotten ? groupFields(stored) : []),
      ...(account.claims ? [{ label: 'arrived', time: epochSeconds(account.claims.time) }] : []),
      ...consoleFields(accountFields, 'signedIn forgotten id', account),
    ],
    ...(await connectionValues(context, { section: 'accounts', id })),
    ...(await attemptValues(context, { account: id })),
    keptOut: account.keptOut.map((each) => keptOutItem(management, each, id)),
    ...(isForgotten ? {} : accessValues(management, account)),
    credentials: await credentialItems(management, id),
    ...(await createdValues(context, id)),
    limits: limitValues(account.limits),
    actions: actionsOf(context, accountList, account, 'accounts'),
  };
}

async function credentialItems(
  management: ManagementContext,
  account: string,
): Promise<NonNullable<Values['credentials']>> {
  const query = { account, limit: MAX_CREDENTIALS };
  const { items } = await credentialHandlers.listCredentials(management, { query });
  return items.map((credential) => ({
    title: credential.name ?? credential.upstream,
    facts: consoleFields(
      credentialFields,
      'upstream scopes connected expires lastFailed',
      credential,
    ),
    fields: [],
    actions: [],
  }));
}

function keptOutItem(management: ManagementContext, keptOut: KeptOut, account: string) {
  const row = rowOf(management, keptOutList, keptOut);
  const returnTo = recordPath('accounts', account);
  return { ...row, actions: row.actions.map((action) => ({ ...action, returnTo })) };
}

function limitValues(limits: CallLimits): NonNullable<Values['limits']> {
  return limits.map(({ limit, of, calls, used, resetsAt }) => ({
    kind: limit,
    of,
    calls,
    used,
    most: parseRate(calls).count,
    resetsAt: resetsAt === undefined ? undefined : epochSeconds(resetsAt),
  }));
}

/** Pages with thousands of rows are slow. */
const MAX_ACCESS = 50;

/** Connectors that give access come first. */
function accessValues(
  management: ManagementContext,
  { id, access }: Pick<AccountDetails, 'id' | 'access'>,
): Pick<Values, 'access' | 'otherAccess'> {
  const inOrder = access.toSorted(
    (one, other) => Number(one.level === null) - Number(other.level === null),
  );
  return {
    access: inOrder.slice(0, MAX_ACCESS).map((each) => accessItem(management, id, each)),
    otherAccess: Math.max(0, access.length - MAX_ACCESS),
  };
}

function accessItem(
  { settings }: ManagementContext,
  account: string,
  { connector, name, level, rule, reason }: PersonAccess,
): NonNullable<Values['access']>[number] {
  return {
    title: name,
    href: recordPath('connectors', connector),
    facts:
      level === null
        ? [translatedField('reason', reason ?? 'unknown', 'console.reasons')]
        : [
            { label: 'level', level },
            codeField('rule', rule ?? ''),
            ...ruleFields(settings, rule ?? ''),
            {
              label: 'tools',
              textKey: 'console.access.tools',
              href: toolsOfPerson(account, connector),
            },
          ],
    fields: [],
    actions: [],
  };
}

const MAX_SHOWN_GROUPS = 50;
const GROUPS = 'console.groups';

/** The groups that the identity provider sent last, because rules match nothing else. */
function groupFields({ groups, groupsOmitted }: StoredAccount): Values['fields'] {
  if (groupsOmitted) return [translatedField('groups', 'omitted', GROUPS)];
  if (groups.length === 0) return [translatedField('groups', 'none', GROUPS)];
  const shown = groups.slice(0, MAX_SHOWN_GROUPS).map((group) => textField('groups', group));
  const isCut = groups.length > MAX_SHOWN_GROUPS;
  return [...shown, ...(isCut ? [translatedField('groups', 'more', GROUPS)] : [])];
}

const MACHINE_MEANINGS: Record<Client['state'], string> = {
  allowed: 'machineAllowed',
  revoked: 'machineRevoked',
  blocked: 'appBlocked',
  // Only of apps.
  waiting: 'appWaiting',
  redirect_refused: 'appWaiting',
};

const CLIENT_MEANINGS: Record<Client['state'], string> = {
  allowed: 'appAllowed',
  waiting: 'appWaiting',
  revoked: 'appRevoked',
  blocked: 'appBlocked',
  // It is only listed.
  redirect_refused: 'appWaiting',
};

async function clientValues(context: ConsoleContext, id: string): Promise<RecordValues> {
  const client = await showClient(context.management, id);
  const { name, state, revokedAt } = client;
  const connected = await connectionValues(context, { section: 'clients', id });
  return {
    ...(client.kind === 'machine' ? { list: 'machines' } : {}),
    title: name ?? id,
    owner: client.kind === 'machine' ? undefined : onlyPerson(connected),
    state: shownState(client),
    isOk: state === 'allowed',
    meaning: client.kind === 'machine' ? MACHINE_MEANINGS[state] : CLIENT_MEANINGS[state],
    stateSince: state === 'revoked' && revokedAt ? epochSeconds(revokedAt) : undefined,
    fields: consoleFields(clientFields, 'appKind host redirects lastUsed expires id', client),
    ...connected,
    ...(client.kind === 'machine' ? {} : await attemptValues(context, { client: id })),
    actions: [...keyAction(context, client), ...actionsOf(context, clientList, client, 'clients')],
    block: blockOf(context, client),
    edit: editOf(context, client),
  };
}

/** The person who has all connections of an app. */
function onlyPerson({
  connections,
  ended,
  allConnections,
}: Awaited<ReturnType<typeof connectionValues>>): string | undefined {
  const people = [...connections, ...ended].map(({ person }) => person);
  const isOne = new Set(people.map((person) => person?.href)).size === 1;
  return isOne && allConnections === undefined ? people[0]?.name : undefined;
}

/** Apps choose their own names. */
function editOf({ management }: ConsoleContext, { id, kind, state }: Client): Values['edit'] {
  const may = includesRole(management.role, OPERATIONS.updateMachine.role);
  return may && kind === 'machine' && state === 'allowed'
    ? `${recordPath('clients', id)}/edit`
    : undefined;
}

/** The response shows the new secret. */
function keyAction({ management }: ConsoleContext, { id, kind, state }: Client): Action[] {
  const may = includesRole(management.role, OPERATIONS.replaceMachineKey.role);
  if (!may || kind !== 'machine' || state !== 'allowed') return [];
  return [{ name: 'replaceKey', action: `${CONSOLE_PATH}/clients/machine-key`, id }];
}

/** Blocks by name. Clients in the settings, and names that no rule can have, cannot be blocked. */
function blockOf({ management }: ConsoleContext, client: Client): Values['block'] {
  const { id, name, kind, state } = client;
  const may = includesRole(management.role, OPERATIONS.blockClients.role);
  const canBlock = kind !== 'pre-registered' && state !== 'blocked' && name !== UNNAMED;
  if (!may || !canBlock || name === undefined || !blockBody.safeParse({ name }).success)
    return undefined;
  return { action: `${CONSOLE_PATH}/rules/block`, name, returnTo: recordPath('clients', id) };
}

const GRANT_MEANINGS = {
  pending: 'connectionPending',
  active: 'connectionActive',
  refused: 'connectionRefused',
  ended: 'connectionEnded',
} as const;

async function connectionPageValues(context: ConsoleContext, id: string): Promise<RecordValues> {
  const grant = await grantHandlers.showGrant(context.management, { id });
  const connection = connectionOf(context, grant, { section: 'grants', id });
  return {
    title: grant.clientName,
    owner: connection.isMachine ? undefined : connection.person?.name,
    state: grant.state,
    isOk: connection.isOk,
    meaning: GRANT_MEANINGS[grant.state],
    stateSince: connection.endedAt,
    fields: consoleFields(grantFields, 'unused expires callerClaims redirectHost id', grant),
    connections: [connection],
    limits: limitValues(grant.limits),
    refusals: grant.refusals.map(({ time, reason }) => ({
      time: epochSeconds(time),
      reason: reasonOf(reason),
    })),
    actions: [],
  };
}

async function readHistory(
  management: ManagementContext,
  about: Pick<AuditFilter, 'account' | 'client' | 'grant'>,
): Promise<Values['history']> {
  const filter = { ...about, limit: HISTORY_ITEMS, newestFirst: true };
  const { items, names } = await readAudit(management, filter);
  return describeAudit(management, items, names);
}
