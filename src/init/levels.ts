// The levels that init suggests for an MCP server, and the level that it suggests for each tool.
import { highestLevel, type Level, type Levels } from '../permission-levels.ts';
import { TRIAL_LEVELS } from '../settings/upstream-option.ts';
import type { CatalogTool } from '../upstreams/tool-catalog.ts';
import { levelOfTool, levelRules } from '../upstreams/tool-levels.ts';

/** Lowest first. */
export const SUGGESTED_LEVELS: Levels = TRIAL_LEVELS.map((level) => ({
  recorded: false,
  ...level,
}));

export type ClassifiedTool = { name: string; title: string; level: Level };

/** Settings accept names of at most this length. */
const MAX_NAME_LENGTH = 128;
const MAX_TOOLS = 1000;

/**
 * Suggests a level for each tool by its annotations. Leaves out tools whose name the settings do not accept, and those above MAX_TOOLS: they
 * need the highest level.
 */
export function classifyTools(listed: readonly CatalogTool[]): ClassifiedTool[] {
  const rules = levelRules(
    SUGGESTED_LEVELS,
    { tools: [], defaultLevel: highestLevel(SUGGESTED_LEVELS), toolLevels: 'annotations' },
    listed,
  );
  const byName = new Map(listed.map((tool) => [tool.name, tool]));
  return [...byName.values()]
    .filter(({ name }) => name.length > 0 && name.length <= MAX_NAME_LENGTH)
    .slice(0, MAX_TOOLS)
    .map(({ name, title = '' }) => ({ name, title, level: levelOfTool(rules, name) }));
}
