// Values that the pages of the console share: the layout around a page, links to the next page of a list, fields of list items.
import type Koa from 'koa';
import type { z } from 'zod';
import type { ViewValues } from '../../pages/pages.ts';
import type { Level } from '../../permission-levels.ts';
import { parseInput } from '../api/router.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext } from './context.ts';

export type Layout = ViewValues['console/connectors']['console'];
export type FormProblem = NonNullable<Layout['problem']>;

const SECTIONS = [
  'overview',
  'connectors',
  'servers',
  'tokens',
  'clients',
  'rules',
  'grants',
  'accounts',
  'audit',
  'health',
] as const;
export type Section = (typeof SECTIONS)[number];

export function layout(
  { session, management, done = {} }: ConsoleContext,
  section: Section,
  problem?: FormProblem,
): Layout {
  return {
    section,
    sections: SECTIONS.map((name) => ({ name, href: `${CONSOLE_PATH}/${name}` })),
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

/** Returns the first value of each query parameter, without those that are not part of a search. */
export function queryIn(ctx: Koa.Context): Record<string, string> {
  const first = Object.entries(ctx.query).map(([name, value]) => [name, [value].flat()[0] ?? '']);
  const { after: _after, done: _done, about: _about, ...query } = Object.fromEntries(first);
  return query;
}

/** Returns the words that a list is searched for. Throws HttpError 400 if there are too many. */
export function searchIn(ctx: Koa.Context, { shape }: ListQuery): string {
  return parseInput(shape.q ?? shape.after, queryIn(ctx).q?.trim() || undefined) ?? '';
}

type Search = ViewValues['console/list'];

/** Returns the values of a list with a search. `query` narrows it, `kept` by the ids in it. */
export function listValues<Item>(
  ctx: Koa.Context,
  path: string,
  { items, next }: { items: readonly Item[]; next?: string | undefined },
  { filters, q, kept = [] }: Pick<Search, 'filters' | 'q' | 'kept'>,
): Omit<Search, 'console' | 'items' | 'block'> {
  const isNarrowed = Boolean(q) || kept.length > 0 || filters.some(({ value }) => value !== '');
  const isAll = next === undefined && !ctx.query.after;
  return {
    ...nextPage(path, next, queryIn(ctx)),
    action: path,
    filters,
    kept,
    ...(q === undefined ? {} : { q }),
    ...(isNarrowed ? { found: { count: items.length, isAll } } : {}),
  };
}

/** A filter by state. Another value in the address has no effect. */
export function stateFilter<State extends string>(
  ctx: Koa.Context,
  states: readonly State[],
): { filter: Search['filters'][number]; state: State | undefined } {
  const state = states.find((known) => known === ctx.query.state);
  const choices = { choiceTexts: 'console.states', choices: [...states] };
  return { filter: { name: 'state', value: state ?? '', ...choices }, state };
}

/** Returns the cursor in the query. Throws HttpError 400 if it is malformed. */
export function cursorIn(ctx: Koa.Context, { shape }: ListQuery): string | undefined {
  return parseInput(shape.after, ctx.query.after || undefined);
}

export function nextPage(
  path: string,
  cursor: string | undefined,
  query: Record<string, string> = {},
): { next?: string } {
  if (cursor === undefined) return {};
  return { next: `${path}?${new URLSearchParams({ ...query, after: cursor })}` };
}

type Field = ViewValues['console/list']['items'][number]['fields'][number];

/** `href` is the page of the record that `text` names. */
export function textField(label: string, text: string, href?: string): Field {
  return { label, text, ...(href === undefined ? {} : { href }) };
}

/** For an id, an address, or a code as it appears in logs. */
export function codeField(label: string, code: string): Field {
  return { label, code };
}

export function levelField(level: Level, label: 'level' | 'granted' = 'level'): Field {
  return { label, level };
}

/** For a code with a translated meaning: the text named after it below `texts`. */
export function translatedField(label: string, code: string, texts: string): Field {
  return { label, code, textKey: `${texts}.${code}` };
}

/** For an id, with the name of its record if it is known. */
export function idField(label: string, id: string, name: string | undefined): Field {
  return { label, code: id, ...(name === undefined ? {} : { name }) };
}

/** For an ISO 8601 time, shown as a day. Returns no field without a time. */
export function dateFields(label: string, time: string | undefined): Field[] {
  return time === undefined ? [] : [{ label, time: epochSeconds(time) }];
}

/** Converts an ISO 8601 time. */
export function epochSeconds(time: string): number {
  return Math.floor(Date.parse(time) / 1000);
}
