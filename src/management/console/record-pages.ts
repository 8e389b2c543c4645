// The pages of one person, one app and one connection: what each is, why something does not work, what happened, and what can be done.
import type { Account } from '../../accounts/account.ts';
import { findAccount } from '../../accounts/accounts.ts';
import { UNNAMED } from '../../clients/rules.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { includesRole, type ManagementRole } from '../../settings/management-roles.ts';
import { showAccount } from '../accounts.ts';
import { blockBody } from '../api/requests.ts';
import type { ClientResource } from '../api/resources.ts';
import { ROUTES } from '../api/routes.ts';
import { type AuditFilter, searchAudit } from '../audit-log.ts';
import { showClient } from '../clients.ts';
import type { ManagementContext } from '../context.ts';
import { showGrant } from '../grants.ts';
import { type CreatedMachine, listMachinesCreatedBy } from '../machines.ts';
import { listTokensMintedBy } from '../minted-tokens.ts';
import { CONSOLE_PATH, recordId, recordPath, type RecordSection } from './address.ts';
import { describeAudit } from './audit-events.ts';
import { connectionOf, connectionValues, reasonOf } from './connections.ts';
import { accountManager, type ConsoleContext, type ConsoleRoutes } from './context.ts';
import {
  codeField,
  dateFields,
  epochSeconds,
  layout,
  levelField,
  textField,
  translatedField,
} from './layout.ts';
import {
  accountActions,
  accountState,
  clientActionName,
  clientActions,
  ruleFor,
} from './list-pages.ts';

type Values = ViewValues['console/record'];
type Action = Values['actions'][number];
/** An action with the role that it requires. */
type OfferedAction = Action & { role: ManagementRole };
type OfferedBlock = NonNullable<Values['block']> & { role: ManagementRole };

const HISTORY_ITEMS = 20;

export function recordPages({ page }: ConsoleRoutes): void {
  page('/accounts/:id', (context) => render(context, 'accounts', personValues));
  page('/clients/:id', (context) => render(context, 'clients', clientValues));
  page('/grants/:id', (context) => render(context, 'grants', connectionPageValues));
}

type RecordValues = Omit<
  Values,
  'console' | 'back' | 'history' | 'allHistory' | 'actions' | 'block'
> & {
  actions: OfferedAction[];
  block?: OfferedBlock;
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
  const [{ actions, block, ...values }, history] = await Promise.all([
    read(context, id),
    readHistory(management, about),
  ]);
  const mayDo = ({ role }: { role: ManagementRole }) => includesRole(management.role, role);
  await management.services.pages.render(ctx, 'console/record', {
    console: layout(context, section),
    back: `${CONSOLE_PATH}/${section}`,
    ...values,
    actions: actions.filter(mayDo).map(withoutRole),
    ...(block && mayDo(block) ? { block: withoutRole(block) } : {}),
    history,
    allHistory: `${CONSOLE_PATH}/audit?${new URLSearchParams(about)}`,
  });
}

const ACCOUNT_ROLES = {
  disable: ROUTES.disableAccount.role,
  enable: ROUTES.enableAccount.role,
  forget: ROUTES.forgetAccount.role,
};

const PERSON_MEANINGS = {
  active: 'personActive',
  disabled: 'personDisabled',
  deleted: 'personDeleted',
} as const;

const MAX_CREATED = 50;

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
      translatedField('kind', kind, 'console.created'),
      levelField(level),
      { label: 'expires', time: expiresAt },
    ],
    fields: [],
    actions: [],
  };
}

async function personValues(context: ConsoleContext, id: string): Promise<RecordValues> {
  const { management } = context;
  const [account, stored] = await Promise.all([
    showAccount(management, id),
    findAccount(management.services.store, id),
  ]);
  const { email, emailVerified, identityProvider, signedInAt, disabledAt, forgottenAt } = account;
  const isDisabled = disabledAt !== undefined;
  return {
    ...(forgottenAt === undefined ? { title: account.name } : {}),
    state: accountState(disabledAt, forgottenAt),
    isOk: !isDisabled,
    meaning: PERSON_MEANINGS[accountState(disabledAt, forgottenAt)],
    ...(management.by === accountManager(id) ? { isYou: true } : {}),
    ...(isDisabled ? { stateSince: epochSeconds(disabledAt) } : {}),
    fields: [
      ...(email === undefined
        ? []
        : [textField(emailVerified ? 'email' : 'emailUnverified', email)]),
      ...(identityProvider === '' ? [] : [codeField('provider', identityProvider)]),
      ...(stored && forgottenAt === undefined ? groupFields(stored) : []),
      ...dateFields('signedIn', signedInAt),
      ...dateFields('forgotten', forgottenAt),
      codeField('id', id),
    ],
    ...(await connectionValues(context, { section: 'accounts', id })),
    ...(await createdValues(context, id)),
    actions: accountActions(disabledAt, forgottenAt).map(([path, name]) => {
      const offered = action('accounts', path, id, ACCOUNT_ROLES[path], name);
      // The page does not exist after a deletion.
      return path === 'forget' ? withoutReturn(offered) : offered;
    }),
  };
}

const MAX_SHOWN_GROUPS = 50;
const GROUPS = 'console.groups';

