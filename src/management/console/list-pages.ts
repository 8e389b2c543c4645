// The lists of clients, grants and accounts, with the actions of an administrator.
import { findAccount } from '../../accounts/accounts.ts';
import { CLIENT_STATES, findClient } from '../../clients/clients.ts';
import { destinationsOf } from '../../clients/rules.ts';
import { CONNECTION_STATES } from '../../connections/connection.ts';
import { findConnector } from '../../connectors/connectors.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import { isMachineSubject } from '../../grants/machine-subject.ts';
import { levelIds } from '../../permission-levels.ts';
import { includesRole, type ManagementRole } from '../../settings/management-roles.ts';
import { changeAccount, forgetAccount, listAccounts } from '../accounts.ts';
import {
  ACCOUNT_STATES,
  accountsQuery,
  blockBody,
  clientsQuery,
  grantsQuery,
} from '../api/requests.ts';
import {
  type AccountResource,
  type ClientResource,
  type ClientRuleResource,
  type GrantResource,
  lastWaitingFirst,
  type Page,
  personName,
} from '../api/resources.ts';
import { ROUTES } from '../api/routes.ts';
import { blockClients, listClientRules, removeClientRule } from '../client-rules.ts';
import { allowClient, listClients, revokeClient } from '../clients.ts';
import { listGrants, revokeGrant } from '../grants.ts';
import type { ManagementContext } from '../context.ts';
import { CONSOLE_PATH, recordPath, returnPath } from './address.ts';
import { confirmBlock } from './block-page.ts';
import { endActionOf, needsNothing } from './connections.ts';
import { parseInput } from '../api/router.ts';
import { type Done, doneQuery } from './done.ts';
import { type Form, optionalValue } from './forms.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import {
  codeField,
  cursorIn,
  dateFields,
  layout,
  levelField,
  type ListQuery,
  listValues,
  queryIn,
  searchIn,
  type Section,
  textField,
  translatedField,
} from './layout.ts';

const PAGE_ITEMS = 50;
const REASONS = 'console.reasons';

type Values = ViewValues['console/list'];
type Query = Record<string, string>;

type List<T> = {
  section: Section;
  query: ListQuery;
  /** Whether it has a search by text, for `q`. */
  isSearchable?: true;
  filters?: (query: Query, management: ManagementContext) => Values['filters'];
  /** The ids in the query that narrow the list, with names. */
  kept?: (management: ManagementContext, query: Query) => Promise<Values['kept']>;
  read: (management: ManagementContext, query: Query, after?: string) => Promise<Page<T>>;
  item: (resource: T) => Values['items'][number];
  /** What the buttons do. `done` is the key of the message shown afterwards. */
  actions?: Record<
    string,
    {
      role: ManagementRole;
      done: Done;
      act: (management: ManagementContext, id: string) => Promise<unknown>;
    }
  >;
};

export function listPages(routes: ConsoleRoutes): void {
  addList(routes, clients);
  addList(routes, rules);
  routes.form('/rules/block', ROUTES.blockClients.role, async (context, form) => {
    const { management, ctx } = context;
    const subject = { host: optionalValue(form, 'host'), name: optionalValue(form, 'name') };
    const from = returnPath(form);
    const parsed = blockBody.safeParse(subject);
    if (!parsed.success && !from) return showRules(context, form);
    const block = parseInput(blockBody, subject);
    if (form.confirm !== 'yes') return confirmBlock(context, block, from);
    await blockClients(management, block);
    seeOther(
      ctx,
      from ? from + doneQuery('blocked') : `${CONSOLE_PATH}/rules${doneQuery('rule-created')}`,
    );
  });
  addList(routes, grants);
  addList(routes, accounts);
}

/** Adds the page, and a form for each action. */
function addList<T>({ page, form }: ConsoleRoutes, list: List<T>): void {
  const path = `${CONSOLE_PATH}/${list.section}`;
  page(`/${list.section}`, (context) => showList(context, list, path));
  for (const [name, { role, done, act }] of Object.entries(list.actions ?? {}))
    form(`/${list.section}/${name}`, role, async ({ management, ctx }, fields) => {
      const { id = '' } = fields;
      await act(management, id);
      seeOther(
        ctx,
        (returnPath(fields) ?? path) + doneQuery(done, done === 'ended' ? id : undefined),
      );
    });
}

