// Finds the rule of a workload for a connect link, and what keeps it from giving a token.
import { type Connector, isUsable } from '../links/connector.ts';
import { listConnectors } from '../links/connectors.ts';
import { isLevel } from '../permission-levels.ts';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';
import type { Settings } from '../settings/settings.ts';
import { namesConnector, type WorkloadRule, workloadSubject } from '../settings/workloads.ts';
import type { Store } from '../store/store.ts';
import { findWorkloadRecord, type WorkloadRecord } from './records.ts';
import {
  type Claims,
  unmatchedClaims,
  WorkloadRefused,
  type WorkloadErrorCode,
} from './validation.ts';

export type FoundRule = {
  rule: WorkloadRule;
  connector: Connector;
  /** Of its tokens. */
  subject: string;
  record: WorkloadRecord;
};

/** The rules of an issuer about a connector, except those that were ended. A name counts only if one connector has it. */
export async function rulesAbout(
  store: Store,
  { id: issuerId, workloads }: TrustedIssuer,
  connector: Connector,
): Promise<FoundRule[]> {
  const candidates = workloads.filter((rule) => namesConnector(rule, connector));
  const isNamed = candidates.some((rule) => rule.connector !== connector.id);
  const namesakes = isNamed
    ? (await listConnectors(store)).filter(({ name }) => name === connector.name).length
    : 1;
  const rules = candidates.filter((rule) => rule.connector === connector.id || namesakes === 1);
  const found = await Promise.all(
    rules.map(async (rule) => {
      const subject = workloadSubject(issuerId, rule.id);
      return { rule, connector, subject, record: await findWorkloadRecord(store, subject) };
    }),
  );
  return found.filter(({ record }) => record.endedAt === undefined);
}

/** Returns the only one that matches. Throws WorkloadRefused. */
export function matchingRule(found: readonly FoundRule[], claims: Claims): FoundRule {
  if (found.length === 0) throw new WorkloadRefused('unknown_resource');
  const compared = found.map((each) => ({ each, unmatched: unmatchedClaims(each.rule, claims) }));
  const [only, ...others] = compared.filter(({ unmatched }) => unmatched.length === 0);
  const idsOf = (of: typeof compared) => of.map(({ each }) => each.rule.id);
  if (!only) {
    const unmatched = compared.flatMap(({ unmatched: claimsOfRule }) => claimsOfRule.slice(0, 1));
    throw new WorkloadRefused('no_rule', { rules: idsOf(compared), unmatched });
  }
  if (others.length > 0)
    throw new WorkloadRefused('several_rules', { rules: idsOf([only, ...others]) });
  return only.each;
}

/** Why a rule that matches gives no token now. */
export function refusalOfRule(
  { rule, connector, record }: FoundRule,
  now: number,
  settings: Settings,
): WorkloadErrorCode | undefined {
  if (record.pausedAt !== undefined) return 'rule_paused';
  if (rule.expires !== undefined && rule.expires <= now) return 'rule_expired';
  if (!isUsable(connector, now, settings)) return 'connector_ended';
  return isLevel(settings.levels, rule.level) ? undefined : 'level_gone';
}
