// The console's lists of clients, grants, accounts and the audit log, with what an administrator can do about each item.
import type { AuditItem } from '../../audit/audit.ts';
import { CONNECTION_STATES, type ConnectionState } from '../../connections/connection.ts';
import type { ViewValues } from '../../http/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import { securityEvents } from '../../observability/labels.ts';
import { changeAccount, listAccounts } from '../accounts.ts';
import { listAudit } from '../audit-log.ts';
import { allowClient, listClients, revokeClient } from '../clients.ts';
import type { AccountDocument, Page } from '../documents.ts';
import type { ClientDocument, GrantDocument } from '../grant-documents.ts';
import { listGrants, revokeGrant } from '../grants.ts';
import { accountsQuery, auditQuery, clientsQuery, grantsQuery } from '../input.ts';
import type { ManagementTools } from '../route.ts';
import type { Form } from './forms.ts';
import { code, level, said, text, time } from './facts.ts';
import { frameOf, type Section } from './frame.ts';
import { type ListQuery, nextLink, placeIn } from './place.ts';
import { CONSOLE, type Sections, type Visit } from './visit.ts';

type Values = ViewValues['console/list'];
type Item = Values['items'][number];
type Query = Record<string, string>;

type List<T> = {
  section: Section;
  query: ListQuery;
  filters?: (query: Query) => Values['filters'];
  read: (tools: ManagementTools, query: Query, after?: string) => Promise<Page<T>>;
  item: (document: T) => Item;
  /** What the buttons do, and the key of what has been done then. */
  actions?: Record<string, { done: string; act: (tools: ManagementTools, id: string) => unknown }>;
};

const PAGE = 50;
const EVENTS = 'console.events';
const OUTCOMES = 'console.outcomes';
const REASONS = 'console.reasons';

export function listPages(sections: Sections): void {
  addList(sections, clients);
  addList(sections, grants);
  addList(sections, accounts);
  addList(sections, audit);
}

function addList<T>({ page, form }: Sections, list: List<T>): void {
  const path = `${CONSOLE}/${list.section}`;
  page(`/${list.section}`, (visit) => showList(visit, list, path));
  for (const [name, { done, act }] of Object.entries(list.actions ?? {}))
    form(`/${list.section}/${name}`, async ({ options, ctx }: Visit, { id = '' }: Form) => {
      await act(options, id);
      seeOther(ctx, `${path}?done=${done}`);
    });
}

async function showList<T>(visit: Visit, list: List<T>, path: string): Promise<void> {
  const { options, ctx } = visit;
  const given = Object.entries(ctx.query).map(([name, value]) => [name, [value].flat()[0] ?? '']);
  const { after: _place, done: _done, ...query }: Query = Object.fromEntries(given);
  const { items, next } = await list.read(options, query, placeIn(ctx, list.query));
  await options.pages.render(ctx, 'console/list', {
    console: frameOf(visit, list.section),
    items: items.map(list.item),
    ...nextLink(path, next, query),
    filters: list.filters?.(query) ?? [],
    action: path,
  });
}

/** As people read it when they are asked for consent. */
const KINDS: Record<ClientDocument['kind'], string> = {
  'self-registered': 'consent.appUnverified',
  'metadata-document': 'consent.appAddress',
  'pre-registered': 'consent.appKnown',
};

const clients: List<ClientDocument> = {
  section: 'clients',
  query: clientsQuery,
  read: (tools, _query, after) => listClients(tools, { limit: PAGE, after }),
  item: ({ id, name, state, kind, redirectUris, lastUsedAt, revokedAt }) => ({
    title: name ?? id,
    state,
    isWell: state === 'allowed',
    facts: [
      code('id', id),
      { label: 'kind', code: kind, said: KINDS[kind] },
      ...redirectUris.slice(0, 5).map((uri) => code('redirect', uri)),
      ...time('lastUsed', lastUsedAt),
      ...time('ended', revokedAt),
    ],
    actions: [
      state === 'allowed'
        ? { name: 'revokeClient', action: `${CONSOLE}/clients/revoke`, id }
        : { name: 'allowClient', action: `${CONSOLE}/clients/allow`, id },
    ],
  }),
  actions: {
    revoke: { done: 'ended', act: revokeClient },
    allow: { done: 'allowed', act: allowClient },
  },
};

