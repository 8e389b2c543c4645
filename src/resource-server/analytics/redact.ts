// What each permission level sees of a tool's result: one table of fields, applied to every result and at every depth.
import { LEVELS, levelsUpTo } from '../../permission-level.ts';
import type { Level } from '../../permission-level.ts';
import { suppressSmallGroups } from './small-groups.ts';

/** The lowest level that sees a field. A field that stands nowhere here is hidden from everybody. */
export const FIELDS: Readonly<Record<Level, readonly string[]>> = {
  analytics: words(
    'by from to currency sites groups group total people',
    'members activeMembers visitors payers debtors staff visits payments revenue outstanding',
  ),
  operations: words(
    'name memberId staffId role plan site status joinedOn matches found nextPage attended at',
    'shifts weekday startsAt endsAt unpaid paymentId kind method amount dueOn daysOverdue paidOn',
  ),
  admin: words('email phone'),
  full: words('iban card history'),
};

const VISIBLE = new Map(
  LEVELS.map((level) => [level, new Set(levelsUpTo(level).flatMap((held) => FIELDS[held]))]),
);

/** The result as `level` may see it: fields above the level are absent, and `analytics` gets no numbers about small groups. */
export function redact(result: Record<string, unknown>, level: Level): Record<string, unknown> {
  const visible = VISIBLE.get(level) ?? new Set();
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

function words(...lines: string[]): string[] {
  return lines.join(' ').split(' ');
}
