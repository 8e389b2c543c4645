import type { DatabaseSync } from 'node:sqlite';
import * as z from 'zod';
import type { Level } from '../../permission-levels.ts';
import { CURRENCY, FIRST_DAY, LAST_DAY, PLANS, SITES, STATUSES, WEEKDAYS } from './dataset.ts';

/** `run` returns all fields regardless of the caller's level: `redact` removes those above it. Throws ToolError for an unanswerable question. */
export type Tool<Input extends z.ZodObject = z.ZodObject> = {
  name: string;
  level: Level;
  title: string;
  description: string;
  input: Input;
  run(dataset: DatabaseSync, input: z.output<Input>): Record<string, unknown>;
};

/** Infers the argument of `run` from the input schema. */
function tool<Input extends z.ZodObject>(definition: Tool<Input>): Tool<Input> {
  return definition;
}

/** The assistant sees the message. */
export class ToolError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ToolError';
  }
}

// Totals by group

// One dimension and no filters: overlapping tables would reveal suppressed groups by comparison.
const VISIT_GROUPS = {
  weekday: `CAST((strftime('%w', at) + 6) % 7 AS INTEGER)`,
  hour: `substr(at, 12, 2) || ':00'`,
  month: 'substr(at, 1, 7)',
  site: 'site',
};
const PAYMENT_GROUPS = { month: 'substr(paid_on, 1, 7)', kind: 'kind', method: 'method' };
const MEMBER_GROUPS = {
  plan: 'plan',
  status: 'status',
  age: 'age',
  site: 'site',
  joined: 'substr(joined_on, 1, 4)',
};
const VISITS = 'count(DISTINCT member_id) AS people, count(*) AS visits';
const REVENUE =
  'count(DISTINCT member_id) AS people, count(*) AS payments, sum(cents) / 100.0 AS revenue';
const SUPPRESSION_NOTE =
  'At the lowest level groups of fewer than five people come without numbers, and a number of people that is nearly all is left out.';
const MEMBERS = 'SELECT count(*) AS people FROM member';

const clubOverview = tool({
  name: 'club_overview',
  level: 'analytics',
  title: 'Club overview',
  description:
    'The size of the fitness club at a glance: sites, members, visits, revenue and what is still owed, for the whole period. Start here.',
  input: z.strictObject({}),
  run: (dataset) => ({
    from: FIRST_DAY,
    to: LAST_DAY,
    currency: CURRENCY,
    sites: SITES,
    members: row(dataset, MEMBERS),
    activeMembers: row(dataset, `SELECT count(*) AS people FROM member WHERE status = 'active'`),
    visitors: row(dataset, `SELECT ${VISITS} FROM visit`),
    payers: row(dataset, `SELECT ${REVENUE} FROM payment WHERE paid_on IS NOT NULL`),
    debtors: row(
      dataset,
      `SELECT count(DISTINCT member_id) AS people, sum(cents) / 100.0 AS outstanding
        FROM payment WHERE paid_on IS NULL`,
    ),
    staff: row(dataset, 'SELECT count(*) AS people FROM staff'),
  }),
});

const visitsBy = tool({
  name: 'visits_by',
  level: 'analytics',
  title: 'Visits by weekday, hour, month or site',
  description: `How many visits there were, and by how many different people, split one way: when is the club busy, and where? ${SUPPRESSION_NOTE}`,
  input: z.strictObject({ by: dimension(VISIT_GROUPS) }),
  run: (dataset, { by }) => {
    const table = breakdown(dataset, { by, group: VISIT_GROUPS[by], sums: VISITS, from: 'visit' });
    const groups = table.groups.map(({ group, ...sums }) => ({
      group: by === 'weekday' ? WEEKDAYS[Number(group)] : group,
      ...sums,
    }));
    return { ...table, groups };
  },
});

const revenueBy = tool({
  name: 'revenue_by',
  level: 'analytics',
  title: 'Revenue by month, kind or payment method',
  description: `Payments received, their sum in euros and the number of payers, split one way. ${SUPPRESSION_NOTE}`,
  input: z.strictObject({ by: dimension(PAYMENT_GROUPS) }),
  run: (dataset, { by }) => ({
    currency: CURRENCY,
    ...breakdown(dataset, {
      by,
      group: PAYMENT_GROUPS[by],
      sums: REVENUE,
      from: 'payment JOIN member ON member.id = member_id WHERE paid_on IS NOT NULL',
    }),
  }),
});

