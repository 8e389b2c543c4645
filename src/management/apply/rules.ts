import {
  changeRules,
  comparableName,
  type ClientRule as Stored,
  listRules,
  ruleId,
  type RuleSubject,
  UNNAMED,
} from '../../clients/rules.ts';
import { recordChanges } from '../../audit/recorded-change.ts';
import { notFound } from '../../http/errors.ts';
import { parseInput } from '../parse-input.ts';
import { addClientRule, clientRuleHandlers, endBlocked, ruleItem } from '../client-rules.ts';
import type { ManagementContext } from '../context.ts';
import { changedMembers, represent } from '../represent.ts';
import { type ExportedFile, exportedRule, type RuleRecord } from '../resources/apply.ts';
import { blockBody, clientRuleSchema } from '../resources/client-rule.ts';
import { NAME, VISIBLE_CHARACTERS } from '../resources/schemas.ts';
import { invalid, type Issues, mapRecords, Matcher, type Step } from './plan.ts';

export type Rule = Stored & { id: string };

const subjectSchema = clientRuleSchema.pick({
  effect: true,
  host: true,
  name: true,
  destinations: true,
});

export async function findRules({ services }: ManagementContext): Promise<Rule[]> {
  return (await listRules(services.store)).map((rule) => ({ ...rule, id: ruleId(rule) }));
}

export type RulePlan = {
  steps: Step[];
  absent: Rule[];
  /** The blocks that are new here. A stopped run may have left connections to one that is in force. */
  blocks: RuleSubject[];
  /** Ends what the blocks with these ids block, and gives adopted rules their keys. */
  finish: (ids: ReadonlySet<string>) => Promise<void>;
};

/** A block that a stopped run has left is finished by the next. */
export async function planRules(
  management: ManagementContext,
  records: readonly (RuleRecord | undefined)[],
  stored: readonly Rule[],
  issues: Issues,
): Promise<RulePlan> {
  const matcher = new Matcher(stored, issues);
  const bySubject = new Map(stored.map((rule) => [rule.id, rule]));
  const keys = new Map<string, string>();
  const blocks = new Map<string, RuleSubject>();
  const steps = await mapRecords(records, (record, n): Step[] => {
    if (!record) return [];
    const place = `clientRules.${n}`;
    const { key } = record;
    const found = matcher.match(place, record);
    if (found === 'refused') return [];
    if (!issues.isValid(place, () => subjectOf(record, bySubject))) return [];
    const subject = subjectOf(record, bySubject);
    const id = ruleId(subject);
    const name = 'host' in subject ? subject.host : subject.name;
    if (keys.has(id)) {
      issues.add(place, 'another rule of this list is the same');
      return [];
    }
    keys.set(id, key);
    const same = bySubject.get(id);
    if (same && same !== found) {
      if (found || (same.key !== undefined && same.key !== same.id)) {
        issues.add(place, `key: the same rule has the key ${same.key ?? same.id}`);
        return [];
      }
      matcher.claim(same);
    }
    if (same?.key === key && !same.isUnfinished) return [{ key, id, name, action: 'unchanged' }];
    if (subject.effect === 'block') blocks.set(id, subject);
    const adopted = { key, id, name, action: 'adopted' as const };
    if (same) return [{ ...adopted, run: async () => id }];
    const run = async () => {
      const made = subject.effect === 'block' ? { key, isUnfinished: true as const } : { key };
      await (found
        ? replace(management, found, { ...subject, ...made })
        : addClientRule(management, subject, ADDED[subject.effect], made));
      return id;
    };
    return [
      found
        ? { ...adopted, action: 'updated', changed: changesOf(found, subject), run }
        : { ...adopted, action: 'created', run },
    ];
  });
  async function finish(ids: ReadonlySet<string>): Promise<void> {
    if (ids.size === 0) return;
    if ([...ids].some((id) => blocks.has(id))) await endBlocked(management);
    const { store } = management.services;
    await changeRules(store, (rule) => {
      const id = ruleId(rule);
      return ids.has(id) ? { ...rule, key: keys.get(id), isUnfinished: undefined } : rule;
    });
  }
  const absent = stored.filter((rule) => !matcher.isMatched(rule));
  return { steps, blocks: [...blocks.values()], absent, finish };
}

/** Returns whether one of the rules blocks clients with a name. */
export function nameBlocks(
  rules: readonly ({ effect: string; name?: string | undefined } | undefined)[],
): (name: string) => boolean {
  const blocked = new Set(
    rules.flatMap((rule) => (rule?.effect === 'block' ? comparableName(rule.name ?? '') : [])),
  );
  blocked.delete('');
  return (name) => blocked.has(comparableName(name));
}

/** Throws HttpError 400. */
function subjectOf(
  { effect, host, name, destinations }: RuleRecord,
  stored: ReadonlyMap<string, unknown>,
): RuleSubject {
  if (effect === 'block') {
    if (destinations) throw invalid('destinations: only an allowed app has them');
    const body = {
      ...(host === undefined ? {} : { host }),
      ...(name === undefined ? {} : { name }),
    };
    return { effect, ...parseInput(blockBody, body) };
  }
  if (host !== undefined) throw invalid('host: an allowed app has a name and destinations');
  if (name === undefined) throw invalid(`name: ${VISIBLE_CHARACTERS}`);
  if (!destinations) throw invalid('destinations: where the redirect URIs of the app may lead');
  const subject = { effect, name, destinations: [...new Set(destinations)].sort() };
  // The name of a stored rule is as the app registered it.
  if (!stored.has(ruleId(subject)) && (!NAME.test(name) || name === UNNAMED))
    throw invalid(`name: ${VISIBLE_CHARACTERS}, and not that of an app without a name`);
  return subject;
}

function changesOf(before: RuleSubject, after: RuleSubject): string[] {
  const [was, is]: object[] = [before, after].map((rule) => represent(subjectSchema, { ...rule }));
  return Object.keys(changedMembers({ ...was }, { ...is }).after);
}

const ADDED = { block: 'client_blocked', allow: 'client_allowed' };

type Made = RuleSubject & Pick<Stored, 'key' | 'isUnfinished'>;

/** In its place, without a moment in which neither rule is in force. */
async function replace(management: ManagementContext, before: Rule, next: Made) {
  const { services, by } = management;
  const after = { ...next, createdAt: Math.floor(services.now()), by };
  const { id, ...removed } = before;
  const { key: _key, ...added } = after;
  const replaceRule = async () => {
    let isReplaced = false;
    await changeRules(services.store, (rule) => {
      const isIt = ruleId(rule) === id;
      isReplaced ||= isIt;
      return isIt ? after : rule;
    });
    if (!isReplaced) throw notFound('the rule was removed meanwhile');
  };
  const removal = ruleItem(management, 'client_rule_removed', removed);
  const addition = ruleItem(management, ADDED[next.effect], added);
  const items = [removal, addition];
  await recordChanges(services, items, { make: replaceRule, itemsOf: () => items });
}

export function endRules(management: ManagementContext, ended: readonly Rule[]): Step[] {
  return ended.map((rule) => ({
    key: rule.key ?? rule.id,
    id: rule.id,
    name: 'host' in rule ? rule.host : rule.name,
    action: 'ended',
    async run() {
      await clientRuleHandlers.removeClientRule(management, { id: rule.id });
      return rule.id;
    },
  }));
}

export function exportRules(rules: readonly Rule[]): ExportedFile['clientRules'] {
  return rules.map((rule) => represent(exportedRule, { ...rule, key: rule.key ?? rule.id }));
}
