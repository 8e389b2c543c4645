// Targets of the benchmarks: the table at the end says which are met.
import { textTable } from './text.ts';
import { median } from './timing.ts';

export type Target = { what: string; value: number; limit: Limit };

type Limit = { least: number; unit: string } | { most: number; unit: string };

/** What one part of a benchmark prints, and its targets. */
export type Report = { text: string; targets: readonly Target[] };

/** Decimals in the table. A value is rounded towards the miss, so that it never looks met if it is not. */
const DECIMALS: Record<string, number> = { '': 2, s: 2, ms: 2, kB: 1 };

/** Absorbs errors of binary fractions. */
const EPSILON = 1e-9;

export function atLeast(what: string, least: number, value: number): Target {
  return { what, value, limit: { least, unit: '' } };
}

export function atMost(what: string, most: number, unit: string, value: number): Target {
  return { what, value, limit: { most, unit } };
}

/** A value that is not a number misses its target. */
export function isMet({ value, limit }: Target): boolean {
  return 'least' in limit ? value >= limit.least : value <= limit.most;
}

/** One table of all targets. With several runs it has a column for each, and the median decides. */
export function describeTargets(runs: readonly (readonly Target[])[], table = textTable): string {
  const [first = []] = runs;
  const judged = first.map((target) => {
    const values = runs.map((run) => run.find(({ what }) => what === target.what)?.value ?? NaN);
    return { ...target, values, value: median(values) };
  });
  const rows = judged.map(({ values, ...target }) => [
    target.what,
    describeLimit(target),
    ...(runs.length > 1 ? values.map((value) => rounded({ ...target, value })) : []),
    rounded(target),
    isMet(target) ? 'met' : 'MISSED',
  ]);
  const columns =
    runs.length > 1 ? [...runs.map((_, n) => `run ${n + 1}`), 'median'] : ['measured'];
  return table(['target', 'limit', ...columns, 'result'], rows);
}

function describeLimit({ limit }: Target): string {
  return 'least' in limit
    ? `at least ${limit.least}`
    : `at most ${limit.most}${limit.unit && ` ${limit.unit}`}`;
}

function rounded({ value, limit }: Target): string {
  const decimals = DECIMALS[limit.unit] ?? 0;
  const scale = 10 ** decimals;
  const scaled = value * scale;
  const whole = 'least' in limit ? Math.floor(scaled + EPSILON) : Math.ceil(scaled - EPSILON);
  return (whole / scale).toFixed(decimals);
}
