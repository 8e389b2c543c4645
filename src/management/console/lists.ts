// The lists of the console, made from the descriptions of the resources: search, a row for each record, and what can be done with it.
import { Readable } from 'node:stream';
import { findAccount, hasMoreAccounts } from '../../people/accounts.ts';
import { hasMoreGrants } from '../../connections/connections.ts';
import { hasMoreClients } from '../../connections/grant-lists.ts';
import { findClient } from '../../clients/clients.ts';
import { findConnector, hasMoreConnectors } from '../../links/connectors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { ConsoleAction as ActionValues } from '../../pages/console-values.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { levelIds } from '../../permission-levels.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { OPERATIONS, type OperationName } from '../api/operations.ts';
import { type ManagementContext, requireRole } from '../context.ts';
import { HANDLERS } from '../handlers.ts';
import { parseInput } from '../parse-input.ts';
import { accountList } from '../resources/account.ts';
import { attemptList } from '../resources/attempt.ts';
import { ruleList } from '../resources/client-rule.ts';
import { clientList, machineList } from '../resources/client.ts';
import { connectorList } from '../resources/connector.ts';
import { consoleFields } from '../resources/fields.ts';
import { grantList } from '../resources/grant.ts';
import type { ConsoleAction, ConsoleList, CsvOperation, Operation } from '../resources/resource.ts';
import type { Page } from '../resources/schemas.ts';
import { workloadList } from '../resources/workload.ts';
import { tokenList } from '../resources/token.ts';
import { CONSOLE_PATH, returnPath } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { afterAction } from './done.ts';
import { columnsOf, orderIn, sortRows } from './columns.ts';
import { withNames, withPeopleAndNames } from './record-names.ts';
import {
  isNarrowed,
  layout,
  type ListQuery,
  placeIn,
  queryIn,
  searchIn,
  searchOfPlace,
} from './layout.ts';

type Values = ViewValues['console/list'];
type Query = Record<string, string>;
export type AnyList = ConsoleList<never>;

/** Every list of the console. */
export const LISTS: readonly AnyList[] = [
  connectorList,
  tokenList,
  clientList,
  ruleList,
  machineList,
  workloadList,
  grantList,
  accountList,
  attemptList,
];

/** Adds a page for each list, and a form for each action. */
export function listPages({ page, form }: ConsoleRoutes): void {
  for (const list of LISTS) {
    const { section } = list;
    page(`/${section}`, (context) => showList(context, list));
    const { csv } = list;
    if (csv) page(`/${section}/export`, (context) => download(context, section, csv));
    for (const action of list.actions ?? [])
      form(`/${section}/${action.path}`, roleOf(action), async ({ management, ctx }, fields) => {
        const { id = '' } = fields;
        await run(management, action.operation, {
          id,
          query: action.query ?? {},
          body: { id, ...action.body },
        });
        const about = action.done === 'ended' ? id : undefined;
        const target = returnPath(fields) ?? `${CONSOLE_PATH}/${section}`;
        seeOther(ctx, afterAction(target, action.done, about));
      });
  }
}

export function roleOf({ operation }: { operation: OperationName }) {
  return OPERATIONS[operation].role;
}

/** Does what the API does for the operation. */
export function run(management: ManagementContext, operation: OperationName, request: object) {
  const handlers = HANDLERS as Partial<Record<OperationName, unknown>>;
  const handle = handlers[operation] as (
    management: ManagementContext,
    request: object,
  ) => Promise<unknown>;
  return handle(management, request);
}

type More = Pick<Values, 'block' | 'minted'> & { problem?: string; place?: Query };

/** `place` is the query of the list, if not that of the request. `more` is what the page also shows. With a `problem`, the response has the status 400. */
export async function showList(
  context: ConsoleContext,
  list: AnyList,
  { problem, place = placeIn(context.ctx), ...more }: More = {},
): Promise<void> {
  const { management, ctx } = context;
  const { section, create, block } = list;
  const path = `${CONSOLE_PATH}/${section}`;
  const may = (operation: OperationName) =>
    includesRole(management.role, OPERATIONS[operation].role);
  const { search, records, ...found } = await readList(context, list, place);
  const values = {
    console: layout(context, section, problem),
    ...found,
    action: path,
    ...search,
    ...(create ? { create: may(create) ? `${path}/new` : undefined } : {}),
    ...(list.csv && may(list.csv) ? { csv: csvForm(path, search) } : {}),
    ...(block && may(block) ? { block: { host: '', name: '' } } : {}),
    ...severalForm(management, list, { ...found, records, place }),
    ...more,
  };
  await management.services.pages.render(ctx, 'console/list', values, problem ? 400 : 200);
}