const membershipBreakdown = tool({
  name: 'membership_breakdown',
  level: 'analytics',
  title: 'Members by plan, status, age, site or year of joining',
  description: `How many members the club has, split one way. ${SUPPRESSION_NOTE}`,
  input: z.strictObject({ by: dimension(MEMBER_GROUPS) }),
  run: (dataset, { by }) =>
    breakdown(dataset, {
      by,
      group: MEMBER_GROUPS[by],
      sums: 'count(*) AS people',
      from: 'member',
    }),
});

function dimension<T extends Record<string, string>>(groups: T) {
  return z.enum(Object.keys(groups) as (keyof T & string)[]).describe('How to split the figures.');
}

type Breakdown = { by: string; group: string; sums: string; from: string };

function breakdown(dataset: DatabaseSync, { by, group, sums, from }: Breakdown) {
  // Sorted by label: sorted by size, the position of a suppressed group would reveal its size.
  const groups = rows(
    dataset,
    `SELECT ${group} AS "group", ${sums} FROM ${from} GROUP BY 1 ORDER BY 1`,
  );
  return {
    by,
    from: FIRST_DAY,
    to: LAST_DAY,
    groups,
    members: row(dataset, MEMBERS),
    total: row(dataset, `SELECT ${sums} FROM ${from}`),
  };
}

type Row = Record<string, unknown>;

/** Totals of a data set, by query. No tool changes the data. */
const totals = new WeakMap<DatabaseSync, Map<string, Row[]>>();

function rows(dataset: DatabaseSync, sql: string): Row[] {
  const known = totals.get(dataset) ?? new Map<string, Row[]>();
  totals.set(dataset, known);
  const found = known.get(sql) ?? dataset.prepare(sql).all();
  known.set(sql, found);
  return found.map((each) => ({ ...each }));
}

function row(dataset: DatabaseSync, sql: string): Row {
  return rows(dataset, sql)[0] ?? {};
}

// Single members, visits, shifts and payments

const memberId = z
  .string()
  .regex(/^M\d{4}$/)
  .describe('A member number such as M0042, as find_members gives it.');
const site = z.enum(SITES).optional().describe('Only this site.');
const page = z.int().min(1).max(1000).default(1).describe('The page to read, from 1.');
const PAGE_SIZE = 25;

const findMembers = tool({
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

const memberVisits = tool({
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

const staffSchedule = tool({
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

const outstandingPayments = tool({
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

/** Throws ToolError. */
function requireMember(dataset: DatabaseSync, id: string): Record<string, unknown> {
  const member = dataset.prepare('SELECT * FROM member WHERE id = ?').get(id);
  if (!member) throw new ToolError('No member has this number. find_members gives the numbers.');
  return member;
}

function pageOf(rows: unknown[], page: number, field: string): Record<string, unknown> {
  const end = page * PAGE_SIZE;
  return {
    [field]: rows.slice(end - PAGE_SIZE, end),
    ...(rows.length > end && { nextPage: page + 1 }),
  };
}

// Contact and payment details

const memberContact = tool({
  name: 'member_contact',
  level: 'admin',
  title: "A member's contact details",
  description: 'The email address and phone number of one member, to get in touch with them.',
  input: z.strictObject({ memberId }),
  run: (dataset, { memberId }) => {
    const { name, email, phone } = requireMember(dataset, memberId);
    return { memberId, name, email, phone };
  },
});

const paymentDetails = tool({
  name: 'payment_details',
  level: 'full',
  title: "A member's payment details",
  description:
    'How one member pays: bank account, card, and the payments of the year. Every call is recorded.',
  input: z.strictObject({ memberId }),
  run: (dataset, { memberId }) => {
    const { name, method, iban, card } = requireMember(dataset, memberId);
    const history = dataset
      .prepare(
        `SELECT id AS paymentId, kind, cents / 100.0 AS amount, due_on AS dueOn, paid_on AS paidOn
          FROM payment WHERE member_id = ? ORDER BY due_on, id`,
      )
      .all(memberId);
    return { memberId, name, method, iban, card, currency: CURRENCY, history };
  },
});

export const TOOLS: readonly Tool[] = [
  clubOverview,
  visitsBy,
  revenueBy,
  membershipBreakdown,
  findMembers,
  memberVisits,
  staffSchedule,
  outstandingPayments,
  memberContact,
  paymentDetails,
];
