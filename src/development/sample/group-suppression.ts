// Small-group suppression: statistics never describe fewer than MIN_GROUP_SIZE people.
import { isObject } from '../../json-values.ts';

const MIN_GROUP_SIZE = 5;

/**
 * Replaces the numbers of an object by null, and adds `suppressed: true`, unless its own `people` is at least MIN_GROUP_SIZE.
 * The objects of one array may be parts of a known total. Therefore, if one is suppressed, the first of the others is too, so that at least
 * MIN_GROUP_SIZE people are missing from the total. (Suppressing the smallest of the others would reveal that it is smaller than those
 * shown.) A number of people slightly below `members` or `total` would reveal how few the others are, so it becomes null too.
 */
export function suppressSmallGroups(result: Record<string, unknown>): Record<string, unknown> {
  const shown = Object.entries(suppressRecord(result, false));
  const totals = totalsIn(result);
  return Object.fromEntries(
    shown.map(([field, value]) => [field, withoutNearlyAll(value, totals)]),
  );
}

function totalsIn({ members, total }: Record<string, unknown>): number[] {
  return [members, total].filter(isLarge).map(({ people }) => people);
}

function withoutNearlyAll(value: unknown, totals: number[]): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutNearlyAll(item, totals));
  if (!isLarge(value)) return value;
  const { people } = value;
  const isNearlyAll = totals.some((all) => people < all && all - people < MIN_GROUP_SIZE);
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
  return isObject(value) && typeof value.people === 'number' && value.people >= MIN_GROUP_SIZE;
}

/** A group of unknown size counts as small. */
function isSmall(value: unknown): boolean {
  return isObject(value) && !isLarge(value) && Object.values(value).some(isNumber);
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number';
}