export type Several = ConsoleAction<never> & { several: true };

/** Each is an operation with items of its own in the audit log. */
export const MAX_SEVERAL = 500;

/** Returns the action of the list that several records can have at once. */
export function severalOf({ actions = [] }: AnyList): Several | undefined {
  return actions.find((action): action is Several => action.several === true);
}

/** The form that acts on several records, if the page has some with the action. Without a search or filter, it acts on ticked ones only. `records` are those of all pages. */
function severalForm(
  management: ManagementContext,
  list: AnyList,
  {
    items,
    found,
    records = [],
    place,
  }: Pick<Found, 'items' | 'found'> & Records & { place: Query },
): Pick<Values, 'several'> {
  const { role } = management;
  const action = severalOf(list);
  const path = `${CONSOLE_PATH}/${list.section}`;
  const of = `${path}/${action?.path}`;
  const isOffered = items.some(({ actions }) => actions.some((each) => each.action === of));
  if (!action || !includesRole(role, roleOf(action)) || !isOffered) return {};
  return {
    several: {
      action: `${path}/several`,
      of,
      place: new URLSearchParams(place).toString(),
      ...(found && found.count <= MAX_SEVERAL
        ? { all: withSeveral(management, list, records).length }
        : {}),
    },
  };
}

/** Returns the records with the action that several can have at once. */
export function withSeveral<Item>(
  management: ManagementContext,
  list: AnyList,
  records: readonly Item[],
): Item[] {
  return records.filter((record) =>
    offeredActions(management, list, record as never).some(({ action }) => action.several === true),
  );
}

/** What the API sends. Parameters that it does not have are refused. */
async function download(
  { management, ctx }: ConsoleContext,
  section: string,
  operation: CsvOperation,
): Promise<void> {
  const { query: schema, stream, role } = OPERATIONS[operation];
  requireRole(management, role);
  const query = parseInput(schema, queryIn(ctx));
  const day = new Date(management.services.now() * 1000).toISOString().slice(0, 10);
  ctx.set('Content-Disposition', `attachment; filename="gatehouse-${section}-${day}.csv"`);
  ctx.type = stream;
  ctx.body = Readable.from(await HANDLERS[operation](management, { query }));
}

type Search = Pick<Values, 'filters' | 'q'> & { kept: NonNullable<Values['kept']> };

function csvForm(path: string, search: Search): NonNullable<Values['csv']> {
  return { action: `${path}/export`, fields: hiddenFields(search) };
}

/** The search words and the filters that are set. */
function hiddenFields({ filters, kept, q = '' }: Search): { name: string; value: string }[] {
  const all = [...filters, ...kept, { name: 'q', value: q }];
  return all.filter(({ value }) => value).map(({ name, value }) => ({ name, value }));
}

/** A list of at most so many records is read whole: it is counted, and can be sorted. */
const MAX_WHOLE = 1000;

type Found = Pick<
  Values,
  'columns' | 'items' | 'total' | 'found' | 'previous' | 'next' | 'unsortedAbove' | 'sorted'
>;

/**
 * Whether a list has more records, before it is narrowed by other than its owner, of those lists that can tell without reading them. Clients of
 * a state may be few.
 */
export async function isLongerThan(
  count: number,
  { settings, services }: ManagementContext,
  { operation, only }: AnyList,
  { kept, filters }: Pick<Search, 'kept' | 'filters'> = { kept: [], filters: [] },
): Promise<boolean> {
  const owner = Object.fromEntries(kept.map(({ name, value }) => [name, value]));
  if (operation === 'listAccounts') return hasMoreAccounts(services.store, count);
  if (operation === 'listConnectors') return hasMoreConnectors(services.store, count);
  if (operation === 'listGrants') return hasMoreGrants(settings, services, owner, count);
  const hasState = filters.some(({ name, value }) => name === 'state' && value);
  if (operation !== 'listClients' || only || hasState) return false;
  const times = { lifetime: settings.lifetimes.refreshTokenAbsolute, now: services.now() };
  return hasMoreClients(services.store, times, count);
}

