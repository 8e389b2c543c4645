// Values that the pages of the console share: the layout around a page, and the search and the pages of a list.
import type Koa from 'koa';
import type * as z from 'zod';
import type { ViewValues } from '../../pages/pages.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { OPERATIONS } from '../api/operations.ts';
import { parseInput } from '../parse-input.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext } from './context.ts';

type Layout = ViewValues['console/list']['console'];

/** The navigation: the sections of each group, whose title is the text below `console.navigation`. */
const GROUPS = {
  happened: ['overview', 'audit', 'attempts'],
  people: ['connectors', 'grants', 'accounts'],
  programs: ['clients', 'rules', 'machines', 'tokens', 'workloads'],
  reach: ['servers'],
  running: ['health', 'settings'],
} as const;
/** Pages that no navigation leads to. */
type Other = 'search';
type Grouped = (typeof GROUPS)[keyof typeof GROUPS][number];
export type Section = Grouped | Other;

const SECTIONS = Object.entries(GROUPS).flatMap(([group, names]) =>
  names.map((name) => ({ name, href: `${CONSOLE_PATH}/${name}`, group })),
);

export function layout(
  { session, management, done = {} }: ConsoleContext,
  section: Section,
  problem?: string,
): Layout {
  const { settings, role } = management;
  const hidden = new Set<Grouped>();
  if (!includesRole(role, OPERATIONS.reloadSettings.role)) hidden.add('settings');
  const hasWorkloads = settings.authorization.trustedIssuers.some(
    ({ workloads }) => workloads.length > 0,
  );
  if (!hasWorkloads) hidden.add('workloads');
  return {
    section,
    sections: SECTIONS.filter(({ name }) => !hidden.has(name)),
    administrator: session.account.name,
    role: management.role,
    token: session.formToken,
    ...(problem ? { problem } : done),
  };
}

/** The query schema of the API's route for the same list. */
export type ListQuery = {
  shape: { after: z.ZodType<string | undefined>; q?: z.ZodType<string | undefined> };
};

/** Returns the first value of each query parameter, without what the last action did. */
export function placeIn(ctx: Koa.Context): Record<string, string> {
  const first = Object.entries(ctx.query).map(([name, value]) => [name, [value].flat()[0] ?? '']);
  const { done: _done, about: _about, ...place } = Object.fromEntries(first);
  return place;
}

/** Returns those of `placeIn` that are part of a search: not the page of what it found. */
export function queryIn(ctx: Koa.Context): Record<string, string> {
  return searchOfPlace(placeIn(ctx));
}

export function searchOfPlace(place: Record<string, string>): Record<string, string> {
  const { after: _after, page: _page, ...query } = place;
  return query;
}

/** Returns the words that a list is searched for. Throws HttpError 400 if there are too many. */
export function searchIn({ q }: Record<string, string>, { shape }: ListQuery): string {
  return parseInput(shape.q ?? shape.after, q?.trim() || undefined) ?? '';
}

type Search = ViewValues['console/list'];
type Narrowing = Pick<Search, 'filters' | 'q' | 'kept'>;

/** Returns whether a list is searched or filtered. */
export function isNarrowed({ filters, q, kept = [] }: Narrowing): boolean {
  return Boolean(q) || kept.length > 0 || filters.some(({ value }) => value !== '');
}

/** Returns the values of a list with a search. `filters` and `kept`, the ids in the address, narrow it. */
export function listValues<Item>(
  ctx: Koa.Context,
  path: string,
  { items, next }: { items: readonly Item[]; next?: string | undefined },
  narrowing: Narrowing,
): Pick<Search, 'next' | 'action' | 'filters' | 'kept' | 'q' | 'found'> {
  const isAll = next === undefined && !ctx.query.after;
  return {
    next: next && `${path}?${new URLSearchParams({ ...queryIn(ctx), after: next })}`,
    action: path,
    ...narrowing,
    found: isNarrowed(narrowing) ? { count: items.length, isAll } : undefined,
  };
}

/** Returns the cursor in the query. Throws HttpError 400 if it is malformed. */
export function cursorIn(ctx: Koa.Context, { shape }: ListQuery): string | undefined {
  return parseInput(shape.after, ctx.query.after || undefined);
}
