// The console's list of what the audit log recorded, the newest first, with the names of people and connectors that are still known.
import { findAccount } from '../../accounts/accounts.ts';
import { verifiedEmailOf } from '../../accounts/person-name.ts';
import type { AuditItem } from '../../audit/audit.ts';
import { findConnector } from '../../connectors/connectors.ts';
import { securityEvents } from '../../observability/labels.ts';
import type { Store } from '../../store/store.ts';
import { listAudit } from '../audit-log.ts';
import type { Page } from '../documents.ts';
import { auditQuery } from '../input.ts';
import { called, code, said } from './facts.ts';
import { type List, PAGE } from './list.ts';

const EVENTS = 'console.events';
const OUTCOMES = 'console.outcomes';
const REASONS = 'console.reasons';

const HOUR = 3600;
const SINCE: Record<string, number> = { hour: HOUR, day: 24 * HOUR, week: 7 * 24 * HOUR };
/** Every read goes over a thousand items at most. */
const MOST_READS = 20;

/** Names by the ids of people and connectors. */
type Named = AuditItem & { names: Map<string, string> };

export const audit: List<Named> = {
  section: 'audit',
  query: auditQuery,
  filters: ({ since = '', event = '' }) => [
    { name: 'since', value: since, said: 'console.choices', choices: Object.keys(SINCE) },
    { name: 'event', value: event, said: EVENTS, choices: eventsWith(event) },
  ],
  read: async (tools, { since = '', event }, after) => {
    const age = SINCE[since];
    const wanted = {
      limit: PAGE,
      newestFirst: true,
      event: event || undefined,
      ...(age === undefined ? {} : { since: tools.now() - age }),
    };
    let found = await listAudit(tools, { ...wanted, after });
    for (let reads = 1; isEmptyButMore(found) && reads < MOST_READS; reads += 1)
      found = await listAudit(tools, { ...wanted, after: found.next });
    const names = await namesIn(tools.store, found.items);
    return { ...found, items: found.items.map((item) => ({ ...item, names })) };
  },
  item: (item) => ({
    title: item.event,
    said: `${EVENTS}.${item.event}`,
    facts: [
      code('time', item.time),
      ...outcomeOf(item),
      ...whoIn(item),
      ...(item.tool === undefined ? [] : [code('tool', item.tool)]),
      ...(item.arguments === undefined ? [] : [code('arguments', JSON.stringify(item.arguments))]),
    ],
    actions: [],
  }),
};

function outcomeOf({ event, outcome, reason }: AuditItem) {
  return [
    ...(outcome === event ? [] : [said('outcome', outcome, OUTCOMES)]),
    ...(reason === undefined ? [] : [said('reason', reason, REASONS)]),
  ];
}

function whoIn({ by, account, clientId, connector, grantId, names }: Named) {
  const ids = { by, person: account, client: clientId, connector, grant: grantId };
  return Object.entries(ids).flatMap(([label, id]) =>
    id === undefined ? [] : [called(label, id, names.get(id))],
  );
}

/** Each is looked up once, however often it occurs. */
async function namesIn(store: Store, items: readonly AuditItem[]): Promise<Map<string, string>> {
  const people = new Set(items.flatMap(({ by, account }) => [by, account]));
  const connectors = new Set(items.map(({ connector }) => connector));
  const found = await Promise.all([
    ...[...people].map(async (id = '') => [id, await personName(store, id)] as const),
    ...[...connectors].map(
      async (id = '') => [id, (await findConnector(store, id))?.name] as const,
    ),
  ]);
  return new Map(found.flatMap(([id, name]) => (name === undefined ? [] : [[id, name] as const])));
}

async function personName(store: Store, id: string): Promise<string | undefined> {
  const account = await findAccount(store, id);
  return account && (verifiedEmailOf(account) ?? account.name);
}

/** What was asked for stays chosen, also when it is none of ours. */
function eventsWith(event: string): string[] {
  return [...new Set([...securityEvents, event])].filter(Boolean);
}

function isEmptyButMore({ items, next }: Page<unknown>): boolean {
  return items.length === 0 && next !== undefined;
}
