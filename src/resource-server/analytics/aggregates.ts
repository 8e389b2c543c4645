// Tools that answer with figures about groups of people; each figure stands beside the number of people it is about.
import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { CURRENCY, FIRST_DAY, LAST_DAY } from './data.ts';
import { SITES, WEEKDAYS } from './fiction.ts';
import { tool } from './tool.ts';

// One dimension at a time and no filters: tables that overlap would give suppressed groups away by comparison.
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
const SMALL =
  'At the lowest level groups of fewer than five people come without numbers, and a number of people that is nearly all is left out.';
const MEMBERS = 'SELECT count(*) AS people FROM member';

export const clubOverview = tool({
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

export const visitsBy = tool({
  name: 'visits_by',
  level: 'analytics',
  title: 'Visits by weekday, hour, month or site',
  description: `How many visits there were, and by how many different people, split one way: when is the club busy, and where? ${SMALL}`,
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

export const revenueBy = tool({
  name: 'revenue_by',
  level: 'analytics',
  title: 'Revenue by month, kind or payment method',
  description: `Payments received, their sum in euros and the number of payers, split one way. ${SMALL}`,
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

export const membershipBreakdown = tool({
  name: 'membership_breakdown',
  level: 'analytics',
  title: 'Members by plan, status, age, site or year of joining',
  description: `How many members the club has, split one way. ${SMALL}`,
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
  // In the order of the labels: sorted by size, a suppressed group's place would tell about it.
  const groups = dataset.prepare(
    `SELECT ${group} AS "group", ${sums} FROM ${from} GROUP BY 1 ORDER BY 1`,
  );
  return {
    by,
    from: FIRST_DAY,
    to: LAST_DAY,
    groups: groups.all(),
    members: row(dataset, MEMBERS),
    total: row(dataset, `SELECT ${sums} FROM ${from}`),
  };
}

function row(dataset: DatabaseSync, sql: string): Record<string, unknown> {
  return { ...dataset.prepare(sql).get() };
}
