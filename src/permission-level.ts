// The ordered permission levels of the service: compare, cap, read from a scope, write to a scope (RFC 6749 section 3.3).

/** From the lowest to the highest. Each is a scope of the same name. */
export const LEVELS = ['analytics', 'operations', 'admin', 'full'] as const;

export type Level = (typeof LEVELS)[number];

/** Calls made with these are recorded before they are answered. */
const RECORDED: readonly Level[] = ['full'];

export const OFFLINE_ACCESS = 'offline_access';

export function isLevel(value: unknown): value is Level {
  return LEVELS.includes(value as Level);
}

/** True when a caller that holds `held` may do what needs `needed`. */
export function isAtLeast(held: Level, needed: Level): boolean {
  return LEVELS.indexOf(held) >= LEVELS.indexOf(needed);
}

export function isRecorded(level: Level): boolean {
  return RECORDED.includes(level);
}

/**
 * The level of `offered` (lowest first) to preselect: the highest up to `suggested` that is not recorded, or the only one. Undefined when
 * the person has to choose.
 */
export function preselectedLevel(offered: readonly Level[], suggested: Level): Level | undefined {
  const [only] = offered;
  if (offered.length === 1) return only;
  return offered.findLast((level) => isAtLeast(suggested, level) && !isRecorded(level));
}

/** The lowest of the levels given: what is left after every cap. */
export function lowest(first: Level, ...others: Level[]): Level {
  return others.reduce((low, level) => (isAtLeast(low, level) ? level : low), first);
}

/** Every level up to and including `level`, lowest first. */
export function levelsUpTo(level: Level): Level[] {
  return LEVELS.slice(0, LEVELS.indexOf(level) + 1);
}

/** The highest level named in a space-separated scope; unknown values are ignored. */
export function highestLevelIn(scope: string | undefined): Level | undefined {
  const named = scope?.split(' ') ?? [];
  return LEVELS.findLast((level) => named.includes(level));
}
