// The audit log: filters that are in the address, what they find, and the buttons that export all of it.
import { Readable } from 'node:stream';
import { lastVerification } from '../../audit/chain/daily-verification.ts';
import { seeOther } from '../../http/see-other.ts';
import { auditEvents } from '../../observability/labels.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { type ApiRequest, OPERATIONS } from '../api/operations.ts';
import { type AuditFilter, readAudit } from '../audit-log.ts';
import { requireRole } from '../context.ts';
import { deliveryHandlers } from '../audit-delivery.ts';
import { HANDLERS } from '../handlers.ts';
import { auditQuery, EXPORTS } from '../resources/audit.ts';
import * as schemas from '../resources/schemas.ts';
import { CONSOLE_PATH } from './address.ts';
import { describeAudit } from './audit-events.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { cursorIn, layout, listValues, queryIn, searchIn } from './layout.ts';
import { keptOwners } from './lists.ts';

const PATH = `${CONSOLE_PATH}/audit`;
const PAGE_ITEMS = 50;
const HOUR = 3600;
const DAY = 24 * HOUR;
const DATE_LENGTH = 'YYYY-MM-DD'.length;
const { exportAudit } = OPERATIONS;

/** Returns when each period begins and ends, in seconds since the epoch. */
const PERIODS: Record<string, (now: number) => { since: number; until?: number }> = {
  hour: (now) => ({ since: now - HOUR }),
  day: (now) => ({ since: now - DAY }),
  today: (now) => ({ since: dayOf(now) }),
  yesterday: (now) => ({ since: dayOf(now) - DAY, until: dayOf(now) }),
  week: (now) => ({ since: now - 7 * DAY }),
  month: (now) => ({ since: now - 30 * DAY }),
};

/** As the log has them. Those of other events follow from the event. */
const OUTCOMES = ['answered', 'failed', 'refused', 'started', 'done', 'denied', 'grant_ended'];

/** A call and how it ended are one entry. */
const EVENTS = auditEvents.filter((event) => event !== 'call_ended');

export function auditPage({ page }: ConsoleRoutes): void {
  page('/audit', showAudit);
  page('/audit/export', download);
}

async function showAudit(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const query = queryIn(ctx);
  const q = searchIn(queryIn(ctx), auditQuery);
  const { filter, problem } = filterIn(query, management.services.now());
  const page = { limit: PAGE_ITEMS, newestFirst: true, after: cursorIn(ctx, auditQuery), q };
  const [found, kept, deliveries, checked] = await Promise.all([
    problem ? NOTHING : readAudit(management, { ...filter, ...page }),
    keptIn(context, query),
    deliveryHandlers.listAuditDelivery(management, {}),
    lastVerification(management.services.store),
  ]);
  const values = {
    console: layout(context, 'audit', problem),
    events: await describeAudit(management, found.items, found.names),
    ...listValues(ctx, PATH, found, { filters: shownFilters(query), kept, q }),
    searched: found.searched,
    unreadable: found.unreadable,
    checkedAt: checked?.at,
    problems: checked?.problems.length ?? 0,
    export: includesRole(management.role, exportAudit.role)
      ? { action: `${PATH}/export`, fields: exportFields(query), ignoresWords: Boolean(q) }
      : undefined,
    deliveries: deliveries.items.map(({ id, state, backlog, rejected, lost }) => {
      return { id, state, isOk: state === 'delivering', backlog, rejected, lost };
    }),
  };
  await management.services.pages.render(ctx, 'console/audit', values, problem ? 400 : 200);
}

/** The search words are left out: they are searched for in some items only. */
function exportFields(query: Record<string, string>): { name: string; value: string }[] {
  return Object.entries(query).flatMap(([name, value]) =>
    name === 'q' || name === 'format' || value === '' ? [] : [{ name, value }],
  );
}