/** The list of rules again, with what is wrong with the form to block apps. */
async function showRules(context: ConsoleContext, { host = '', name = '' }: Form): Promise<void> {
  await showList(context, rules, `${CONSOLE_PATH}/rules`, { host, name });
}

async function showList<T>(
  context: ConsoleContext,
  list: List<T>,
  path: string,
  wrong?: { host: string; name: string },
): Promise<void> {
  const { management, ctx } = context;
  const query = {
    ...queryIn(ctx),
    ...(list.isSearchable ? { q: searchIn(ctx, list.query) } : {}),
  };
  const found = await list.read(management, query, cursorIn(ctx, list.query));
  const search = {
    filters: list.filters?.(query, management) ?? [],
    kept: await list.kept?.(management, query),
    ...(list.isSearchable ? { q: query.q ?? '' } : {}),
  };
  const allowed = Object.entries(list.actions ?? {})
    .filter(([, { role }]) => includesRole(management.role, role))
    .map(([name]) => `${path}/${name}`);
  const values = {
    console: layout(context, list.section, wrong && 'block'),
    items: found.items.map(list.item).map((item) => ({
      ...item,
      actions: item.actions.filter(({ action }) => allowed.includes(action)),
    })),
    ...listValues(ctx, path, found, search),
    ...(list.section === 'rules' && includesRole(management.role, ROUTES.blockClients.role)
      ? { block: wrong ?? { host: '', name: '' } }
      : {}),
  };
  await management.services.pages.render(ctx, 'console/list', values, wrong ? 400 : 200);
}

/** The texts of the consent page. */
const CLIENT_KIND_TEXTS: Record<ClientResource['kind'], string> = {
  'self-registered': 'consent.appUnverified',
  'metadata-document': 'consent.appAddress',
  'pre-registered': 'consent.appKnown',
  machine: 'consent.machine',
};

const clients: List<ClientResource> = {
  section: 'clients',
  query: clientsQuery,
  isSearchable: true,
  filters: (query) => [choiceFilter(query, 'state', CLIENT_STATES)],
  read: async (management, { state, q }, after) => {
    const found = await listClients(management, {
      limit: PAGE_ITEMS,
      after,
      q,
      state: CLIENT_STATES.find((known) => known === state),
    });
    return { ...found, items: lastWaitingFirst(found.items) };
  },
  item: ({
    id,
    name,
    state,
    kind,
    redirectUris,
    usesDevice,
    lastUsedAt,
    revokedAt,
    waitingSince,
  }) => ({
    title: name ?? id,
    href: recordPath('clients', id),
    state,
    isOk: state === 'allowed',
    facts: [
      { label: 'kind', code: kind, textKey: CLIENT_KIND_TEXTS[kind] },
      ...(kind === 'metadata-document' ? [codeField('host', new URL(id).host)] : []),
      ...dateFields('lastConnected', lastUsedAt),
      ...dateFields('requested', waitingSince),
      ...dateFields('revoked', revokedAt),
    ],
    fields: [
      codeField('id', id),
      // All of them: an administrator must see what is allowed. An app cannot register more than 20.
      ...redirectUris.map((uri) => codeField('redirect', uri)),
      ...(usesDevice ? [codeField('redirect', 'device')] : []),
    ],
    actions: clientActions(state, kind).map((action) => ({
      name: clientActionName(action, state),
      action: `${CONSOLE_PATH}/clients/${action}`,
      id,
      ...(action === 'allow-app' ? { rule: ruleFor({ id, name, redirectUris, usesDevice }) } : {}),
    })),
  }),
  actions: {
    revoke: { role: ROUTES.revokeClient.role, done: 'app-revoked', act: revokeClient },
    allow: {
      role: ROUTES.allowClient.role,
      done: 'allowed',
      act: (management, id) => allowClient(management, id),
    },
    'allow-app': {
      role: ROUTES.allowClient.role,
      done: 'allowed',
      act: (management, id) => allowClient(management, id, true),
    },
  },
};

