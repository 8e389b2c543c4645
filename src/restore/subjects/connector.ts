// Connectors that ended, or give less.
import type { AuditItem } from '../../audit/audit.ts';
import {
  audienceDigest,
  audienceText,
  loggableAudienceText,
  parseAudienceRule,
} from '../../links/audience.ts';
import { changedConnector, type Connector, type ConnectorChange } from '../../links/connector.ts';
import {
  deleteConnector,
  findConnector,
  revokeConnector,
  updateConnector,
} from '../../links/connectors.ts';
import { verifiedEmailOf } from '../../people/account.ts';
import { listAccounts } from '../../people/accounts.ts';
import type { Changeable } from '../../management/resources/connector.ts';
import { isAtLeast } from '../../permission-levels.ts';
import type { AudienceRule } from '../../settings/entitlements.ts';
import {
  detailsOf,
  isUncertain,
  lastValues,
  narrowedCalls,
  narrowedTools,
  type Restoring,
  secondsIn,
  type Subject,
  timeOf,
} from './subject.ts';

const idIn = ({ connector }: AuditItem) => connector;

export const connectorEnd: Subject = {
  idIn,
  async plan({ services: { store } }, id, items) {
    const connector = await findConnector(store, id);
    const isDeleted = items.some(({ event }) => event === 'connector_deleted');
    if (!connector) return undefined;
    if (isDeleted) return async () => void (await deleteConnector(store, id));
    if (connector.revokedAt !== undefined) return undefined;
    const at = timeOf(items[0] ?? { time: '' });
    return async () => void (await revokeConnector(store, id, at));
  },
};

/** What the last value of a member takes away from the connector as it is. Undefined: nothing. */
type Narrowing = (
  restoring: Restoring,
  connector: Connector,
  value: unknown,
  items: readonly AuditItem[],
) => ConnectorChange | undefined | Promise<ConnectorChange | undefined>;

const nothing: Narrowing = () => undefined;

const NARROWINGS: Record<keyof Changeable, Narrowing> = {
  key: nothing,
  name: nothing,
  suggestedLevel: nothing,
  level({ settings: { levels } }, connector, level) {
    if (typeof level !== 'string' || level === connector.level) return undefined;
    // A level that is not in the settings any more gives nothing.
    return isAtLeast(levels, level, connector.level) ? undefined : { level };
  },
  audience: narrowAudience,
  expiresAt(_restoring, { expiresAt = Infinity }, value) {
    const end = secondsIn(value) ?? Infinity;
    return end < expiresAt ? { expiresAt: end } : undefined;
  },
  maxUses: (_restoring, { maxUses = Infinity }, value) =>
    typeof value === 'number' && value < maxUses ? { maxUses: value } : undefined,
  calls(_restoring, connector, value) {
    const calls = narrowedCalls(connector.calls, value);
    return calls === undefined ? undefined : { calls };
  },
  tools(_restoring, connector, value) {
    const tools = narrowedTools(connector.tools, value);
    return tools && { tools };
  },
  paused: (_restoring, { paused }, value) =>
    value === true && paused !== true ? { paused: true } : undefined,
};

export const connectorChange: Subject = {
  idIn,
  async plan(restoring, id, items) {
    const { settings, services } = restoring;
    const connector = await findConnector(services.store, id);
    if (!connector || connector.revokedAt !== undefined) return undefined;
    const change = await changeOf(restoring, connector, items);
    if (Object.keys(change).length === 0) return undefined;
    return async () => {
      await updateConnector(services.store, id, (before) =>
        changedConnector(settings.levels, before, change),
      );
    };
  },
  async hint({ services: { store } }, id, items) {
    const connector = await findConnector(store, id);
    const { audience, paused } = lastValues(items);
    const isPausedHere = connector?.paused === true && paused !== true;
    if (!connector || !(isPausedHere || Array.isArray(audience))) return undefined;
    return isPausedHere
      ? `the connector ${connector.name} (${id}) is paused: set who may use it, then resume it`
      : `the connector ${connector.name} (${id}) is for fewer people: check its audience`;
  },
};

async function changeOf(
  restoring: Restoring,
  connector: Connector,
  items: readonly AuditItem[],
): Promise<ConnectorChange> {
  if (isUncertain(items)) return connector.paused ? {} : { paused: true };
  const values = lastValues(items);
  let change: ConnectorChange = {};
  for (const [member, narrow] of Object.entries(NARROWINGS))
    if (member in values)
      change = { ...change, ...(await narrow(restoring, connector, values[member], items)) };
  return change;
}

/**
 * The log has no names in email addresses, but digests of the rules (`audienceDigest`): a rule with an address is kept if the connector had it, or if
 * it is the address of somebody who has signed in. Without any rule left, the connector is paused, because no rules at all would let everybody in.
 */
async function narrowAudience(
  restoring: Restoring,
  { audience, paused }: Connector,
  value: unknown,
  items: readonly AuditItem[],
): Promise<ConnectorChange | undefined> {
  if (!Array.isArray(value)) return undefined;
  const texts = value.map(String);
  const change = items.findLast((item) => 'audience' in lastValues([item]));
  const digests = change && detailsOf(change)['audienceDigests'];
  const wanted = new Set(Array.isArray(digests) ? digests.map(String) : []);
  const isWanted = (rule: AudienceRule) =>
    rule.email === undefined
      ? texts.includes(audienceText(rule))
      : wanted.has(audienceDigest(restoring.accountIds, rule));
  if (audience?.every(isWanted)) return undefined;
  const kept = audience?.filter(isWanted) ?? (await rulesIn(restoring, texts, isWanted));
  if (kept.length > 0) return { audience: kept };
  return paused ? undefined : { paused: true };
}

/** The rules that can be told from their loggable texts and the addresses of known people. */
async function rulesIn(
  { services: { store } }: Restoring,
  texts: readonly string[],
  isWanted: (rule: AudienceRule) => boolean,
): Promise<AudienceRule[]> {
  const rules = texts.flatMap((text) => parseAudienceRule(text) ?? []);
  const others = rules.filter(({ email }) => email === undefined);
  const hidden = rules.filter(({ email }) => email !== undefined);
  if (hidden.length === 0) return others;
  const found = new Map<string, AudienceRule>();
  for await (const { account } of listAccounts(store)) {
    const email = account && verifiedEmailOf(account)?.toLowerCase();
    if (email === undefined) continue;
    for (const { email: _hidden, ...rest } of hidden) {
      const rule = { ...rest, email };
      const text = audienceText(rule);
      if (!found.has(text) && texts.includes(loggableAudienceText(rule)) && isWanted(rule))
        found.set(text, rule);
    }
    if (found.size === hidden.length) break;
  }
  return [...others, ...found.values()];
}
