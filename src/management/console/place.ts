// Where a page of a list begins, and the way to the next one.
import type Koa from 'koa';
import type { z } from 'zod';
import { parseInput } from '../api/router.ts';

export type ListQuery = { shape: { after: z.ZodType<string | undefined> } };

/** The same rules as for the API. */
export function placeIn(ctx: Koa.Context, { shape }: ListQuery): string | undefined {
  return parseInput(shape.after, ctx.query.after || undefined);
}

export function nextLink(
  path: string,
  next: string | undefined,
  query: Record<string, string> = {},
): { next?: string } {
  if (next === undefined) return {};
  return { next: `${path}?${new URLSearchParams({ ...query, after: next })}` };
}