type ClientAction = 'allow' | 'allow-app' | 'revoke';

/** The texts of the button. */
export function clientActionName(action: ClientAction, state: ClientResource['state']): string {
  if (action === 'allow-app') return 'allowApp';
  if (action === 'revoke') return state === 'waiting' ? 'refuseClient' : 'revokeClient';
  return state === 'revoked' ? 'allowAgain' : 'allowClient';
}

export function clientActions(
  state: ClientResource['state'],
  kind: ClientResource['kind'],
): ClientAction[] {
  if (state === 'waiting')
    return kind === 'self-registered' ? ['allow', 'allow-app', 'revoke'] : ['allow', 'revoke'];
  if (state === 'revoked') return kind === 'machine' ? [] : ['allow'];
  return state === 'allowed' ? ['revoke'] : [];
}

/** The rule that "Always allow" adds. */
export function ruleFor({
  id,
  name = id,
  redirectUris,
  usesDevice,
}: Pick<ClientResource, 'id' | 'name' | 'redirectUris' | 'usesDevice'>) {
  return { name, destinations: destinationsOf({ redirectUris, usesDevice }) };
}

const rules: List<ClientRuleResource> = {
  section: 'rules',
  query: clientsQuery,
  read: (management) => listClientRules(management),
  item: ({ id, effect, host, name = '', destinations = [], createdAt, by }) => ({
    title: host ?? name,
    state: effect === 'block' ? 'blocked' : 'allowed',
    isOk: effect === 'allow',
    facts: [
      ruleKind(host),
      ...destinations.map((destination) =>
        codeField('redirectHost', destination === 'loopback' ? 'localhost' : destination),
      ),
      ...dateFields('since', createdAt),
    ],
    fields: [codeField('id', id), ...(by === undefined ? [] : [codeField('by', by)])],
    actions: [
      {
        name: effect === 'block' ? 'removeBlock' : 'removeAllow',
        action: `${CONSOLE_PATH}/rules/remove`,
        id,
      },
    ],
  }),
  actions: {
    remove: { role: ROUTES.removeClientRule.role, done: 'rule-removed', act: removeClientRule },
  },
};

function ruleKind(host: string | undefined): Values['items'][number]['fields'][number] {
  const code = host === undefined ? 'name' : 'host';
  return { label: 'kind', code, textKey: `console.rules.${code}` };
}

const grants: List<GrantResource> = {
  section: 'grants',
  query: grantsQuery,
  isSearchable: true,
  filters: (query, { settings }) => [
    choiceFilter(query, 'state', CONNECTION_STATES),
    choiceFilter(query, 'level', levelIds(settings.levels)),
  ],
  kept: keptOwners,
  read: (management, { state, level, q, connector, account, client }, after) =>
    listGrants(management, {
      limit: PAGE_ITEMS,
      after,
      q,
      level: levelIds(management.settings.levels).find((known) => known === level),
      state: CONNECTION_STATES.find((known) => known === state),
      connector: connector || undefined,
      account: account || undefined,
      client: client || undefined,
    }),
  item: (grant) => ({
    title: grant.clientName,
    href: recordPath('grants', grant.id),
    state: grant.state,
    isOk: needsNothing(grant),
    facts: [
      isMachineSubject(grant.account)
        ? textField('machine', personName(grant))
        : textField('person', personName(grant), recordPath('accounts', grant.account)),
      textField(
        'connector',
        grant.connectorName ?? grant.connector,
        grant.connectorName && recordPath('connectors', grant.connector),
      ),
      ...(grant.level ? [levelField(grant.level, 'granted')] : []),
      ...(grant.endedAt === undefined
        ? dateFields('lastActive', grant.lastUsedAt)
        : dateFields('ended', grant.endedAt)),
      ...(grant.reason ? [translatedField('reason', grant.reason, REASONS)] : []),
    ],
    fields: [
      ...dateFields('since', grant.createdAt),
      ...(grant.redirectHost ? [codeField('redirectHost', grant.redirectHost)] : []),
      codeField('id', grant.id),
    ],
    actions:
      grant.state === 'ended'
        ? []
        : [{ name: endActionOf(grant), action: `${CONSOLE_PATH}/grants/end`, id: grant.id }],
  }),
  actions: { end: { role: ROUTES.revokeGrant.role, done: 'ended', act: revokeGrant } },
};

