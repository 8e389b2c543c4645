import { isAtLeast, type Level, levelIds } from '../permission-levels.ts';
import type { CatalogTool } from './tool-catalog.ts';
import { isLookalike, levelOfTool, type LevelRules } from './tool-levels.ts';

/** Returns the titles of the tools that a level opens: those that need the highest level first, then in the order of the upstream. */
export function openedTools(
  rules: LevelRules,
  tools: readonly CatalogTool[],
  level: Level,
): string[] {
  const known = tools.filter(({ name }) => !isLookalike(rules, name));
  const byLevel = Map.groupBy(known, ({ name }) => levelOfTool(rules, name));
  return levelIds(rules.levels)
    .filter((each) => isAtLeast(rules.levels, level, each))
    .toReversed()
    .flatMap((each) => (byLevel.get(each) ?? []).map(({ name, title }) => title ?? name));
}
