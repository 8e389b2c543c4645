// The search in everything: the first records that each list finds, and the tools of the servers.
import type { ViewValues } from '../../pages/pages.ts';
import { hasMoreAccounts } from '../../people/accounts.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { OPERATIONS } from '../api/operations.ts';
import type { ManagementContext } from '../context.ts';
import type { Operation } from '../resources/resource.ts';
import { auditQuery } from '../resources/audit.ts';
import type { Page } from '../resources/schemas.ts';
import type { Upstream } from '../resources/upstream.ts';
import { MAX_SCANNED, searchFor } from '../search.ts';
import { describeUpstreams } from '../upstreams.ts';
import { CONSOLE_PATH } from './address.ts';
import { columnsOf } from './columns.ts';
import type { ConsoleRoutes } from './context.ts';
import { layout, queryIn, searchIn } from './layout.ts';
import { type AnyList, isLongerThan, LISTS, rowOf, run } from './lists.ts';
import { withPeopleAndNames } from './record-names.ts';
import { reachOfTool } from './tool-access-pages.ts';

type Section = ViewValues['console/search']['sections'][number];

/** Of each list. */
const SHOWN = 5;

/** What is searched for most often. The other lists follow. */
const FIRST: readonly string[] = ['accounts', 'grants', 'clients'];

function placeOf({ section }: AnyList): number {
  const place = FIRST.indexOf(section);
  return place === -1 ? FIRST.length : place;
}

export function searchPage({ page }: ConsoleRoutes): void {
  page('/search', async (context) => {
    const { management, ctx } = context;
    const q = searchIn(queryIn(ctx), auditQuery);
    const found = q === '' ? [] : await find(management, q);
    await management.services.pages.render(ctx, 'console/search', {
      console: { ...layout(context, 'search'), search: q },
      q,
      sections: found.filter(({ items }) => items.length > 0),
      unread: found.flatMap(({ section, items, all }) =>
        items.length === 0 && all !== undefined ? [{ section, href: all }] : [],
      ),
    });
  });
}

async function find(management: ManagementContext, q: string): Promise<Section[]> {
  const searched = LISTS.filter(({ operation, only }) => {
    // Those of another list.
    if (only) return false;
    const { query, role }: Operation = OPERATIONS[operation];
    return includesRole(management.role, role) && query !== undefined && 'q' in query.shape;
  });
  const inOrder = searched.toSorted((one, other) => placeOf(one) - placeOf(other));
  const found = [...inOrder.map((list) => findIn(management, list, q)), findTools(management, q)];
  return Promise.all(found);
}

/** Connectors are always read whole. Counting connections takes longer than counting people, most of whom have one. */
function isLong(management: ManagementContext, list: AnyList): Promise<boolean> | boolean {
  const { store } = management.services;
  if (list.operation === 'listConnectors') return false;
  if (list.operation === 'listGrants') return hasMoreAccounts(store, MAX_SCANNED);
  return isLongerThan(MAX_SCANNED, management, list);
}

/** Searches all of a short list. */
async function findIn(management: ManagementContext, list: AnyList, q: string): Promise<Section> {
  const isGlance = await isLong(management, list);
  const { items, next } = (await run({ ...management, isGlance }, list.operation, {
    query: { limit: SHOWN, q },
  })) as Page<never>;
  const found = items.map((item) => ({
    ...rowOf(management, list, item),
    fields: [],
    actions: [],
  }));
  const rows = await withPeopleAndNames(management, list, found);
  const path = `${CONSOLE_PATH}/${list.section}?${new URLSearchParams({ q })}`;
  return {
    section: list.section,
    columns: columnsOf(rows),
    items: rows,
    ...(next === undefined ? {} : { all: path }),
  };
}

async function findTools(management: ManagementContext, q: string): Promise<Section> {
  const matches = searchFor(q);
  // Without who can use them, for which all connectors would be read.
  const servers = await describeUpstreams(management, Promise.resolve([]));
  const rows = servers.flatMap((server) => [
    ...(matches([server.name, server.id, server.url]) ? [serverRow(server)] : []),
    ...server.tools
      .filter(({ name, title }) => matches([name, title]))
      .map((tool) => toolRow(server, tool)),
  ]);
  return {
    section: 'servers',
    items: rows.slice(0, SHOWN),
    ...(rows.length > SHOWN ? { all: `${CONSOLE_PATH}/servers` } : {}),
  };
}

function serverRow({ id, name }: Upstream): Section['items'][number] {
  const href = `${CONSOLE_PATH}/servers#server-${id}`;
  return { title: name, href, facts: [{ label: 'id', code: id }], fields: [], actions: [] };
}

function toolRow(server: Upstream, tool: Upstream['tools'][number]): Section['items'][number] {
  const { name, level } = tool;
  return {
    title: name,
    href: reachOfTool(server.id, name),
    facts: [
      { label: 'upstream', text: server.name },
      ...(level === undefined ? [] : [{ label: 'accessNeeded', level }]),
    ],
    fields: [],
    actions: [],
  };
}
