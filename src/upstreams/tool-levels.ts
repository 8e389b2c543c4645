// Decides which permission level each tool of an upstream needs.
import {
  highestLevel,
  isAtLeast,
  type Level,
  levelIds,
  type Levels,
  lowestLevel,
} from '../permission-levels.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { foldName, UNSAFE } from './fold-name.ts';
import { type PatternLevels, promptLevels, resourceLevels } from './pattern-levels.ts';
import type { Needed } from './tool-access.ts';
import type { CatalogTool, ToolHints } from './tool-catalog.ts';

export type LevelRules = {
  levels: Levels;
  /** The tools in the settings. */
  tools: ReadonlyMap<string, Level>;
  /** The names in `tools`, normalized. */
  foldedNames: ReadonlySet<string>;
  /** With `toolLevels: annotations`, the tools that the upstream annotates. */
  annotated: ReadonlyMap<string, Level>;
  /** For tools that are in neither. */
  otherTools: Level;
  /** For other methods. */
  defaultLevel: Level;
  resources: PatternLevels;
  prompts: PatternLevels;
  /** Whether the upstream is known to have a tool of this name. Absent: of each. */
  isListed?: (name: string) => boolean;
  /** Whether the tools of the upstream are known, so that it has no others. */
  hasCatalog?: boolean;
  /** Whether the tool waits for an operator, so that no level would help. */
  isHeld?: (name: string) => boolean;
};

/** MCP recommends at most 128. */
export const MAX_NAME_LENGTH = 512;

/**
 * `listed` are the tools in the catalog of the upstream, and `approved` the hints of approved texts that only callers are shown. Both count only
 * with `toolLevels: annotations`.
 */
export function levelRules(
  levels: Levels,
  {
    tools,
    defaultLevel,
    toolLevels,
    resources = [],
    prompts = [],
  }: Pick<Upstream, 'tools' | 'defaultLevel' | 'toolLevels'> &
    Partial<Pick<Upstream, 'resources' | 'prompts'>>,
  listed: readonly CatalogTool[] = [],
  approved: ReadonlyMap<string, readonly ToolHints[]> = new Map(),
): LevelRules {
  const usesAnnotations = toolLevels === 'annotations';
  return {
    levels,
    tools: new Map(tools.map(({ name, level }) => [name, level])),
    foldedNames: new Set(tools.map(({ name }) => foldName(name))),
    annotated: usesAnnotations ? annotatedLevels(levels, listed, approved) : new Map(),
    otherTools: usesAnnotations ? highestLevel(levels) : defaultLevel,
    defaultLevel,
    resources: resourceLevels(
      levels,
      defaultLevel,
      resources.map(({ uri, level }) => ({ text: uri, level })),
    ),
    prompts: promptLevels(
      levels,
      defaultLevel,
      prompts.map(({ name, level }) => ({ text: name, level })),
    ),
  };
}

/** The highest level that these hints ask for: at least one. */
export function strictestLevel(levels: Levels, all: readonly (ToolHints | undefined)[]): Level {
  return all
    .map((hints) => annotatedLevel(levels, hints))
    .reduce((high, other) => (isAtLeast(levels, high, other) ? high : other));
}

/** Of names that an upstream might confuse, each needs the highest level of all. */
function annotatedLevels(
  levels: Levels,
  listed: readonly CatalogTool[],
  approved: ReadonlyMap<string, readonly ToolHints[]>,
): Map<string, Level> {
  const byFoldedName = Map.groupBy(listed, ({ name }) => foldName(name));
  return new Map(
    [...byFoldedName.values()].flatMap((tools) => {
      const all = tools.flatMap(({ name, hints }) => [hints, ...(approved.get(name) ?? [])]);
      const level = strictestLevel(levels, all);
      return tools.map(({ name }) => [name, level] as const);
    }),
  );
}

/** Only what the upstream states counts, never a default of MCP. */
export function annotatedLevel(levels: Levels, hints: ToolHints = {}): Level {
  const { readOnlyHint, destructiveHint } = hints;
  if (readOnlyHint === true) return lowestLevel(levels);
  const [, second, third] = levelIds(levels);
  const isAddition = readOnlyHint === false && destructiveHint === false;
  return isAddition && second !== undefined && third !== undefined ? second : highestLevel(levels);
}

/**
 * True if the name differs from a declared one only in case, Unicode form (NFKC), white space or invisible characters. An upstream that
 * compares names less strictly would run a tool at the level of another. True also for a name with UNSAFE characters, where some programs cut a
 * name or drop a part of it, and for one above MAX_NAME_LENGTH, because comparing it is slow.
 */
export function isLookalike({ tools, foldedNames }: LevelRules, name: unknown): boolean {
  if (typeof name !== 'string' || tools.has(name)) return false;
  if (name.length > MAX_NAME_LENGTH) return true;
  return foldedNames.size > 0 && (UNSAFE.test(name) || foldedNames.has(foldName(name)));
}

/** What the lists of a caller have to open for an entry of a list, or for a request about it. */
export function neededFor(
  rules: LevelRules,
  kind: 'tool' | 'resource' | 'prompt',
  name: unknown,
): Needed {
  const level = kind === 'tool' ? levelOfTool(rules, name) : rules[`${kind}s`].levelOf(name);
  if (typeof name !== 'string') return { kind: 'unclear', level };
  return kind === 'tool' ? { kind, name, isListed: true, level } : { kind, name, level };
}

export function levelOfTool({ tools, annotated, otherTools }: LevelRules, name: unknown): Level {
  if (typeof name !== 'string') return otherTools;
  return tools.get(name) ?? annotated.get(name) ?? otherTools;
}