/** The groups that the identity provider sent last, because rules match nothing else. */
function groupFields({ groups, groupsOmitted }: Account): Values['fields'] {
  if (groupsOmitted) return [translatedField('groups', 'omitted', GROUPS)];
  if (groups.length === 0) return [translatedField('groups', 'none', GROUPS)];
  const shown = groups.slice(0, MAX_SHOWN_GROUPS).map((group) => textField('groups', group));
  const isCut = groups.length > MAX_SHOWN_GROUPS;
  return [...shown, ...(isCut ? [translatedField('groups', 'more', GROUPS)] : [])];
}

const CLIENT_MEANINGS: Record<ClientResource['state'], string> = {
  allowed: 'appAllowed',
  waiting: 'appWaiting',
  revoked: 'appRevoked',
  blocked: 'appBlocked',
};

async function clientValues(context: ConsoleContext, id: string): Promise<RecordValues> {
  const client = await showClient(context.management, id);
  const { name, kind, state, redirectUris, usesDevice, lastUsedAt, revokedAt } = client;
  return {
    title: name ?? id,
    state,
    isOk: state === 'allowed',
    meaning: CLIENT_MEANINGS[state],
    ...(state === 'revoked' && revokedAt ? { stateSince: epochSeconds(revokedAt) } : {}),
    fields: [
      { label: 'kind', code: kind, textKey: `console.appKinds.${kind}` },
      ...(kind === 'metadata-document' ? [codeField('host', new URL(id).host)] : []),
      ...redirectUris.map((uri) => codeField('redirect', uri)),
      ...(usesDevice ? [codeField('redirect', 'device')] : []),
      ...dateFields('lastUsed', lastUsedAt),
      codeField('id', id),
    ],
    ...(await connectionValues(context, { section: 'clients', id })),
    actions: [...keyOf(client), ...changesOf(client)],
    ...blockOf(client),
  };
}

/** The response shows the new secret. */
function keyOf({ id, kind, state }: ClientResource): OfferedAction[] {
  if (kind !== 'machine' || state !== 'allowed') return [];
  const { role } = ROUTES.replaceMachineKey;
  return [withoutReturn(action('clients', 'machine-key', id, role, 'replaceKey'))];
}

function changesOf(client: ClientResource): OfferedAction[] {
  const { id, kind, state, redirectUris, usesDevice } = client;
  return clientActions(state, kind).map((path) => {
    const { role } = path === 'revoke' ? ROUTES.revokeClient : ROUTES.allowClient;
    const offered = {
      ...action('clients', path, id, role, clientActionName(path, state)),
      ...(path === 'allow-app' ? { rule: ruleFor(client) } : {}),
    };
    // A client whose registration has expired is known only while it is revoked.
    const isForgotten = redirectUris.length === 0 && !usesDevice;
    return isForgotten ? withoutReturn(offered) : offered;
  });
}

/** Blocks by name. Clients in the settings, and names that no rule can have, cannot be blocked. */
function blockOf({ id, name, kind, state }: ClientResource): { block?: OfferedBlock } {
  const canBlock = kind !== 'pre-registered' && state !== 'blocked' && name !== UNNAMED;
  if (!canBlock || name === undefined || !blockBody.safeParse({ name }).success) return {};
  return {
    block: {
      action: `${CONSOLE_PATH}/rules/block`,
      name,
      returnTo: recordPath('clients', id),
      role: ROUTES.blockClients.role,
    },
  };
}

const GRANT_MEANINGS = {
  pending: 'connectionPending',
  active: 'connectionActive',
  refused: 'connectionRefused',
  ended: 'connectionEnded',
} as const;

async function connectionPageValues(context: ConsoleContext, id: string): Promise<RecordValues> {
  const grant = await showGrant(context.management, id);
  const connection = connectionOf(context, grant, { section: 'grants', id });
  return {
    title: grant.clientName,
    ...(connection.person?.name === undefined ? {} : { owner: connection.person.name }),
    state: grant.state,
    isOk: connection.isOk,
    meaning: GRANT_MEANINGS[grant.state],
    ...(connection.endedAt === undefined ? {} : { stateSince: connection.endedAt }),
    fields: [
      ...dateFields('expires', grant.expiresAt),
      ...(grant.redirectHost ? [codeField('redirectHost', grant.redirectHost)] : []),
      codeField('id', id),
    ],
    connections: [connection],
    refusals: grant.refusals.map(({ time, reason }) => ({
      time: epochSeconds(time),
      reason: reasonOf(reason),
    })),
    actions: [],
  };
}

function action(
  section: RecordSection,
  path: string,
  id: string,
  role: ManagementRole,
  name = path,
): OfferedAction {
  return {
    name,
    action: `${CONSOLE_PATH}/${section}/${path}`,
    field: 'id',
    id,
    returnTo: recordPath(section, id),
    role,
  };
}

function withoutRole<Offered extends { role: ManagementRole }>(
  offered: Offered,
): Omit<Offered, 'role'> {
  const { role: _, ...rest } = offered;
  return rest;
}

function withoutReturn(offered: OfferedAction): OfferedAction {
  const { returnTo: _, ...rest } = offered;
  return rest;
}

async function readHistory(
  management: ManagementContext,
  about: Pick<AuditFilter, 'account' | 'client' | 'grant'>,
): Promise<Values['history']> {
  const filter = { ...about, limit: HISTORY_ITEMS, newestFirst: true };
  const { items } = await searchAudit(management, filter);
  return describeAudit(management, items);
}
