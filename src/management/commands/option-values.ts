import { InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { AUDIENCE_FORMS, parseAudienceRule } from '../../connectors/audience.ts';
import type { AudienceRule } from '../../settings/entitlements.ts';
import { duration } from '../../settings/value-types.ts';

/** A `duration` as typed, with its length in `seconds`, or a `time` in ISO 8601 (UTC). */
export type RelativeOrAbsoluteTime = { duration: string; seconds: number } | { time: string };

const isoTime = z.union([z.iso.datetime({ offset: true }), z.iso.date()]);

export function parseTime(text: string): RelativeOrAbsoluteTime {
  const seconds = duration.safeParse(text);
  if (seconds.success) return { duration: text, seconds: seconds.data };
  if (isoTime.safeParse(text).success) return { time: new Date(text).toISOString() };
  throw new InvalidArgumentError(
    'Use a duration such as 90s, 15m, 12h or 30d, or a time such as 2030-01-31T12:00:00Z.',
  );
}

/** Returns the expiry as members of a request body. */
export function expiryMembers(expires: RelativeOrAbsoluteTime | undefined): {
  expiresIn?: string;
  expiresAt?: string;
} {
  if (!expires) return {};
  return 'time' in expires ? { expiresAt: expires.time } : { expiresIn: expires.duration };
}

export function parseCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Use a whole number of 1 or more.');
}

/** Adds the rule to those of earlier options with the same name. */
export function parseAudience(text: string, earlier: AudienceRule[] = []): AudienceRule[] {
  const rule = parseAudienceRule(text);
  if (rule) return [...earlier, rule];
  throw new InvalidArgumentError(`Use ${AUDIENCE_FORMS}.`);
}

export type SearchOptions = { search?: string };

/** An option of lists: words that must all be in one of the `fields`. */
export const SEARCH_FLAG = '--search <words>';
export function searchHelp(fields: string): string {
  return `only items with all of these words in ${fields}`;
}
