// What a person may use through a connector, and through what a tool can be reached.
import { findAccount } from '../../people/accounts.ts';
import { findConnector } from '../../links/connectors.ts';
import { findUpstream } from '../../settings/upstreams.ts';
import { findCatalog } from '../../upstreams/tool-catalog.ts';
import type { ConsoleField, ConsoleItem } from '../../pages/console-values.ts';
import { accessHandlers } from '../access.ts';
import { parseInput } from '../parse-input.ts';
import { accessOperations, type ToolAccess, type WhoReaches } from '../resources/access.ts';
import { translatedField } from '../resources/fields.ts';
import { upstreamHandlers } from '../upstreams.ts';
import { CONSOLE_PATH, recordId, recordPath, reviewPath } from './address.ts';
import type { ManagementContext } from '../context.ts';
import type { ConsoleContext, ConsoleRoutes } from './context.ts';
import { layout, queryIn } from './layout.ts';
import { ruleFields } from './rule-texts.ts';

const PATH = 'tools';
const TEXTS = 'console.toolAccess';
/** Pages with thousands of rows are slow. */
const MAX_ROWS = 500;

export function toolsOfPerson(account: string, connector: string): string {
  return `${recordPath('accounts', account)}/${PATH}?${new URLSearchParams({ connector })}`;
}

export function reachOfTool(upstream: string, tool: string): string {
  const server = encodeURIComponent(upstream);
  return `${CONSOLE_PATH}/servers/${server}/${PATH}?${new URLSearchParams({ tool })}`;
}

export function toolAccessPages({ page }: ConsoleRoutes): void {
  page(`/accounts/:id/${PATH}`, showPerson);
  page(`/servers/:id/${PATH}`, showTool);
}

async function showPerson(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const id = recordId(String(ctx.params.id));
  const asked = { account: id, connector: queryIn(ctx).connector };
  const query = parseInput(accessOperations.showAccess.query, asked);
  const access = await accessHandlers.showAccess(management, { query });
  const { store, pages } = management.services;
  const [account, connector] = await Promise.all([
    findAccount(store, id),
    findConnector(store, access.connector),
  ]);
  const person = account?.name || id;
  const upstream = connector && findUpstream(management.settings.upstreams, connector);
  const catalog = upstream && (await findCatalog(store, upstream));
  await pages.render(ctx, 'console/tool-access', {
    console: layout(context, 'accounts'),
    back: { href: recordPath('accounts', id), text: person },
    question: 'person',
    names: { person, connector: connector?.name ?? access.connector },
    ...(access.level === null
      ? { noLevel: `console.reasons.${access.reason}` }
      : { level: access.level }),
    readAt: catalog?.seenAt,
    sections: [
      section('tools', access.tools.map(toolItem)),
      section('rules', rulesOf(management, access)),
    ],
  });
}

async function showTool(context: ConsoleContext): Promise<void> {
  const { management, ctx } = context;
  const asked = { tool: queryIn(ctx).tool, upstream: String(ctx.params.id) };
  const query = parseInput(accessOperations.listWhoReaches.query, asked);
  const [who, server] = await Promise.all([
    accessHandlers.listWhoReaches(management, { query }),
    upstreamHandlers.showUpstream(management, { id: asked.upstream }),
  ]);
  const level = who.upstreams[0]?.level;
  const held = server.tools.find(({ name }) => name === query.tool)?.held;
  await management.services.pages.render(ctx, 'console/tool-access', {
    console: layout(context, 'servers'),
    back: { href: `${CONSOLE_PATH}/servers`, text: server.name },
    question: 'tool',
    names: { tool: query.tool, server: server.name },
    ...(held !== undefined
      ? { noLevel: `console.review.held.${held}`, sections: [] }
      : level === undefined
        ? { noLevel: `${TEXTS}.decided.name`, sections: [] }
        : { level, sections: sectionsOf(management, who) }),
    // A tool that is listed twice waits for the server.
    ...(held === undefined || held === 'twice' ? {} : { review: reviewPath(asked.upstream) }),
  });
}

function sectionsOf(management: ManagementContext, who: WhoReaches) {
  return [
    section('rules', rulesOf(management, who)),
    section('connectors', who.connectors.map(connectorItem)),
    section(
      'tokens',
      who.tokens.map(({ id, name, level }) =>
        item(
          name,
          [{ label: 'granted', level }],
          `${CONSOLE_PATH}/tokens?${new URLSearchParams({ q: id })}`,
        ),
      ),
    ),
    section(
      'machines',
      who.machines.map(({ id, name, level }) =>
        item(name, [{ label: 'granted', level }], recordPath('clients', id)),
      ),
    ),
  ];
}

function section(of: string, items: ConsoleItem[]) {
  return {
    of,
    items: items.slice(0, MAX_ROWS),
    ...(items.length > MAX_ROWS ? { most: MAX_ROWS } : {}),
  };
}

function item(title: string, facts: ConsoleField[], href?: string): ConsoleItem {
  return { title, href, facts, fields: [], actions: [] };
}

function toolItem({ name, level, forbiddenBy = 'allowed' }: ExplainedTool): ConsoleItem {
  return {
    ...item(name, [
      translatedField('result', forbiddenBy, `${TEXTS}.decided`),
      ...(level === undefined ? [] : [{ label: 'accessNeeded', level }]),
    ]),
  };
}

type ExplainedTool = Omit<ToolAccess['tools'][number], 'forbiddenBy'> & {
  forbiddenBy?: ToolAccess['tools'][number]['forbiddenBy'] | 'allowed';
};

function rulesOf(
  { settings }: ManagementContext,
  { rules }: Pick<ToolAccess | WhoReaches, 'rules'>,
): ConsoleItem[] {
  return rules.map(({ rule, level, tools }) =>
    item(rule, [
      ...ruleFields(settings, rule),
      ...(level === undefined ? [] : [{ label: 'level', level }]),
      ...(tools ? [{ label: 'tools', codes: tools }] : []),
    ]),
  );
}

function connectorItem({ id, name, level, people }: WhoReaches['connectors'][number]): ConsoleItem {
  const href = `${CONSOLE_PATH}/grants?${new URLSearchParams({ connector: id })}`;
  const counted: ConsoleField =
    people === undefined
      ? { label: 'connected', textKey: `${TEXTS}.uncounted` }
      : { label: 'connected', textKey: `${TEXTS}.people`, textValues: { count: people }, href };
  return item(name, [{ label: 'level', level }, counted], recordPath('connectors', id));
}