/** All records that were found, if there are no more. */
type Records = { records?: readonly never[] };

/** Reads the page that `place`, the query of its address, asks for. */
async function readList(
  { management }: ConsoleContext,
  list: AnyList,
  place: Query,
): Promise<Found & Records & { search: Search }> {
  const query = searchOfPlace(place);
  const search = await searchOf(management, list, query);
  const { query: schema }: Operation = OPERATIONS[list.operation];
  const after =
    schema && parseInput((schema as unknown as ListQuery).shape.after, place.after || undefined);
  const read = (limit: number) => readPage(management, list, search, { limit, after });
  const path = `${CONSOLE_PATH}/${list.section}`;
  const at = (more: Query) => `${path}?${new URLSearchParams({ ...query, ...more })}`;
  const here =
    Object.keys(place).length === 0 ? undefined : `${path}?${new URLSearchParams(place)}`;
  const rowsOf = (items: readonly unknown[]) => {
    const shown = withoutNeedlessColumns(list, items as readonly never[]);
    return items.map((item) => returning(rowOf(management, shown, item as never), here));
  };
  const narrow = isNarrowed(search);
  const isLonger = after === undefined && (await isLongerThan(MAX_WHOLE, management, list, search));
  const whole = after === undefined && !isLonger ? await readWhole(read, MAX_WHOLE) : undefined;
  if (whole?.isAll) {
    const order = orderIn(query);
    const all = list.sort?.(whole.items) ?? whole.items;
    const { start, ...pages } = pageIn(place.page, all.length, list.limit);
    const end = start + list.limit;
    const levels = levelIds(management.settings.levels);
    const sorted = async (by: NonNullable<typeof order>) =>
      sortRows(await withNames(management, rowsOf(all)), by, levels).slice(start, end);
    const page = order ? await sorted(order) : rowsOf(all.slice(start, end));
    const items = await withPeopleAndNames(management, list, page);
    const total = { count: all.length, isAll: true };
    return {
      search,
      records: all as readonly never[],
      columns: columnsOf(items, {
        order: order ?? orderIn({ sort: list.order }),
        at,
        // People are read for the rows of this page only.
        ...(list.withPeople ? { unsorted: 'person' } : {}),
      }),
      items,
      sorted: query.sort,
      ...(narrow ? { found: total } : { total }),
      previous: pages.previous && at({ page: pages.previous }),
      next: pages.next && at({ page: pages.next }),
    };
  }
  const page = await read(list.limit);
  const items = await withPeopleAndNames(management, list, rowsOf(page.items));
  const counted =
    whole?.items.length ??
    (isLonger && !isNarrowed({ ...search, kept: [] }) ? Infinity : undefined);
  const total =
    counted === undefined
      ? undefined
      : { count: Math.min(counted, MAX_WHOLE), isAll: false, isMany: counted > MAX_WHOLE };
  return {
    search,
    columns: columnsOf(items),
    items,
    ...(narrow ? { found: total ?? { count: items.length, isAll: false } } : { total }),
    next: page.next && at({ after: page.next }),
    ...(orderIn(query) === undefined ? {} : { unsortedAbove: MAX_WHOLE }),
  };
}

/** Reads what a query narrows the list to. The query schema of the operation says what it can be searched for. */
async function searchOf(
  management: ManagementContext,
  { operation, states, stateTexts }: AnyList,
  query: Query,
): Promise<Search> {
  const { query: schema }: Operation = OPERATIONS[operation];
  const shape = schema?.shape ?? {};
  const filters = [
    ...('state' in shape
      ? [choiceFilter(query, 'state', states ?? optionsOf(shape.state), stateTexts)]
      : []),
    ...('end' in shape
      ? [choiceFilter(query, 'end', optionsOf(shape.end), 'console.attempts.ends')]
      : []),
    ...('level' in shape
      ? [choiceFilter(query, 'level', levelIds(management.settings.levels))]
      : []),
  ];
  const kept = 'account' in shape ? await keptOwners(management, query) : [];
  return { filters, kept, q: schema && searchIn(query, schema as unknown as ListQuery) };
}

async function readPage(
  management: ManagementContext,
  { operation, only }: AnyList,
  { filters, kept, q }: Search,
  page: { limit: number; after?: string | undefined },
): Promise<Page<never>> {
  const narrowed = [...filters, ...kept].map(({ name, value }) => [name, value || undefined]);
  const query = { ...page, q, ...Object.fromEntries(narrowed), ...only };
  return (await run(management, operation, { query })) as Page<never>;
}

