// Suppression of numbers about too few people, so that an aggregate never describes a person.
import { isObject } from '../messages.ts';

/** Numbers about fewer people than this are not shown. */
export const SMALLEST_GROUP = 5;

/**
 * An object's numbers are shown only when its own `people` says that they are about enough people; otherwise they become
 * null and `suppressed: true` is added. The objects of one array are taken as the parts of a total that may be known:
 * when any is suppressed, the first of the others is too, so that what is missing from the total is never about fewer than
 * `SMALLEST_GROUP` people. (Not the smallest of the others: that it is smaller than those shown would tell about both.) A number of people that is nearly all of `members` or of `total` would say how few the others are: it
 * becomes null by itself.
 */
export function suppressSmallGroups(result: Record<string, unknown>): Record<string, unknown> {
  const shown = Object.entries(suppressRecord(result, false));
  const wholes = wholesIn(result);
  return Object.fromEntries(
    shown.map(([field, value]) => [field, withoutNearlyAll(value, wholes)]),
  );
}

/** The numbers of people that everything else in the result is part of. */
function wholesIn({ members, total }: Record<string, unknown>): number[] {
  return [members, total].filter(isLarge).map(({ people }) => people);
}

function withoutNearlyAll(value: unknown, wholes: number[]): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNearlyAll(item, wholes));
  if (!isLarge(value)) return value;
  const { people } = value;
  const isNearlyAll = wholes.some((all) => people < all && all - people < SMALLEST_GROUP);
  return isNearlyAll ? { ...value, people: null } : value;
}

function suppress(value: unknown, hide: boolean): unknown {
  if (typeof value === 'number') return hide ? null : value;
  if (Array.isArray(value)) return suppressList(value, hide);
  return isObject(value) ? suppressRecord(value, hide) : value;
}

function suppressRecord(record: Record<string, unknown>, hide: boolean): Record<string, unknown> {
  const hidden = hide || isSmall(record);
  const shown = Object.fromEntries(
    Object.entries(record).map(([field, value]) => [field, suppress(value, hidden)]),
  );
  return hidden ? { ...shown, suppressed: true } : shown;
}

function suppressList(items: unknown[], hide: boolean): unknown[] {
  const small = items.filter(isSmall);
  const companion = small.length > 0 ? items.find(isLarge) : undefined;
  return items.map((item) =>
    suppress(item, hide || item === companion || typeof item === 'number'),
  );
}

type Group = Record<string, unknown> & { people: number };

function isLarge(value: unknown): value is Group {
  return isObject(value) && typeof value.people === 'number' && value.people >= SMALLEST_GROUP;
}

/** A number that does not say how many people it is about counts as being about too few. */
function isSmall(value: unknown): boolean {
  return isObject(value) && !isLarge(value) && Object.values(value).some(isNumber);
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number';
}
