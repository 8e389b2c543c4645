import {
  type Connector as Stored,
  type ConnectorSettings,
  recordedState,
} from '../../links/connector.ts';
import { isAtLeast, isLevel } from '../../permission-levels.ts';
import { findUpstream } from '../../settings/upstreams.ts';
import { connectorHandlers, etagOf, previewConnector, requireAudience } from '../connectors.ts';
import type { ManagementContext } from '../context.ts';
import { changedMembers, represent, wholeSecond } from '../represent.ts';
import { type ConnectorRecord, exportedConnector, type ExportedFile } from '../resources/apply.ts';
import { changeableSchema } from '../resources/connector.ts';
import { requireUpstream } from '../upstreams.ts';
import {
  expectedLevel,
  invalid,
  mapRecords,
  type Issues,
  Matcher,
  type PlannedConnector,
  type Step,
} from './plan.ts';

/** What the file makes of the connectors. `planned` has the valid ones by key; `changes` are those that can take access away. */
export type ConnectorPlan = {
  steps: Step[];
  planned: ReadonlyMap<string, PlannedConnector>;
  changes: { before: Stored; after: Stored }[];
  /** Those that are not in the file, and could be ended. */
  absent: Stored[];
};

/** The members whose change can take access away. */
const LESSENING = ['level', 'audience', 'tools', 'paused', 'expiresAt'];

/** Connectors that have not ended. */
export function activeConnectors(
  { services }: ManagementContext,
  all: readonly Stored[],
): Stored[] {
  return all.filter((connector) => !hasEnded(connector, services.now()));
}

function hasEnded(connector: Stored, now: number): boolean {
  const state = recordedState(connector, now);
  return state === 'revoked' || state === 'expired';
}

export async function planConnectors(
  management: ManagementContext,
  records: readonly (ConnectorRecord | undefined)[],
  stored: readonly Stored[],
  issues: Issues,
): Promise<ConnectorPlan> {
  const now = management.services.now();
  const active = activeConnectors(management, stored);
  const matcher = new Matcher(active, issues);
  const planned = new Map<string, PlannedConnector>();
  const changes: ConnectorPlan['changes'] = [];
  const steps = await mapRecords(records, (record, n): Step[] => {
    if (!record) return [];
    const place = `connectors.${n}`;
    const { key, name, expiresAt } = record;
    const before = matcher.match(place, record);
    if (before === 'refused') return [];
    // A connector that expired as the file says is as it should be.
    const expired =
      !before && expiresAt !== undefined && expiresAt <= now
        ? stored.find((each) => each.key === key && wholeSecond(each.expiresAt) === expiresAt)
        : undefined;
    if (expired) return [{ key, id: expired.id, name, action: 'unchanged' }];
    if (!before) {
      if (!issues.isValid(place, ...checksOfNew(management, record))) return [];
      const { id: _none, paused, ...wanted } = record;
      const body = { ...wanted, ...(paused ? { paused } : {}) };
      const connector: PlannedConnector = { ...wanted };
      planned.set(key, connector);
      const run = async () => {
        const { id } = await connectorHandlers.createConnector(management, { body });
        connector.id = id;
        return id;
      };
      return [{ key, name, action: 'created', run }];
    }
    if (!issues.isValid(place, ...checksOfChange(management, before, record))) return [];
    const change = changeOf(management, before, record);
    const { after, members, sent } = change;
    planned.set(key, after);
    const { id } = before;
    if (members.length === 0 && before.key === key) return [{ key, id, name, action: 'unchanged' }];
    if (members.some((member) => LESSENING.includes(member))) changes.push({ before, after });
    const run = async () => {
      const request = { id, query: {}, body: sent, ifMatch: etagOf(before) };
      await connectorHandlers.updateConnector(management, request);
      return id;
    };
    return [
      members.length === 0
        ? { key, id, name, action: 'adopted', run }
        : { key, id, name, action: 'updated', changed: members, run },
    ];
  });
  const absent = active.filter((connector) => !matcher.isMatched(connector));
  return { steps, planned, changes, absent };
}

/** Each throws HttpError 400. */
function checksOfNew(management: ManagementContext, record: ConnectorRecord): (() => void)[] {
  const { settings } = management;
  return [
    () => requireLevel(settings, record),
    () => requireSuggestion(settings, record),
    () => requireUpstream(settings, record.upstream),
    () => requireAudience(settings, record.audience ?? []),
    () => requireFuture(management, record),
  ];
}