/** Pages that one request reads. Each looks at `limit` records. */
const MAX_PAGES = 100;

/** Returns the records with the action that a query narrows the list to, at most `limit`: none if it does not narrow it. Undefined if the list is too long to read it. */
export async function findAll(
  management: ManagementContext,
  list: AnyList,
  query: Query,
  limit: number,
): Promise<never[] | undefined> {
  const search = await searchOf(management, list, query);
  if (!isNarrowed(search)) return [];
  const found: never[] = [];
  let after: string | undefined;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await readPage(management, list, search, { limit, after });
    found.push(...withSeveral(management, list, page.items));
    after = page.next;
    // Pages before the last one can be short or empty.
    if (after === undefined || found.length >= limit) return found.slice(0, limit);
  }
  return undefined;
}

/** The actions return to the list as it is searched. */
function returning(row: Values['items'][number], here: string | undefined) {
  if (here === undefined) return row;
  return { ...row, actions: row.actions.map((action) => ({ ...action, returnTo: here })) };
}

/** Leaves out the columns that tell none of these records apart. */
function withoutNeedlessColumns(list: AnyList, items: readonly never[]): AnyList {
  const names = list.facts.split(' ');
  const needed = names.filter((name) => list.fields[name]?.isColumn?.(items) ?? true);
  return { ...list, facts: needed.join(' ') };
}

/** Reads all records if they are few, and otherwise as many as are counted. */
async function readWhole(read: (limit: number) => Promise<Page<never>>, most: number) {
  const { items, next } = await read(most + 1);
  return { items, isAll: next === undefined && items.length <= most };
}

/** Returns where the page with the number in the address starts, and the numbers of those beside it. An address without a valid number means the first page. */
function pageIn(
  asked: unknown,
  count: number,
  limit: number,
): { start: number; previous?: string; next?: string } {
  const pages = Math.max(1, Math.ceil(count / limit));
  const number = Number(asked);
  const page = Number.isInteger(number) && number >= 1 && number <= pages ? number : 1;
  return {
    start: page === 1 ? 0 : (page - 1) * limit,
    ...(page > 1 ? { previous: String(page - 1) } : {}),
    ...(page < pages ? { next: String(page + 1) } : {}),
  };
}

/** The values of an optional enum. */
function optionsOf(member: unknown): readonly string[] {
  const schema = member as { unwrap: () => { options: readonly string[] } };
  return schema.unwrap().options;
}

/** A filter. Another value in the address has no effect. */
function choiceFilter(
  query: Query,
  name: string,
  choices: readonly string[],
  choiceTexts = 'console.states',
) {
  const value = choices.find((known) => known === query[name]) ?? '';
  return { name, value, choiceTexts, choices: [...choices] };
}

export function rowOf<Item>(
  management: ManagementContext,
  list: ConsoleList<Item>,
  item: Item,
): Values['items'][number] {
  return {
    id: (item as { id?: string }).id,
    title: list.title(item),
    textKey: list.titleKey?.(item),
    href: list.href?.(item),
    state: list.state(item),
    isOk: list.isOk(item),
    facts: consoleFields(list.fields, list.facts, item),
    fields: list.details ? consoleFields(list.fields, list.details, item) : [],
    actions: offeredActions(management, list, item).map(({ values }) => values),
    edit:
      list.edit && includesRole(management.role, OPERATIONS[list.edit.operation].role)
        ? list.edit.path(item)
        : undefined,
  };
}

/** Returns the actions that are possible, and that the person may take. */
export function offeredActions<Item>(
  { role }: ManagementContext,
  { section, actions = [] }: ConsoleList<Item>,
  item: Item,
): { action: ConsoleAction<Item>; values: ActionValues }[] {
  return actions.flatMap((action) => {
    const name = action.button(item);
    if (name === undefined || !includesRole(role, roleOf(action))) return [];
    const path = `${CONSOLE_PATH}/${section}/${action.path}`;
    const { id } = item as { id: string };
    return [{ action, values: { name, action: path, id, rule: action.rule?.(item) } }];
  });
}

/** Returns the owners whose ids are in the query, with their names. */
export async function keptOwners(
  { settings, services: { store } }: ManagementContext,
  { connector, account, client }: Query,
): Promise<NonNullable<Values['kept']>> {
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
