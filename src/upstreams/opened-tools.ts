import { type Level, levelIds, type Levels } from '../permission-levels.ts';
import type { Upstream } from '../settings/upstreams.ts';
import { decide, type Rights, type Selection, type Verdict } from './tool-access.ts';
import { type CatalogTool, usableTools } from './tool-catalog.ts';
import { isLookalike, levelOfTool, levelRules } from './tool-levels.ts';
import type { KnownTools } from './tool-pin-records.ts';
import {
  type HoldReason,
  hintsOfCallers,
  holdOf,
  NO_PINS,
  pinsInMode,
  type ToolPins,
} from './tool-pins.ts';

/** `level` is undefined if calls are refused, because the name resembles a declared one. `held` is set while the tool waits for an operator. */
export type LeveledTool = CatalogTool & {
  level: Level | undefined;
  isDeclared: boolean;
  held?: Exclude<HoldReason, 'unknown'>;
};

/** Returns the tools of a catalog with the levels that they need now, in the order of the upstream. */
export function toolsWithLevels(
  levels: Levels,
  upstream: Upstream,
  { catalog, pins = NO_PINS }: KnownTools,
  now: number,
): LeveledTool[] {
  const approved = hintsOfCallers(pinsInMode(pins, upstream.toolChanges));
  const rules = levelRules(levels, upstream, usableTools(catalog, now), approved);
  const held = holdsIn(upstream, pins);
  return (catalog?.tools ?? []).map((tool) => ({
    ...tool,
    level: isLookalike(rules, tool.name) ? undefined : levelOfTool(rules, tool.name),
    isDeclared: rules.tools.has(tool.name),
    ...held(tool.name),
  }));
}

function holdsIn({ toolChanges: mode }: Upstream, stored: ToolPins) {
  const pins = pinsInMode(stored, mode);
  const byName = new Map(pins.tools);
  return (name: string): Pick<LeveledTool, 'held'> => {
    const reason = holdOf(pins, byName.get(name), { isNamed: () => true });
    if (reason === undefined) return {};
    // The catalog has it.
    return { held: reason === 'unknown' ? 'new' : reason };
  };
}

/** Decides about a tool as lists and calls do. */
export function verdictOn(
  levels: Levels,
  rights: Rights,
  { name, level, held }: LeveledTool,
): Verdict {
  if (level === undefined) return { decision: 'forbidden', by: 'name' };
  const verdict = decide(levels, rights, {
    level,
    items: [{ kind: 'tool', name, isListed: true, level }],
  });
  const isHeld = held !== undefined && verdict.decision !== 'forbidden';
  return isHeld ? { decision: 'forbidden', by: 'held' } : verdict;
}

/** Whether the caller can use the tool as it is, without another approval. */
export function isOpen(levels: Levels, rights: Rights, tool: LeveledTool): boolean {
  return verdictOn(levels, rights, tool).decision === 'allowed';
}

/** The rights of a caller with this level that nothing can raise. */
export function rightsAt(level: Level, selection: Selection): Rights {
  return { level, ceiling: level, minted: false, ...selection };
}

/**
 * Returns a function that returns the titles of the tools that a level opens: those that need the highest level first, then in the order of the
 * upstream. With `only`, of these.
 */
export function openedTools(
  levels: Levels,
  upstream: Upstream,
  known: KnownTools,
  {
    selection,
    now,
    only,
  }: { selection: Selection; now: number; only?: ReadonlySet<string> | undefined },
): (level: Level) => string[] {
  const all = toolsWithLevels(levels, upstream, known, now);
  const tools = only ? all.filter(({ name }) => only.has(name)) : all;
  return (level) => {
    const rights = rightsAt(level, selection);
    const open = tools.filter((tool) => isOpen(levels, rights, tool));
    const byLevel = Map.groupBy(open, (tool) => tool.level);
    return levelIds(levels)
      .toReversed()
      .flatMap((each) => (byLevel.get(each) ?? []).map(titleOf));
  };
}

const MAX_LENGTH = 120;

/** A name is as the upstream states it, of up to 512 characters, some of which may be invisible. */
function titleOf({ name, title }: CatalogTool): string {
  if (title !== undefined) return title;
  const line = name.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]/gu, '\uFFFD');
  return line.length > MAX_LENGTH ? `${line.slice(0, MAX_LENGTH)}…` : line;
}
