// The overview: what needs attention, and charts of connections, calls and refusals.
import { CALL_OUTCOMES, type Counts, type Period, readActivity } from '../../audit/activity.ts';
import { lastVerification } from '../../audit/chain/daily-verification.ts';
import { listConnectors } from '../../links/connectors.ts';
import { groupedChart, stackedChart } from '../../pages/column-charts.ts';
import { type EndKind, endKinds } from '../../observability/labels.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { levelIds } from '../../permission-levels.ts';
import type { ManagementContext } from '../context.ts';
import { findComingEnds, listsOfProcess } from '../coming-ends.ts';
import { HANDLERS } from '../handlers.ts';
import { describeUpstreams } from '../upstreams.ts';
import { CONSOLE_PATH } from './address.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { layout } from './layout.ts';
import { checkServers } from './readiness.ts';
import { includesRole } from '../../settings/management-roles.ts';
import { OPERATIONS } from '../api/operations.ts';

type Values = ViewValues['console/overview'];
type Chart = Values['connections'];

const CHART_DAYS = 30;
const WEEK_DAYS = 7;
const MAX_REASONS = 8;
/** Apps that are read to count those that wait. */
const MAX_COUNTED = 1000;

export function overviewPage({ page }: ConsoleRoutes): void {
  page('/overview', show);
}

async function show(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const { settings, services } = management;
  const [attention, { hours, days }] = await Promise.all([
    findAttention(management),
    readActivity(services.store, CHART_DAYS, services.now()),
  ]);
  const week = total(days.slice(-WEEK_DAYS));
  const mayCreate = includesRole(management.role, OPERATIONS.createConnector.role);
  await services.pages.render(ctx, 'console/overview', {
    console: layout(context, 'overview'),
    attention,
    create: mayCreate ? `${CONSOLE_PATH}/connectors/new` : undefined,
    connections: chartOf(groupedChart, days, [
      ['approved', (counts) => countOf(counts, 'event consent_approved', 'event grant_vouched')],
      ['ended', (counts) => countOf(counts, 'event grant_ended')],
    ]),
    calls: chartOf(
      stackedChart,
      hours,
      CALL_OUTCOMES.map((outcome) => [outcome, (counts) => callsOf(counts, outcome)]),
    ),
    levels: [...levelIds(settings.levels), 'other']
      .map((level) => ({
        level,
        counts: CALL_OUTCOMES.map((outcome) => countOf(week, `call ${level} ${outcome}`)),
      }))
      .filter(({ counts, level }) => level !== 'other' || counts.some((count) => count > 0)),
    reasons: withShares(reasonsIn(week)),
    refused: {
      count: countOf(week, 'event access_refused'),
      href: `${CONSOLE_PATH}/attempts?end=refused`,
    },
  });
}

/** Where somebody can act. */
const PAGE_OF_ENDS: Readonly<Record<EndKind, string>> = {
  connector: 'connectors',
  token: 'tokens',
  machine: 'machines',
  signing_key: 'health',
  client_secret: 'settings',
};

async function findAttention(management: ManagementContext): Promise<Values['attention']> {
  const { settings, services } = management;
  const connectors = listConnectors(services.store);
  const [checks, waiting, servers, ends, deliveries, verified] = await Promise.all([
    checkServers(management),
    settings.clients.registration === 'approval'
      ? HANDLERS.listClients(management, { query: { limit: MAX_COUNTED, state: 'waiting' } })
      : { items: [], next: undefined },
    describeUpstreams(management, connectors),
    findComingEnds(listsOfProcess(management, connectors), settings, services.now()),
    HANDLERS.listAuditDelivery(management, {}),
    lastVerification(services.store),
  ]);
  // Those with hidden tools are counted under `held`.
  const changed = servers.filter(
    ({ changes = 0, tools }) => changes > 0 && !tools.some(({ held }) => held),
  );
  const found = [
    { name: 'tampered', count: verified?.problems.length ?? 0, page: 'audit#integrity' },
    { name: 'health', count: checks.filter(({ isOk }) => !isOk).length, page: 'health' },
    {
      name: waiting.next === undefined ? 'waiting' : 'waitingAtLeast',
      count: waiting.items.length,
      page: 'clients?state=waiting',
    },
    { name: 'servers', count: servers.filter(({ error }) => error).length, page: 'servers' },
    {
      name: 'held',
      count: servers.flatMap(({ tools }) => tools).filter(({ held }) => held).length,
      page: 'servers',
    },
    {
      name: 'missed',
      count: servers.flatMap(({ tools }) => tools).filter(({ isMissed }) => isMissed).length,
      page: 'servers',
    },
    {
      name: 'changed',
      count: changed.reduce((sum, { changes = 0 }) => sum + changes, 0),
      page: changed.length === 1 ? `servers/${changed[0]?.id}/review` : 'servers',
    },
    {
      name: 'empty',
      count: servers.flatMap(({ emptyConnectors }) => emptyConnectors).length,
      page: 'servers',
    },
    ...endKinds.map((kind) => ({
      name: `ending.${kind}` as const,
      count: ends.filter((end) => end.kind === kind).length,
      page: PAGE_OF_ENDS[kind],
    })),
    {
      name: 'delivery',
      count: deliveries.items.filter(({ state }) => state === 'refused').length,
      page: 'health',
    },
  ] as const;
  return found
    .filter(({ count }) => count > 0)
    .map(({ name, count, page }) => ({ name, count, href: `${CONSOLE_PATH}/${page}` }));
}

function countOf(counts: Counts, ...names: string[]): number {
  return names.reduce((sum, name) => sum + (counts[name] ?? 0), 0);
}

function callsOf(counts: Counts, outcome: string): number {
  return Object.entries(counts)
    .filter(([name]) => name.startsWith('call ') && name.endsWith(` ${outcome}`))
    .reduce((sum, [, count]) => sum + count, 0);
}

function total(periods: readonly Period[]): Counts {
  const all: Counts = {};
  for (const { counts } of periods)
    for (const [name, count] of Object.entries(counts)) all[name] = (all[name] ?? 0) + count;
  return all;
}

function reasonsIn(counts: Counts): { reason: string; count: number }[] {
  const found = Object.entries(counts).flatMap(([name, count]) =>
    name.startsWith('refused ') ? [{ reason: name.slice('refused '.length), count }] : [],
  );
  return found.toSorted((one, other) => other.count - one.count).slice(0, MAX_REASONS);
}

/** `width` in percent of the longest. */
function withShares(reasons: { reason: string; count: number }[]): Values['reasons'] {
  const longest = Math.max(1, ...reasons.map(({ count }) => count));
  return reasons.map(({ reason, count }) => ({
    reason,
    count,
    width: Math.max(1, Math.round((100 * count) / longest)),
  }));
}

type Series = readonly (readonly [name: string, count: (counts: Counts) => number])[];

function chartOf(
  draw: (names: string[], rows: Chart['rows']) => Chart,
  periods: readonly Period[],
  series: Series,
): Chart {
  const rows = periods.map(({ at, counts }) => ({
    at,
    values: series.map(([, count]) => count(counts)),
  }));
  return draw(
    series.map(([name]) => name),
    rows,
  );
}
