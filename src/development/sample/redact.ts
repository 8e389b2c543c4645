import { DEFAULT_LEVELS, type Level, levelIds, levelsUpTo } from '../../permission-levels.ts';
import { suppressSmallGroups } from './group-suppression.ts';

/** The fields by the lowest level that sees them. A field that is not listed is hidden at every level. */
export const FIELDS = {
  analytics: fieldNames(
    'by from to currency sites groups group total people',
    'members activeMembers visitors payers debtors staff visits payments revenue outstanding',
  ),
  operations: fieldNames(
    'name memberId staffId role plan site status joinedOn matches found nextPage attended at',
    'shifts weekday startsAt endsAt unpaid paymentId kind method amount dueOn daysOverdue paidOn',
  ),
  admin: fieldNames('email phone'),
  full: fieldNames('iban card history'),
} as const satisfies Readonly<Record<Level, readonly string[]>>;

const VISIBLE = new Map(
  levelIds(DEFAULT_LEVELS).map((level) => [
    level,
    new Set(levelsUpTo(DEFAULT_LEVELS, level).flatMap((held) => fieldsOf(held))),
  ]),
);

function fieldsOf(level: Level): readonly string[] {
  return Object.hasOwn(FIELDS, level) ? FIELDS[level as keyof typeof FIELDS] : [];
}

/** Removes the fields above `level`, at every depth; at `analytics`, also the numbers of small groups. */
export function redact(result: Record<string, unknown>, level: Level): Record<string, unknown> {
  const visible = VISIBLE.get(level) ?? new Set<string>();
  const kept = keepFields(result, visible);
  return level === 'analytics' ? suppressSmallGroups(kept) : kept;
}

function keepFields(record: object, visible: ReadonlySet<string>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(record)
      .filter(([field]) => visible.has(field))
      .map(([field, value]) => [field, keepValue(value, visible)]),
  );
}

function keepValue(value: unknown, visible: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((item) => keepValue(item, visible));
  return typeof value === 'object' && value !== null ? keepFields(value, visible) : value;
}

function fieldNames(...lines: string[]): string[] {
  return lines.join(' ').split(' ');
}
