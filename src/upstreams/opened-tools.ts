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
    .flatMap((each) => (byLevel.get(each) ?? []).map(titleOf));
}

const MAX_LENGTH = 120;

/** A name is as the upstream states it, of up to 512 characters, some of which may be invisible. */
function titleOf({ name, title }: CatalogTool): string {
  if (title !== undefined) return title;
  const line = name.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]/gu, '\uFFFD');
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line;
}
