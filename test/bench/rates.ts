// Refreshes per second of every subject, in rounds that take turns, and what they are next to the bare engine in the same round.
import { openVisitor, type Family, type Visitor } from './families.ts';
import { forSeconds, type Load, refreshWhile } from './load.ts';
import type { Kind, Subject } from './subjects.ts';

export type Contestant = { subject: Subject; visitor: Visitor };

/** One measurement of one subject. */
export type Measurement = { kind: Kind; round: number; concurrency: number; load: Load };

export type RoundOptions = { rounds: number; seconds: number; concurrencies: number[] };

export async function openContestant(subject: Subject): Promise<Contestant> {
  return { subject, visitor: await openVisitor(subject) };
}

/** Each round begins with another subject and with new families, because the bare engine gets slower as a family gets older. */
export async function measureRounds(
  contestants: readonly Contestant[],
  { rounds, seconds, concurrencies }: RoundOptions,
  onMeasured: (measurement: Measurement) => void,
): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    const first = round % contestants.length;
    const order = [...contestants.slice(first), ...contestants.slice(0, first)];
    const families = new Map<Contestant, Family[]>();
    for (const contestant of order)
      families.set(contestant, await openFamilies(contestant, Math.max(...concurrencies)));
    for (const concurrency of concurrencies)
      for (const contestant of order) {
        const { subject, visitor } = contestant;
        const idle = families.get(contestant) ?? [];
        const load = await refreshWhile(visitor, idle, concurrency, forSeconds(seconds));
        onMeasured({ kind: subject.kind, round, concurrency, load });
      }
  }
}

export async function openFamilies({ visitor }: Contestant, count: number): Promise<Family[]> {
  const families: Family[] = [];
  while (families.length < count) families.push(await visitor.openFamily());
  return families;
}

/** Refreshes per second, by round. */
export function ratesOf(
  measurements: readonly Measurement[],
  kind: Kind,
  concurrency: number,
): number[] {
  return measurements
    .filter((measured) => measured.kind === kind && measured.concurrency === concurrency)
    .sort((a, b) => a.round - b.round)
    .map(({ load }) => load.refreshes / load.seconds);
}

/** By round: what the subject did next to the bare engine. */
export function ratiosOf(
  measurements: readonly Measurement[],
  kind: Kind,
  concurrency: number,
): number[] {
  const bare = ratesOf(measurements, 'bare', concurrency);
  return ratesOf(measurements, kind, concurrency).map((rate, round) => rate / (bare[round] ?? NaN));
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low = NaN, high = NaN] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return (low + high) / 2;
}
