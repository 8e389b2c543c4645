// What was used of the limits on calls.
import * as z from 'zod';
import type { UsedLimit } from '../../connections/call-limits.ts';
import { callLimitKinds } from '../../observability/labels.ts';
import { writeRate } from '../../settings/limits.ts';
import { minute, plain } from '../commands/terminal.ts';
import { isoTime } from '../represent.ts';
import * as schemas from './schemas.ts';

export const callLimits = z
  .array(
    z
      .strictObject({
        limit: z.enum(callLimitKinds).describe('Whose calls count.'),
        of: z.string().optional().describe('The level or the tool.'),
        calls: z.string().describe('The limit, such as `60/1m`.'),
        used: z.int(),
        resetsAt: schemas.time
          .optional()
          .describe('When the window ends. Absent if none has begun.'),
      })
      .meta({ id: 'CallLimit' }),
  )
  .describe('The limits on calls that apply, and what was used of each.');

export type CallLimits = z.output<typeof callLimits>;

/** Leaves out unused limits of tools and levels. `now` in seconds. */
export function representLimits(limits: readonly UsedLimit[], now: number): CallLimits {
  return limits
    .filter(({ of, used }) => of === undefined || used > 0)
    .map(({ kind, of, window, used, secondsLeft }) => ({
      limit: kind,
      ...(of === undefined ? {} : { of }),
      calls: writeRate(window),
      used,
      ...(secondsLeft === undefined ? {} : { resetsAt: isoTime(Math.floor(now + secondsLeft)) }),
    }));
}

/** One line for each limit. */
export function limitLines(limits: CallLimits): string[] {
  return limits.map(({ limit, of, calls, used, resetsAt }) => {
    const [count] = calls.split('/');
    const name = of === undefined ? limit : `${limit} ${plain(of)}`;
    const until = resetsAt === undefined ? '' : `, until ${minute(resetsAt)}`;
    return `${name}: ${used} of ${count} used (${calls})${until}`;
  });
}