const accounts: List<AccountResource> = {
  section: 'accounts',
  query: accountsQuery,
  isSearchable: true,
  filters: (query) => [choiceFilter(query, 'state', ACCOUNT_STATES)],
  read: (management, { q, state }, after) =>
    listAccounts(management, {
      limit: PAGE_ITEMS,
      after,
      q,
      state: ACCOUNT_STATES.find((known) => known === state),
    }),
  item: ({
    id,
    name,
    email,
    emailVerified,
    identityProvider,
    signedInAt,
    disabledAt,
    forgottenAt,
  }) => ({
    title: forgottenAt === undefined ? name : id,
    ...(forgottenAt === undefined ? {} : { textKey: 'console.record.deletedPerson' }),
    href: recordPath('accounts', id),
    state: accountState(disabledAt, forgottenAt),
    isOk: disabledAt === undefined,
    facts: [
      ...(email !== undefined && emailVerified ? [textField('email', email)] : []),
      ...dateFields('signedIn', signedInAt),
    ],
    fields: [
      ...(email === undefined || emailVerified ? [] : [textField('emailUnverified', email)]),
      ...dateFields('disabled', disabledAt),
      ...dateFields('forgotten', forgottenAt),
      ...(identityProvider === '' ? [] : [codeField('provider', identityProvider)]),
      codeField('id', id),
    ],
    actions: accountActions(disabledAt, forgottenAt).map(([path, name]) => ({
      name,
      action: `${CONSOLE_PATH}/accounts/${path}`,
      id,
    })),
  }),
  actions: {
    disable: {
      role: ROUTES.disableAccount.role,
      done: 'disabled',
      act: (management, id) => changeAccount(management, id, 'disable'),
    },
    enable: {
      role: ROUTES.enableAccount.role,
      done: 'enabled',
      act: (management, id) => changeAccount(management, id, 'enable'),
    },
    forget: { role: ROUTES.forgetAccount.role, done: 'forgotten', act: forgetAccount },
  },
};

/** A filter. Another value in the address has no effect. */
function choiceFilter(query: Query, name: string, choices: readonly string[]) {
  const value = choices.find((known) => known === query[name]) ?? '';
  return { name, value, choiceTexts: 'console.states', choices: [...choices] };
}

/** Returns the owners whose ids are in the query, with their names. */
export async function keptOwners(
  { settings, services: { store } }: ManagementContext,
  { connector, account, client }: Query,
): Promise<Values['kept']> {
  const owners = [
    { name: 'connector', value: connector, find: (id: string) => findConnector(store, id) },
    { name: 'account', value: account, find: (id: string) => findAccount(store, id) },
    {
      name: 'client',
      value: client,
      find: (id: string) => findClient(store, id, settings.clients),
    },
  ];
  const found = owners.map(async ({ name, value, find }) =>
    value ? [{ name, value, text: (await find(value))?.name || value }] : [],
  );
  return (await Promise.all(found)).flat();
}

export function accountState(
  disabledAt: string | undefined,
  forgottenAt: string | undefined,
): 'active' | 'disabled' | 'deleted' {
  if (disabledAt === undefined) return 'active';
  return forgottenAt === undefined ? 'disabled' : 'deleted';
}

/** What an administrator can do with a person: the last part of each path, with the texts of the button. */
export function accountActions(
  disabledAt: string | undefined,
  forgottenAt: string | undefined,
): ['disable' | 'enable' | 'forget', string][] {
  const isDeleted = forgottenAt !== undefined;
  if (disabledAt === undefined)
    return isDeleted
      ? [['disable', 'disable']]
      : [
          ['disable', 'disable'],
          ['forget', 'forget'],
        ];
  return isDeleted
    ? [['enable', 'enableDeleted']]
    : [
        ['enable', 'enable'],
        ['forget', 'forgetDisabled'],
      ];
}
