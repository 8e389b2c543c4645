// Actions on several records of a list: those that are ticked, or, after a search or with a filter, all that was found. The first page shows what would end, and asks.
import { listConnections } from '../../connections/connections.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { ViewValues } from '../../pages/pages.ts';
import type { ManagementContext } from '../context.ts';
import { type Grant, personName } from '../resources/grant.ts';
import type { Page } from '../resources/schemas.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { afterAction } from './done.ts';
import type { Form } from './forms.ts';
import { layout, searchOfPlace } from './layout.ts';
import {
  type AnyList,
  findAll,
  LISTS,
  MAX_SEVERAL,
  roleOf,
  run,
  type Several,
  severalOf,
  showList,
  withSeveral,
} from './lists.ts';

type Values = ViewValues['console/several'];
/** Connections that are counted before. */
const MAX_COUNTED = 5000;
/** The ticked boxes. */
const TICKED = /^id\.\d{1,4}$/;

/** Adds the form of each list with such an action. */
export function severalPages({ form }: ConsoleRoutes): void {
  for (const list of LISTS) {
    const action = severalOf(list);
    if (!action) continue;
    form(`/${list.section}/several`, roleOf(action), async (context, fields) => {
      if (fields.confirm === 'yes') return act(context, list, action, fields);
      await ask(context, list, fields);
    });
  }
}

/** Changes nothing. */
async function ask(context: ConsoleContext, list: AnyList, fields: Form): Promise<void> {
  const { management, ctx } = context;
  const { section } = list;
  const place = placeFrom(fields);
  const ids = Object.entries(fields).flatMap(([name, id]) => (TICKED.test(name) ? [id] : []));
  const records: Listed[] | undefined =
    fields.which === 'all'
      ? await findAll(management, list, place, MAX_SEVERAL + 1)
      : await findTicked(management, list, ids.slice(0, MAX_SEVERAL + 1));
  if (!records) return showList(context, list, { problem: 'tooLong', place });
  const wanted = withSeveral(management, list, records);
  if (wanted.length === 0) return showList(context, list, { problem: 'nothingTicked', place });
  if (wanted.length > MAX_SEVERAL) return showList(context, list, { problem: 'tooMany', place });
  await management.services.pages.render(ctx, 'console/several', {
    console: layout(context, section),
    action: `${CONSOLE_PATH}/${section}/several`,
    ids: wanted.map(({ id }) => id).join(' '),
    count: wanted.length,
    place: new URLSearchParams(place).toString(),
    ...(await endedWith(management, section, wanted)),
    names: wanted.map((record) => nameOf(list, record)),
    back: placeOf(list, place),
  });
}

/** Returns the query of the list that the form was sent from. */
function placeFrom({ place = '' }: Form): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(place));
}

function placeOf({ section }: AnyList, place: Record<string, string>): string {
  const query = new URLSearchParams(place).toString();
  return `${CONSOLE_PATH}/${section}${query && `?${query}`}`;
}

type Listed = { id: string };

async function findTicked(
  management: ManagementContext,
  list: AnyList,
  ids: readonly string[],
): Promise<Listed[]> {
  const { show, operation } = list;
  const found = ids.map(async (id) => {
    if (show)
      return [(await run(management, show, { id }).catch(ignoreGone)) as Listed | undefined];
    return ((await run(management, operation, { query: { id, limit: 1 } })) as Page<Listed>).items;
  });
  return (await Promise.all(found)).flat().filter((record) => record !== undefined);
}

function nameOf(list: AnyList, record: Listed): Values['names'][number] {
  const name = list.title(record as never);
  const href = list.href?.(record as never);
  if (list.section !== 'grants') return { name, href };
  const grant = record as Grant;
  return { name, href, person: personName(grant), connector: grant.connectorName };
}

/** The connections that end, and the people who have them. */
async function endedWith(
  { settings, services }: ManagementContext,
  section: string,
  records: readonly Listed[],
): Promise<Pick<Values, 'connections' | 'people' | 'isAll'>> {
  const people = new Set<string>();
  const count = (account: string) => {
    if (!isMachineSubject(account)) people.add(account);
  };
  if (section === 'grants') {
    for (const grant of records as Grant[]) count(grant.account);
    return { connections: records.length, people: people.size, isAll: true };
  }
  let connections = 0;
  let left = MAX_COUNTED;
  for (const { id: client } of ['clients', 'machines'].includes(section) ? records : [])
    for await (const { item } of listConnections(settings, services, { client })) {
      if (left === 0) break;
      left -= 1;
      if (item.state === 'ended') continue;
      connections += 1;
      count(item.account.id);
    }
  return { connections, people: people.size, isAll: left > 0 };
}

/** What the page before has shown, and nothing else. */
async function act(
  { management, ctx }: ConsoleContext,
  list: AnyList,
  action: Several,
  fields: Form,
): Promise<void> {
  const { operation, query = {}, body } = action;
  const { ids = '' } = fields;
  for (const id of ids.split(' ').filter(Boolean).slice(0, MAX_SEVERAL))
    await run(management, operation, { id, query, body: { id, ...body } }).catch(ignoreGone);
  const search = searchOfPlace(placeFrom(fields));
  seeOther(ctx, afterAction(placeOf(list, search), `several-${list.section}`));
}

/** Somebody else may have ended it meanwhile. */
function ignoreGone(error: unknown): void {
  if (!(error instanceof HttpError) || ![404, 409].includes(error.status)) throw error;
}
