// A list of the console: what is read, what is said of each item, and what an administrator can do about it.
import type { ViewValues } from '../../http/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import type { Page } from '../api/resources.ts';
import type { ManagementServices } from '../services.ts';
import type { Form } from './forms.ts';
import { frameOf, type Section } from './frame.ts';
import { type ListQuery, nextLink, placeIn } from './place.ts';
import { CONSOLE, type Sections, type Visit } from './visit.ts';

type Values = ViewValues['console/list'];
type Item = Values['items'][number];
export type Query = Record<string, string>;

export type List<T> = {
  section: Section;
  query: ListQuery;
  filters?: (query: Query) => Values['filters'];
  read: (services: ManagementServices, query: Query, after?: string) => Promise<Page<T>>;
  item: (document: T) => Item;
  /** What the buttons do, and the key of what has been done then. */
  actions?: Record<
    string,
    { done: string; act: (services: ManagementServices, id: string) => unknown }
  >;
};

/** Items on a page. */
export const PAGE = 50;

/** The page, and a form for each action. */
export function addList<T>({ page, form }: Sections, list: List<T>): void {
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
