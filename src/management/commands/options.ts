// Options that several commands have.
import * as z from 'zod';
import { duration } from '../../settings/value-types.ts';
import type { CommandOption } from '../resources/resource.ts';

/** What commander calls an invalid argument. The server has these functions too, and should not load all of commander. */
export class InvalidOptionValue extends Error {
  readonly code = 'commander.invalidArgument';
  readonly exitCode = 1;
}

/** A `duration` as typed, with its length in `seconds`, or a `time` in ISO 8601 (UTC). */
export type RelativeOrAbsoluteTime = { duration: string; seconds: number } | { time: string };

const isoTime = z.union([z.iso.datetime({ offset: true }), z.iso.date()]);

export function parseTime(text: string): RelativeOrAbsoluteTime {
  const seconds = duration.safeParse(text);
  if (seconds.success) return { duration: text, seconds: seconds.data };
  if (isoTime.safeParse(text).success) return { time: new Date(text).toISOString() };
  throw new InvalidOptionValue(
    'Use a duration such as 90s, 15m, 12h or 30d, or a time such as 2030-01-31T12:00:00Z.',
  );
}

/** Returns ISO 8601. A duration counts back from `now`, in seconds since the epoch. */
export function absoluteTime(time: RelativeOrAbsoluteTime, now: number): string {
  return 'time' in time ? time.time : new Date((now - time.seconds) * 1000).toISOString();
}

export function parseCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidOptionValue('Use a whole number of 1 or more.');
}

/** `lengths` are examples of durations. */
export function expiresOption(lengths: string, note?: string): CommandOption {
  return {
    flags: '--expires <when>',
    help: `expires after ${lengths}, or at an ISO 8601 time${note ? ` (${note})` : ''}`,
    parse: parseTime,
    members: (expires: RelativeOrAbsoluteTime) =>
      'time' in expires ? { expiresAt: expires.time } : { expiresIn: expires.duration },
  };
}

/** As `expiresOption`. The word `never` removes the expiry. */
export function changedExpiresOption(lengths: string): CommandOption {
  return { ...expiresOption(lengths, 'or never'), member: 'expiresAt', removal: 'never' };
}

const PATTERNS =
  "name of a tool, resource:<uri> or prompt:<name>, where * stands for any characters; '!' before one takes it out; repeatable";

export function toolsOption(what: string): CommandOption {
  return {
    flags: '--tools <pattern>',
    help: `${what}: ${PATTERNS} (default: everything of the level)`,
    parse: (pattern: string, earlier: string[] = []) => [...earlier, pattern],
  };
}

/** As `toolsOption`. The word `everything` removes the list. */
export function changedToolsOption(what: string): CommandOption {
  return { ...toolsOption(`${what}, in place of those before`), removal: 'everything' };
}

/** The option of the limit on calls. */
export const CALLS_OPTION: CommandOption = {
  flags: '--calls <rate>',
  help: 'limit on all its calls together, such as 60/1m or 1000/1d (default: none)',
};

/** As `CALLS_OPTION`. The word `unlimited` removes the limit. */
export const CHANGED_CALLS_OPTION: CommandOption = {
  flags: '--calls <rate>',
  help: 'limit on all its calls together, such as 60/1m or 1000/1d, or unlimited',
  removal: 'unlimited',
};

export const DRY_RUN: CommandOption = {
  flags: '--dry-run',
  help: 'change nothing, and show which connections would stop or have a lower level',
  members: () => ({ dryRun: 'true' }),
};

/** The option of lists: words that must all be in one of the `fields`. */
export function searchOption(fields: string): CommandOption {
  return {
    flags: '--search <words>',
    help: `only items with all of these words in ${fields}`,
    member: 'q',
  };
}
