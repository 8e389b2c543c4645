// Tools that answer about single members, visits, shifts and payments.
import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { CURRENCY, LAST_DAY } from './data.ts';
import { PLANS, SITES, STATUSES, WEEKDAYS } from './fiction.ts';
import { ToolRefusal, tool } from './tool.ts';

export const memberId = z
  .string()
  .regex(/^M\d{4}$/)
  .describe('A member number such as M0042, as find_members gives it.');
const site = z.enum(SITES).optional().describe('Only this site.');
const page = z.int().min(1).max(1000).default(1).describe('The page to read, from 1.');
const PAGE_SIZE = 25;

export const findMembers = tool({
  name: 'find_members',
  level: 'operations',
  title: 'Find members',
  description:
    'Members by part of their name, plan, site or status, in the order of their names, 25 to a page. Gives the member number the other tools take.',
  input: z.strictObject({
    name: z.string().min(1).max(80).optional().describe('Part of the name, in any case.'),
    plan: z.enum(PLANS).optional(),
    site,
    status: z.enum(STATUSES).optional(),
    page,
  }),
  run: (dataset, { name = null, plan = null, site = null, status = null, page }) => {
    const found = dataset
      .prepare(
        `SELECT id AS memberId, name, email, phone, plan, site, status, joined_on AS joinedOn
          FROM member WHERE (:name IS NULL OR instr(lower(name), lower(:name)) > 0)
            AND (:plan IS NULL OR plan = :plan) AND (:site IS NULL OR site = :site)
            AND (:status IS NULL OR status = :status) ORDER BY name, id`,
      )
      .all({ name, plan, site, status });
    return { matches: found.length, ...pageOf(found, page, 'found') };
  },
});

export const memberVisits = tool({
  name: 'member_visits',
  level: 'operations',
  title: "A member's visits",
  description: 'When and where one member visited, the latest first, 25 to a page.',
  input: z.strictObject({ memberId, page }),
  run: (dataset, { memberId, page }) => {
    const { name } = requireMember(dataset, memberId);
    const attended = dataset
      .prepare('SELECT at, site FROM visit WHERE member_id = ? ORDER BY at DESC')
      .all(memberId);
    return { memberId, name, matches: attended.length, ...pageOf(attended, page, 'attended') };
  },
});

export const staffSchedule = tool({
  name: 'staff_schedule',
  level: 'operations',
  title: 'Staff schedule',
  description: 'Who works when and where in an ordinary week, for one weekday.',
  input: z.strictObject({ weekday: z.enum(WEEKDAYS), site }),
  run: (dataset, { weekday, site = null }) => ({
    weekday,
    shifts: dataset
      .prepare(
        `SELECT staff_id AS staffId, name, role, site, email, phone, starts_at AS startsAt, ends_at AS endsAt
          FROM shift JOIN staff ON staff.id = staff_id
          WHERE weekday = :weekday AND (:site IS NULL OR site = :site) ORDER BY starts_at, name`,
      )
      .all({ weekday, site }),
  }),
});

export const outstandingPayments = tool({
  name: 'outstanding_payments',
  level: 'operations',
  title: 'Outstanding payments',
  description: `Payments that were due and not made by ${LAST_DAY}, in euros, the longest overdue first, 25 to a page.`,
  input: z.strictObject({ site, page }),
  run: (dataset, { site = null, page }) => {
    const unpaid = dataset
      .prepare(
        `SELECT payment.id AS paymentId, memberId, name, email, phone, iban, card, site, kind, method,
            cents / 100.0 AS amount, due_on AS dueOn,
            CAST(julianday(:today) - julianday(due_on) AS INTEGER) AS daysOverdue
          FROM payment JOIN (SELECT *, id AS memberId FROM member) ON memberId = member_id
          WHERE paid_on IS NULL AND (:site IS NULL OR site = :site) ORDER BY due_on, payment.id`,
      )
      .all({ today: LAST_DAY, site });
    return { currency: CURRENCY, matches: unpaid.length, ...pageOf(unpaid, page, 'unpaid') };
  },
});

/** The member of that number; throws `ToolRefusal` when there is none. */
export function requireMember(dataset: DatabaseSync, id: string): Record<string, unknown> {
  const member = dataset.prepare('SELECT * FROM member WHERE id = ?').get(id);
  if (!member) throw new ToolRefusal('No member has this number. find_members gives the numbers.');
  return member;
}

function pageOf(rows: unknown[], page: number, field: string): Record<string, unknown> {
  const end = page * PAGE_SIZE;
  return {
    [field]: rows.slice(end - PAGE_SIZE, end),
    ...(rows.length > end && { nextPage: page + 1 }),
  };
}
