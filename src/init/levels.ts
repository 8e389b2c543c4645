// The levels that init suggests for an MCP server, and the level that it suggests for each tool.
import type { DiscoveredTool } from '../resource-server/upstream/discovery.ts';

export type SuggestedLevel = {
  id: string;
  title: string;
  sees: string;
  recorded: boolean;
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

export type SuggestedLevelId = (typeof SUGGESTED_LEVELS)[number]['id'];

export type ClassifiedTool = { name: string; title: string; level: SuggestedLevelId };

/** Settings accept names of at most this length. */
const MAX_NAME_LENGTH = 128;
const MAX_TOOLS = 1000;

/**
 * Suggests a level for each tool by its annotations (MCP, ToolAnnotations). Leaves out tools whose name the settings do not accept, and those above
 * MAX_TOOLS: they need the highest level.
 */
export function classifyTools(tools: readonly DiscoveredTool[]): ClassifiedTool[] {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  return [...byName.values()]
    .filter(({ name }) => name.length > 0 && name.length <= MAX_NAME_LENGTH)
    .slice(0, MAX_TOOLS)
    .map((tool) => ({ name: tool.name, title: titleOf(tool), level: levelOf(tool) }));
}

function levelOf({ annotations = {} }: DiscoveredTool): SuggestedLevelId {
  const hints: { readOnlyHint?: unknown; destructiveHint?: unknown } = annotations;
  if (hints.readOnlyHint === true) return 'read';
  return hints.readOnlyHint === false && hints.destructiveHint === false ? 'write' : 'full';
}

/** `title` takes precedence over `annotations.title`. */
function titleOf({ title, annotations = {} }: DiscoveredTool): string {
  const { title: annotated }: { title?: unknown } = annotations;
  return title ?? (typeof annotated === 'string' ? annotated : '');
}
