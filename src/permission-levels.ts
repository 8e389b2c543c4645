// The ordered permission levels of the settings. The id of each is a scope (RFC 6749 section 3.3).
/** The id of a level. A stored one may no longer be in the settings: it then gives no access. */
export type Level = string;

/** One text, or one for each language. */
export type LocalizedText = string | Readonly<Record<string, string>>;

export type LevelDefinition = {
  id: Level;
  title?: LocalizedText | undefined;
  sees?: LocalizedText | undefined;
  hidden?: LocalizedText | undefined;
  example?: LocalizedText | undefined;
  /** Calls with the level are recorded in the audit log before the response. */
  recorded: boolean;
  /** What the audit log has of the arguments of calls. Default: `full` if the level is recorded. */
  arguments?: 'none' | 'full' | undefined;
  /** Limit on the calls of each connection with the level. */
  calls?: Readonly<{ count: number; seconds: number }> | undefined;
};

/** Lowest first, at least one. */
export type Levels = readonly LevelDefinition[];

export const OFFLINE_ACCESS = 'offline_access';

/** The levels of the sample, and of settings without `levels`. */
export const DEFAULT_LEVELS = [
  { id: 'analytics', recorded: false },
  { id: 'operations', recorded: false },
  { id: 'admin', recorded: false },
  { id: 'full', recorded: true },
] as const satisfies Levels;

export function levelIds(levels: Levels): Level[] {
  return levels.map(({ id }) => id);
}

export function isLevel(levels: Levels, value: unknown): value is Level {
  return levels.some(({ id }) => id === value);
}

/** -1 for a level that is not in the settings. */
function rankOf(levels: Levels, level: Level): number {
  return levels.findIndex(({ id }) => id === level);
}

/** Whether a caller with the level `held` may do what requires `needed`. False if one of them is not in the settings. */
export function isAtLeast(levels: Levels, held: Level, needed: Level): boolean {
  const needs = rankOf(levels, needed);
  return needs >= 0 && rankOf(levels, held) >= needs;
}

export function isRecorded(levels: Levels, level: Level): boolean {
  return levels.some(({ id, recorded }) => id === level && recorded);
}

/** Whether the audit log has the arguments of calls with the level. */
export function recordsArguments(levels: Levels, level: Level): boolean {
  const found = levels.find(({ id }) => id === level);
  if (!found) return false;
  return (found.arguments ?? (found.recorded ? 'full' : 'none')) === 'full';
}

/**
 * Returns the level of `offered` (lowest first) to preselect: the highest up to `suggested` that is not recorded, or the only one. Undefined if
 * the person must choose.
 */
export function preselectedLevel(
  levels: Levels,
  offered: readonly Level[],
  suggested: Level,
): Level | undefined {
  const [only] = offered;
  if (offered.length === 1) return only;
  return offered.findLast(
    (level) => isAtLeast(levels, suggested, level) && !isRecorded(levels, level),
  );
}

/** Returns the lowest of the levels: one that is not in the settings, if there is one. */
export function lowest(levels: Levels, first: Level, ...others: Level[]): Level {
  return others.reduce(
    (low, level) => (rankOf(levels, level) < rankOf(levels, low) ? level : low),
    first,
  );
}

export function lowestLevel(levels: Levels): Level {
  return required(levels.at(0)).id;
}

export function highestLevel(levels: Levels): Level {
  return required(levels.at(-1)).id;
}

function required(level: LevelDefinition | undefined): LevelDefinition {
  if (level) return level;
  throw new Error('there is no permission level');
}

/** Returns the highest level below `level`. Undefined for the lowest one, and for a level that is not in the settings. */
export function levelBelow(levels: Levels, level: Level): Level | undefined {
  return levelsUpTo(levels, level).at(-2);
}

/** Returns every level up to and including `level`, lowest first; none if it is not in the settings. */
export function levelsUpTo(levels: Levels, level: Level): Level[] {
  return levelIds(levels.slice(0, rankOf(levels, level) + 1));
}

/** Returns the highest level in a space-separated scope. Ignores other values. */
export function highestLevelIn(levels: Levels, scope: string | undefined): Level | undefined {
  const named = scope?.split(' ') ?? [];
  return levels.findLast(({ id }) => named.includes(id))?.id;
}

/** Returns the level of a stored scope, which lists its levels lowest first. It may no longer be in the settings. */
export function levelOfScope(scope: string | undefined): Level | undefined {
  return scope?.split(' ').findLast((value) => value !== '' && value !== OFFLINE_ACCESS);
}
