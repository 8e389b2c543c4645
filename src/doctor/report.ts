/** `unknown`: could not be checked. `note`: may be intended. `warning`: may cause failures later. `problem`: causes failures now. */
export const OUTCOMES = ['ok', 'unknown', 'note', 'warning', 'problem'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type Finding = {
  /** The check that reports it, such as `certificate`. */
  check: string;
  /** What was checked: an address or the name of a setting. */
  about: string;
  outcome: Outcome;
  what: string;
  why?: string;
  remedy?: string;
};

/** Clauses without a capital letter at the start and without a full stop. */
export type Explanation = { what: string; why: string; remedy: string };

/** Creates findings of one check about one subject. */
export type FindingFactory = ReturnType<typeof findingAbout>;

export function findingAbout(check: string, about: string) {
  const explained =
    (outcome: Outcome) =>
    (explanation: Explanation): Finding => ({ check, about, outcome, ...explanation });
  return {
    ok: (what: string): Finding => ({ check, about, outcome: 'ok', what }),
    unknown: (what: string): Finding => ({ check, about, outcome: 'unknown', what }),
    note: explained('note'),
    warning: explained('warning'),
    problem: explained('problem'),
  };
}

const SHOWN = 5;

/** Lists the first few items, and the number of the others. */
export function someOf(items: readonly string[]): string {
  const more = items.length - SHOWN;
  return items.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

export function okIfNone(findings: Finding[], ok: Finding): Finding[] {
  return findings.length > 0 ? findings : [ok];
}

export type Report = {
  outcome: 'ok' | 'found';
  authUrl?: string;
  resourceUrl?: string;
  counts: Record<Outcome, number>;
  findings: Finding[];
};

type Addresses = { authUrl?: string; resourceUrl?: string };

/** The outcome is `found` if there is a problem or a warning. */
export function createReport(addresses: Addresses, findings: Finding[]): Report {
  const count = (outcome: Outcome) =>
    findings.filter((finding) => finding.outcome === outcome).length;
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, count(outcome)])) as Record<
    Outcome,
    number
  >;
  const outcome = counts.problem + counts.warning > 0 ? 'found' : 'ok';
  return { outcome, ...addresses, counts, findings };
}

/** Leaves out passed checks unless `showPassed` is true. */
export function reportText({ counts, findings }: Report, showPassed: boolean): string {
  const shown = findings.filter(({ outcome }) => showPassed || outcome !== 'ok');
  return [...shown.map(findingText), summary(counts)].join('\n\n');
}

const TITLES: Record<Outcome, string> = {
  ok: 'OK',
  unknown: 'NOT CHECKED',
  note: 'NOTE',
  warning: 'WARNING',
  problem: 'PROBLEM',
};

function findingText({ check, about, outcome, what, why, remedy }: Finding): string {
  const lines = [
    `${TITLES[outcome]}  ${check}, ${about}`,
    `  ${sentence(what)}`,
    ...(why === undefined ? [] : [`  Why it matters: ${why}.`]),
    ...(remedy === undefined ? [] : [`  What to do: ${remedy}.`]),
  ];
  return lines.map(printable).join('\n');
}

/** Findings quote other servers, whose text must not move the cursor or start a new line. */
function printable(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ');
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function summary({ ok, unknown, note, warning, problem }: Report['counts']): string {
  const passed = `${ok} of ${ok + unknown + note + warning + problem} checks passed`;
  const others: [number, string][] = [
    [problem, 'problem'],
    [warning, 'warning'],
    [note, 'note'],
  ];
  const parts = others
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}${count === 1 ? '' : 's'}`);
  const skipped = unknown > 0 ? [`${unknown} not checked`] : [];
  return `${[passed, ...parts, ...skipped].join(', ')}.`;
}
