// Refreshes per second of every subject in alternating turns, and the ratio to the bare engine in the same round.
import { openClient, type Family, type BenchClient } from './client.ts';
import { forSeconds, type Load, refreshWhile } from './load.ts';
import type { Kind, Subject } from './subjects.ts';

export type RunningSubject = { subject: Subject; client: BenchClient };

/** One measurement of one subject. */
export type Measurement = { kind: Kind; round: number; concurrency: number; load: Load };

export type RoundOptions = { rounds: number; seconds: number; concurrencies: number[] };

type Listener = { onRound(round: number): void; onMeasured(measurement: Measurement): void };

const TURN_SECONDS = 0.2;
const NO_LOAD: Load = { refreshes: 0, seconds: 0, failures: [] };

export async function openSubject(subject: Subject): Promise<RunningSubject> {
  return { subject, client: await openClient(subject) };
}

/** Each round starts with another subject and with new families, because the bare engine gets slower as a family gets older. */
export async function measureRounds(
  subjects: readonly RunningSubject[],
  { rounds, seconds, concurrencies }: RoundOptions,
  { onRound, onMeasured }: Listener,
): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    onRound(round);
    const first = round % subjects.length;
    const order = [...subjects.slice(first), ...subjects.slice(0, first)];
    const runners: Runner[] = [];
    for (const { subject, client } of order) {
      const families = await openFamilies(client, Math.max(...concurrencies));
      runners.push({ kind: subject.kind, client, families });
    }
    for (const concurrency of concurrencies)
      for (const [kind, load] of await race(runners, concurrency, seconds))
        onMeasured({ kind, round, concurrency, load });
  }
}

type Runner = { kind: Kind; client: BenchClient; families: Family[] };

/** In short turns, so that other load on the machine slows all equally. */
async function race(
  runners: readonly Runner[],
  concurrency: number,
  seconds: number,
): Promise<Map<Kind, Load>> {
  const loads = new Map<Kind, Load>();
  for (let turn = 0; turn < seconds / TURN_SECONDS; turn += 1)
    for (const { kind, client, families } of runners) {
      const load = await refreshWhile(client, families, concurrency, forSeconds(TURN_SECONDS));
      loads.set(kind, sum(loads.get(kind) ?? NO_LOAD, load));
    }
  return loads;
}

function sum(first: Load, second: Load): Load {
  return {
    refreshes: first.refreshes + second.refreshes,
    seconds: first.seconds + second.seconds,
    failures: [...first.failures, ...second.failures],
  };
}

export async function openFamilies(client: BenchClient, count: number): Promise<Family[]> {
  const families: Family[] = [];
  while (families.length < count) families.push(await client.openFamily());
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

/** The ratio to the bare engine, by round. */
export function ratiosOf(
  measurements: readonly Measurement[],
  kind: Kind,
  concurrency: number,
): number[] {
  const bare = ratesOf(measurements, 'bare', concurrency);
  return ratesOf(measurements, kind, concurrency).map((rate, round) => rate / (bare[round] ?? NaN));
}
