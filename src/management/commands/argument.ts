// Values as people type them: a count, and a moment as a distance from now (30d) or a time in ISO 8601.
import { InvalidArgumentError } from 'commander';
import { z } from 'zod';
import { duration } from '../../settings/value-forms.ts';
import type { WantedExpiry } from '../api/client.ts';

/** `distance` as typed, with its length in `seconds`; or `time`, ISO 8601 in UTC. */
export type Moment = { distance: string; seconds: number } | { time: string };

const isoTime = z.union([z.iso.datetime({ offset: true }), z.iso.date()]);

export function parseMoment(text: string): Moment {
  const seconds = duration.safeParse(text);
  if (seconds.success) return { distance: text, seconds: seconds.data };
  if (isoTime.safeParse(text).success) return { time: new Date(text).toISOString() };
  throw new InvalidArgumentError(
    'Give a duration such as 90s, 15m, 12h or 30d, or a time such as 2030-01-31T12:00:00Z.',
  );
}

/** As the management API takes it. */
export function expiryOf(expires: Moment | undefined): WantedExpiry {
  if (!expires) return {};
  return 'time' in expires ? { expiresAt: expires.time } : { expiresIn: expires.distance };
}

export function parseCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('Give a whole number, 1 or more.');
}
