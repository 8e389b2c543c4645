// What a check says: all right, or in plain words what is wrong, why it matters and what to do.

/** `unknown` could not be looked at; `note` is as it may be, but should be known; `warning` will hurt, `problem` hurts now. */
export const OUTCOMES = ['ok', 'unknown', 'note', 'warning', 'problem'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type Finding = {
  /** The check that found it, such as `certificate`. */
  check: string;
  /** What was looked at: an address, or the name of a setting. */
  about: string;
  outcome: Outcome;
  what: string;
  why?: string;
  remedy?: string;
};

/** In sentences without an end. */
export type Trouble = { what: string; why: string; remedy: string };

/** Of one check and one thing that it looks at. */
export type Words = ReturnType<typeof wordsOf>;

export function wordsOf(check: string, about: string) {
  const say = (outcome: Outcome) => (trouble: Trouble) => ({ check, about, outcome, ...trouble });
  return {
    ok: (what: string): Finding => ({ check, about, outcome: 'ok', what }),
    unknown: (what: string): Finding => ({ check, about, outcome: 'unknown', what }),
    note: say('note') as (trouble: Trouble) => Finding,
    warning: say('warning') as (trouble: Trouble) => Finding,
    problem: say('problem') as (trouble: Trouble) => Finding,
  };
}

/** All right, unless there is something to say. */
export function orOk(findings: Finding[], ok: Finding): Finding[] {
  return findings.length > 0 ? findings : [ok];
}
