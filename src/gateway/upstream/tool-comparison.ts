// Compares the tools of an MCP server with the settings.
import type { Level, Levels } from '../../permission-levels.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import { type CatalogTool, missingTools } from '../../upstreams/tool-catalog.ts';
import { levelOfTool, levelRules } from '../../upstreams/tool-levels.ts';
import { printable } from '../../printable-text.ts';

export type ToolComparison = {
  /** Names in the settings that the MCP server lacks. */
  missing: string[];
  /** Tools that the settings do not name. */
  undeclared: string[];
  /** The number of tools that need each level. */
  needed: Map<Level, number>;
};

export function compareTools(
  levels: Levels,
  upstream: Upstream,
  tools: readonly CatalogTool[],
): ToolComparison {
  const names = new Set(tools.map(({ name }) => name));
  const declared = new Set(upstream.tools.map(({ name }) => name));
  const rules = levelRules(levels, upstream, tools);
  const needed = new Map<Level, number>();
  for (const name of names) {
    const level = levelOfTool(rules, name);
    needed.set(level, (needed.get(level) ?? 0) + 1);
  }
  return {
    missing: missingTools(upstream, tools),
    undeclared: [...names].filter((name) => !declared.has(name)),
    needed,
  };
}

const MAX_NAMES = 20;
const MAX_NAME_LENGTH = 64;

/** Shortened for a log line or a finding. */
export function listOf(names: readonly string[]): string {
  const shown = names
    .slice(0, MAX_NAMES)
    .map((name) => printable(name, MAX_NAME_LENGTH))
    .join(', ');
  const more = names.length - MAX_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}