/** What is as it was is not checked: the settings may no longer have it. */
function checksOfChange(
  management: ManagementContext,
  before: Stored,
  record: ConnectorRecord,
): (() => void)[] {
  const { settings } = management;
  const sent = differences(before, record);
  const hasOtherLevel = sent.level !== undefined;
  return [
    () => requireSameUpstream(settings, before, record.upstream),
    ...(hasOtherLevel ? [() => requireLevel(settings, record)] : []),
    ...(hasOtherLevel || sent.suggestedLevel ? [() => requireSuggestion(settings, record)] : []),
    ...(sent.audience ? [() => requireAudience(settings, record.audience ?? [])] : []),
    () => requireFuture(management, record),
  ];
}

/** What is sent to make the stored connector equal to the record, and the names of members that differ. */
function changeOf(management: ManagementContext, before: Stored, record: ConnectorRecord) {
  const sent = differences(before, record);
  const after = previewConnector(management, before, sent);
  const { after: changed } = changedMembers(
    represent(changeableSchema, before),
    represent(changeableSchema, after),
  );
  return { after, sent, members: Object.keys(changed).filter((member) => member !== 'key') };
}

/** The members of the record that differ; null for those that are absent. */
function differences(before: Stored, record: ConnectorRecord) {
  const { key, name, level, suggestedLevel, audience, tools, maxUses, calls, expiresAt } = record;
  const wanted = {
    key,
    name,
    level,
    suggestedLevel: suggestedLevel ?? null,
    maxUses: maxUses ?? null,
    calls: calls ?? null,
    expiresAt: expiresAt ?? null,
    audience: audience ?? null,
    tools: tools ?? null,
    paused: record.paused ?? false,
  };
  const present = {
    ...before,
    expiresAt: wholeSecond(before.expiresAt),
    paused: before.paused ?? false,
  };
  const entries = Object.entries(wanted).filter(
    ([member, value]) =>
      JSON.stringify(value) !== JSON.stringify(present[member as keyof typeof wanted] ?? null),
  );
  const sent: Partial<typeof wanted> = Object.fromEntries(entries);
  return sent;
}

/** Throws HttpError 400. */
function requireLevel({ levels }: ConnectorSettings, { level }: ConnectorRecord): void {
  if (!isLevel(levels, level)) throw invalid(`level: ${expectedLevel(levels)}`);
}

/** Throws HttpError 400. */
function requireSuggestion({ levels }: ConnectorSettings, record: ConnectorRecord): void {
  const { level, suggestedLevel } = record;
  if (suggestedLevel === undefined) return;
  if (!isLevel(levels, suggestedLevel)) throw invalid(`suggestedLevel: ${expectedLevel(levels)}`);
  if (isLevel(levels, level) && !isAtLeast(levels, level, suggestedLevel))
    throw invalid('suggestedLevel: at most the level of the connector');
}

/** Throws HttpError 400. */
function requireFuture({ services }: ManagementContext, { expiresAt }: ConnectorRecord): void {
  if (expiresAt !== undefined && expiresAt <= services.now())
    throw invalid('expiresAt: a time in the future');
}

/** A link leads to one server forever. Throws HttpError 400. */
function requireSameUpstream(
  { upstreams }: ConnectorSettings,
  before: Stored,
  wanted: string | undefined,
): void {
  if (wanted === undefined || wanted === before.upstream) return;
  if (wanted === findUpstream(upstreams, before)?.id) return;
  throw invalid('upstream: cannot be changed; use another key for a new connector');
}

export function endConnectors(management: ManagementContext, ended: readonly Stored[]): Step[] {
  return ended.map(({ id, key = id, name }) => ({
    key,
    id,
    name,
    action: 'ended',
    async run() {
      await connectorHandlers.revokeConnector(management, { id });
      return id;
    },
  }));
}

export function exportConnectors(connectors: readonly Stored[]): ExportedFile['connectors'] {
  return connectors.map((connector) => {
    const { id, key = id, expiresAt } = connector;
    return represent(exportedConnector, { ...connector, key, expiresAt: wholeSecond(expiresAt) });
  });
}
