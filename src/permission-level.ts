// The ordered permission levels. Each is a scope of the same name (RFC 6749 section 3.3).

/** Lowest first. */
export const LEVELS = ['analytics', 'operations', 'admin', 'full'] as const;

export type Level = (typeof LEVELS)[number];

/** Calls with these levels are recorded in the audit log before the response. */
const RECORDED: readonly Level[] = ['full'];

export const OFFLINE_ACCESS = 'offline_access';

export function isLevel(value: unknown): value is Level {
  return LEVELS.includes(value as Level);
}

/** Whether a caller with the level `held` may do what requires `needed`. */
export function isAtLeast(held: Level, needed: Level): boolean {
  return LEVELS.indexOf(held) >= LEVELS.indexOf(needed);
}

export function isRecorded(level: Level): boolean {
  return RECORDED.includes(level);
}

/**
 * Returns the level of `offered` (lowest first) to preselect: the highest up to `suggested` that is not recorded, or the only one. Undefined if
 * the person must choose.
 */
export function preselectedLevel(offered: readonly Level[], suggested: Level): Level | undefined {
  const [only] = offered;
  if (offered.length === 1) return only;
  return offered.findLast((level) => isAtLeast(suggested, level) && !isRecorded(level));
}

/** Returns the lowest of the levels. */
export function lowest(first: Level, ...others: Level[]): Level {
  return others.reduce((low, level) => (isAtLeast(low, level) ? level : low), first);
}

/** Returns every level up to and including `level`, lowest first. */
export function levelsUpTo(level: Level): Level[] {
  return LEVELS.slice(0, LEVELS.indexOf(level) + 1);
}

/** Returns the highest level in a space-separated scope. Ignores other values. */
export function highestLevelIn(scope: string | undefined): Level | undefined {
  const named = scope?.split(' ') ?? [];
  return LEVELS.findLast((level) => named.includes(level));
}
