// Turns records into resources of the management API.
import * as z from 'zod';
import type { Page } from './resources/schemas.ts';

/** Returns the members of the schema. Times, in seconds in the record, become ISO 8601. */
export function represent<Shape extends z.ZodRawShape>(
  { shape }: z.ZodObject<Shape>,
  record: Readonly<Record<string, unknown>>,
): z.output<z.ZodObject<Shape>> {
  const members = Object.entries(shape).map(([name, member]) => {
    const value = record[name];
    return [name, typeof value === 'number' && isTime(member) ? isoTime(value) : value];
  });
  return Object.fromEntries(members);
}

function isTime(member: unknown): boolean {
  return (member instanceof z.ZodOptional ? member.unwrap() : member) instanceof z.ZodISODateTime;
}

/** Returns the members that differ, as they were and as they are, for the audit log. */
export function changedMembers<Members extends object>(
  before: Members,
  after: Members,
): { before: Partial<Members>; after: Partial<Members> } {
  const names = (Object.keys({ ...before, ...after }) as (keyof Members)[]).filter(
    (name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]),
  );
  const only = (members: Members) =>
    Object.fromEntries(names.map((name) => [name, members[name]])) as Partial<Members>;
  return { before: only(before), after: only(after) };
}

/** Removes the members that a change sets to null. */
export function withoutNulls<Changed extends object>(
  changed: Changed,
): { [Name in keyof Changed]: Exclude<Changed[Name], null> } {
  const kept = Object.entries(changed).filter(([, value]) => value !== null);
  return Object.fromEntries(kept) as { [Name in keyof Changed]: Exclude<Changed[Name], null> };
}

/** Returns the first `limit` items. `next` is the id of the last one if there are more. */
export function firstPage<Item extends { id: string }>(items: Item[], limit: number): Page<Item> {
  const page = items.slice(0, limit);
  return items.length > limit ? { items: page, next: page.at(-1)?.id } : { items: page };
}

/** Converts seconds since the epoch to ISO 8601. */
export function isoTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

/** Some times are recorded with fractions of a second, which these resources do not have. */
export function wholeSecond(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : Math.floor(seconds);
}
