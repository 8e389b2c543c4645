// The levels whose access tokens must be bound to a key (RFC 9449), by the setting `authorization.requireDpop`.
import { isAtLeast, type Level, levelBelow } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';

export type DpopSettings = Pick<Settings, 'levels'> & {
  authorization: Pick<Settings['authorization'], 'requireDpop'>;
};

/** Whether an access token of the level must be bound to a key. Minted tokens are exempt. */
export function requiresDpop(
  { levels, authorization: { requireDpop } }: DpopSettings,
  level: Level,
): boolean {
  return requireDpop !== undefined && isAtLeast(levels, level, requireDpop);
}

/** Returns the highest level up to `level` whose tokens need no key. Undefined if all of them need one. */
export function levelWithoutDpop(settings: DpopSettings, level: Level): Level | undefined {
  const { requireDpop } = settings.authorization;
  if (requireDpop === undefined || !requiresDpop(settings, level)) return level;
  return levelBelow(settings.levels, requireDpop);
}
