// Clocks: this machine's beside those that make and judge times of tokens.
import type { Answer } from './ask.ts';
import { type Finding, wordsOf } from './finding.ts';

const MENTIONED_MS = 10_000;
const HARMFUL_MS = 30_000;

/** By the Date of an answer (RFC 9110 section 6.6.1), which has whole seconds. */
export function dateFinding(about: string, answer: Answer): Finding {
  const date = Date.parse(answer.header('date') ?? '');
  if (Number.isNaN(date)) return wordsOf('clock', about).unknown('the answer has no Date');
  return clockFinding(about, date + 500, answer);
}

/** `theirs` was read between `asked` and `answered`; all in milliseconds since the epoch. */
export function clockFinding(
  about: string,
  theirs: number,
  { asked, answered }: Pick<Answer, 'asked' | 'answered'>,
): Finding {
  const words = wordsOf('clock', about);
  const shift = theirs < asked ? theirs - asked : Math.max(0, theirs - answered);
  if (Math.abs(shift) < MENTIONED_MS) return words.ok('its clock and the one here agree');
  const seconds = Math.round(Math.abs(shift) / 1000);
  const trouble = {
    what: `its clock is ${seconds} s ${shift < 0 ? 'behind' : 'ahead of'} the one here`,
    why: 'tokens and sign-ins are refused as expired or not yet valid, and lifetimes are wrong',
    remedy: 'have both machines set their clocks by NTP (timedatectl, chronyc tracking)',
  };
  return Math.abs(shift) < HARMFUL_MS ? words.warning(trouble) : words.problem(trouble);
}
