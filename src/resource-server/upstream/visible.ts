// What a caller may see of the upstream's lists: nothing that no authorization on its link could ever reach.
import { type Caller, decide } from '../level.ts';
import { isObject, membersOf } from '../messages.ts';
import { type LevelRules, levelOfTool } from './needed-level.ts';

const OTHER_LISTS = ['resources', 'resourceTemplates', 'prompts'] as const;

/**
 * A message of the upstream as the caller may have it; the same object when nothing is to be left out. Lists are known by what they
 * hold, not by what was asked: an answer may come on another stream than its request.
 */
export function visible(rules: LevelRules, caller: Caller, message: unknown): unknown {
  const { result } = membersOf(message);
  if (!isObject(message) || !isObject(result)) return message;
  const lists = visibleLists(rules, caller, result);
  if (Object.keys(lists).length === 0) return message;
  return { ...message, result: { ...result, ...lists, ...unshared(result) } };
}

function visibleLists(
  rules: LevelRules,
  caller: Caller,
  result: Record<string, unknown>,
): Record<string, unknown> {
  const { tools } = result;
  const isReachable = (tool: unknown) =>
    decide(caller, levelOfTool(rules, membersOf(tool)['name'])) !== 'never';
  const areOthersHidden = decide(caller, rules.defaultLevel) === 'never';
  const hidden = OTHER_LISTS.filter((name) => areOthersHidden && Array.isArray(result[name]));
  return {
    ...(Array.isArray(tools) ? { tools: tools.filter(isReachable) } : {}),
    ...Object.fromEntries(hidden.map((name) => [name, []])),
  };
}

/** What one caller may see is not for a cache that others read from (MCP 2026-07-28, caching). */
function unshared({ cacheScope }: Record<string, unknown>): Record<string, unknown> {
  return cacheScope === 'public' ? { cacheScope: 'private' } : {};
}
