// The levels that init suggests for an MCP server, and the level that it suggests for each tool.
import { highestLevel, type Level, type LevelDefinition } from '../permission-levels.ts';
import type { CatalogTool } from '../upstreams/tool-catalog.ts';
import { levelOfTool, levelRules } from '../upstreams/tool-levels.ts';

export type SuggestedLevel = LevelDefinition & {
  title: string;
  sees: string;
  /** The tools that init gives this level. */
  tools: string;
};

/** Lowest first. */
export const SUGGESTED_LEVELS = [
  {
    id: 'read',
    title: 'Read',
    sees: 'Everything that its tools show, without changing it',
    recorded: false,
    tools: 'Tools that say that they only read.',
  },
  {
    id: 'write',
    title: 'Read and write',
    sees: 'The same, and it can add and change things',
    recorded: false,
    tools: 'Tools that say that they write, and delete or overwrite nothing.',
  },
  {
    id: 'full',
    title: 'Everything',
    sees: 'The same, and it can do everything that its tools allow, such as delete',
    recorded: true,
    tools: 'All other tools: they may delete or overwrite, or do not say what they do.',
  },
] as const satisfies readonly SuggestedLevel[];

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
