// What `gatehouse doctor` shows: findings in words, or how many checks said that all is right.
import { type Finding, type Outcome, OUTCOMES } from './finding.ts';

export type Report = {
  outcome: 'ok' | 'found';
  authUrl?: string;
  resourceUrl?: string;
  counts: Record<Outcome, number>;
  findings: Finding[];
};

type Addresses = { authUrl?: string; resourceUrl?: string };

/** Notes and what could not be looked at are nothing to repair. */
export function reportOf(addresses: Addresses, findings: Finding[]): Report {
  const count = (outcome: Outcome) =>
    findings.filter((finding) => finding.outcome === outcome).length;
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, count(outcome)])) as Record<
    Outcome,
    number
  >;
  const outcome = counts.problem + counts.warning > 0 ? 'found' : 'ok';
  return { outcome, ...addresses, counts, findings };
}

export function reportText({ counts, findings }: Report, everything: boolean): string {
  const shown = findings.filter(({ outcome }) => everything || outcome !== 'ok');
  return [...shown.map(findingText), summary(counts)].join('\n\n');
}

const TITLES: Record<Outcome, string> = {
  ok: 'OK',
  unknown: 'NOT LOOKED AT',
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
  return lines.map(plain).join('\n');
}

/** What others said may stand in it: nothing of that may move the cursor or look like a line of ours. */
function plain(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ');
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function summary({ ok, unknown, note, warning, problem }: Report['counts']): string {
  const right = `${ok} of ${ok + unknown + note + warning + problem} checks are all right`;
  const others: [number, string][] = [
    [problem, 'problem'],
    [warning, 'warning'],
    [note, 'note'],
  ];
  const parts = others
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${count} ${word}${count === 1 ? '' : 's'}`);
  const left = unknown > 0 ? [`${unknown} not looked at`] : [];
  return `${[right, ...parts, ...left].join(', ')}.`;
}
