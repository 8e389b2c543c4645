import { auditEvents } from '../../observability/labels.ts';
import { auditQuery } from '../resources/audit.ts';
import { searchAudit } from '../audit-log.ts';
import { CONSOLE_PATH } from './address.ts';
import { describeAudit } from './audit-events.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { cursorIn, layout, listValues, queryIn } from './layout.ts';
import { keptOwners } from './lists.ts';

const PAGE_ITEMS = 50;
const HOUR_SECONDS = 3600;
const PERIOD_SECONDS: Record<string, number> = {
  hour: HOUR_SECONDS,
  day: 24 * HOUR_SECONDS,
  week: 7 * 24 * HOUR_SECONDS,
};

export function auditPage({ page }: ConsoleRoutes): void {
  page('/audit', showAudit);
}

async function showAudit(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const query = queryIn(ctx);
  const { since = '', event = '', account, client, grant } = query;
  const age = PERIOD_SECONDS[since];
  const found = await searchAudit(management, {
    limit: PAGE_ITEMS,
    newestFirst: true,
    after: cursorIn(ctx, auditQuery),
    event: event || undefined,
    account: account || undefined,
    client: client || undefined,
    grant: grant || undefined,
    since: age === undefined ? undefined : management.services.now() - age,
  });
  const [events, kept] = await Promise.all([
    describeAudit(management, found.items),
    keptOwners(management, query),
  ]);
  const filters = [
    {
      name: 'since',
      value: since,
      choiceTexts: 'console.choices',
      choices: Object.keys(PERIOD_SECONDS),
    },
    { name: 'event', value: event, choiceTexts: 'console.events', choices: [...auditEvents] },
  ];
  await management.services.pages.render(ctx, 'console/audit', {
    console: layout(context, 'audit'),
    events,
    ...listValues(ctx, `${CONSOLE_PATH}/audit`, found, {
      filters,
      kept: grant ? [...kept, { name: 'grant', value: grant, text: grant }] : kept,
    }),
  });
}