/** What the API exports. */
async function download({ management, ctx }: ConsoleContext): Promise<void> {
  requireRole(management, exportAudit.role);
  const query = queryIn(ctx);
  const { filter, problem } = filterIn(query, management.services.now());
  const format = query.format === 'csv' ? 'csv' : 'jsonl';
  if (problem) return seeOther(ctx, `${PATH}?${new URLSearchParams(query)}`);
  const sent = await HANDLERS.exportAudit(management, { query: { ...filter, format } as Exported });
  const day = new Date(management.services.now() * 1000).toISOString().slice(0, DATE_LENGTH);
  ctx.set('Content-Disposition', `attachment; filename="gatehouse-audit-${day}.${format}"`);
  ctx.type = EXPORTS[format];
  ctx.body = Readable.from(sent);
}

type Exported = ApiRequest<'exportAudit'>['query'];

const NOTHING: Awaited<ReturnType<typeof readAudit>> = {
  items: [],
  names: { people: new Map(), apps: new Map(), connectors: new Map(), tokens: new Map() },
};

const TERMS = ['account', 'client', 'connector', 'grant', 'tool', 'event', 'outcome'] as const;

/** `from` and `to` are days, both included. `since` is a period, which has no effect beside one of them, or as `until` a time. All are in UTC. */
function filterIn(
  query: Record<string, string>,
  now: number,
): { filter: Omit<AuditFilter, 'limit'>; problem?: string } {
  const { since, until, from, to } = query;
  const period = from || to ? undefined : periodIn(query)?.(now);
  const start = from || (periodIn(query) ? undefined : since);
  const times = { since: timeIn(start), until: timeIn(to || until) };
  const isWrong = [start, to || until].some((text) => text && timeIn(text) === undefined);
  const terms = TERMS.map((name) => [name, query[name]?.trim() || undefined]);
  return {
    filter: {
      ...Object.fromEntries(terms),
      since: period?.since ?? times.since,
      until: to && times.until !== undefined ? times.until + DAY : (times.until ?? period?.until),
    },
    ...(isWrong ? { problem: 'auditTime' } : {}),
  };
}

function periodIn({ since = '' }: Record<string, string>) {
  return Object.hasOwn(PERIODS, since) ? PERIODS[since] : undefined;
}

/** A date or a time in ISO 8601. */
function timeIn(text = ''): number | undefined {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text;
  return schemas.timestamp.safeParse(time).data;
}

function dayOf(now: number): number {
  return Math.floor(now / DAY) * DAY;
}

type Filters = ViewValues['console/audit']['filters'];

function shownFilters(query: Record<string, string>): Filters {
  const valueOf = (name: string) => query[name] ?? '';
  const isChosen = periodIn(query) && !valueOf('from') && !valueOf('to');
  const period = isChosen ? valueOf('since') : '';
  const choice = (name: string, choiceTexts: string, choices: string[]) => {
    return { name, value: valueOf(name), choiceTexts, choices };
  };
  return [
    { ...choice('since', 'console.choices', Object.keys(PERIODS)), value: period },
    { name: 'from', value: valueOf('from') || dateOf(query.since), input: 'date' },
    { name: 'to', value: valueOf('to'), input: 'date' },
    choice('event', 'console.events', EVENTS),
    choice('outcome', 'console.outcomes', OUTCOMES),
    { name: 'tool', value: valueOf('tool'), input: 'text' },
  ];
}

/** The day in the address of a link, so that the form keeps it. */
function dateOf(time = ''): string {
  return timeIn(time) === undefined ? '' : time.slice(0, DATE_LENGTH);
}

/** What links to this page have narrowed it to. */
async function keptIn({ management }: ConsoleContext, query: Record<string, string>) {
  const { grant, until } = query;
  const others = Object.entries({ grant, until }).flatMap(([name, value]) =>
    value ? [{ name, value, text: value }] : [],
  );
  return [...(await keptOwners(management, query)), ...others];
}