const grants: List<GrantDocument> = {
  section: 'grants',
  query: grantsQuery,
  filters: ({ state = '' }) => [
    { name: 'state', value: state, said: 'console.choices', choices: [...CONNECTION_STATES] },
  ],
  read: (tools, { state, connector, account, client }, after) =>
    listGrants(tools, {
      limit: PAGE,
      after,
      state: CONNECTION_STATES.find((known: ConnectionState) => known === state),
      connector: connector || undefined,
      account: account || undefined,
      client: client || undefined,
    }),
  item: (grant) => ({
    title: grant.clientName,
    state: grant.state,
    isWell: grant.state === 'active',
    facts: [
      text('person', grant.accountEmail ?? grant.accountName ?? grant.account),
      text('connector', grant.connectorName ?? grant.connector),
      ...(grant.level ? [level(grant.level, 'granted')] : []),
      ...(grant.reason ? [said('reason', grant.reason, REASONS)] : []),
      ...time('since', grant.createdAt),
      ...time('lastUsed', grant.lastUsedAt),
      ...time('ended', grant.endedAt),
      code('redirect', grant.redirectHost),
      code('id', grant.id),
    ],
    actions:
      grant.state === 'ended'
        ? []
        : [{ name: 'endGrant', action: `${CONSOLE}/grants/end`, id: grant.id }],
  }),
  actions: { end: { done: 'ended', act: revokeGrant } },
};

const accounts: List<AccountDocument> = {
  section: 'accounts',
  query: accountsQuery,
  read: (tools, _query, after) => listAccounts(tools, { limit: PAGE, after }),
  item: ({ id, name, email, identityProvider, signedInAt, disabledAt }) => ({
    title: name,
    state: disabledAt === undefined ? 'allowed' : 'disabled',
    isWell: disabledAt === undefined,
    facts: [
      ...(email === undefined ? [] : [text('email', email)]),
      ...time('signedIn', signedInAt),
      ...time('ended', disabledAt),
      code('provider', identityProvider),
      code('id', id),
    ],
    actions: [
      disabledAt === undefined
        ? { name: 'disable', action: `${CONSOLE}/accounts/disable`, id }
        : { name: 'enable', action: `${CONSOLE}/accounts/enable`, id },
    ],
  }),
  actions: {
    disable: { done: 'disabled', act: (tools, id) => changeAccount(tools, id, 'disable') },
    enable: { done: 'enabled', act: (tools, id) => changeAccount(tools, id, 'enable') },
  },
};

const HOUR = 3600;
const SINCE: Record<string, number> = { hour: HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR };
/** Every read goes over a thousand items at most. */
const MOST_READS = 20;

const audit: List<AuditItem> = {
  section: 'audit',
  query: auditQuery,
  filters: ({ since = 'day', event = '' }) => [
    { name: 'since', value: since, said: 'console.choices', choices: Object.keys(SINCE) },
    { name: 'event', value: event, said: EVENTS, choices: eventsWith(event) },
  ],
  read: async (tools, { since = 'day', event }, after) => {
    const age = SINCE[since];
    const wanted = {
      limit: PAGE,
      event: event || undefined,
      ...(age === undefined ? {} : { since: tools.now() - age }),
    };
    let found = await listAudit(tools, { ...wanted, after });
    for (let reads = 1; isEmptyButMore(found) && reads < MOST_READS; reads += 1)
      found = await listAudit(tools, { ...wanted, after: found.next });
    return found;
  },
  item: ({ time: at, event, outcome, tool, reason, arguments: given, ...who }) => ({
    title: event,
    said: `${EVENTS}.${event}`,
    facts: [
      code('time', at),
      ...(outcome === event ? [] : [said('outcome', outcome, OUTCOMES)]),
      ...(reason === undefined ? [] : [said('reason', reason, REASONS)]),
      ...Object.entries({ by: who.by, person: who.account, client: who.clientId }).flatMap(
        ([label, id]) => (id === undefined ? [] : [code(label, id)]),
      ),
      ...(who.connector === undefined ? [] : [code('connector', who.connector)]),
      ...(who.grantId === undefined ? [] : [code('grant', who.grantId)]),
      ...(tool === undefined ? [] : [code('tool', tool)]),
      ...(given === undefined ? [] : [code('arguments', JSON.stringify(given))]),
    ],
    actions: [],
  }),
};

/** What was asked for stays chosen, also when it is none of ours. */
function eventsWith(event: string): string[] {
  return [...new Set([...securityEvents, event])].filter(Boolean);
}

function isEmptyButMore({ items, next }: Page<unknown>): boolean {
  return items.length === 0 && next !== undefined;
}
