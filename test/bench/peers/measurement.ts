// Measures throughput and latency of one implementation at a time, in turns.
import { median } from '../timing.ts';

/** One implementation in one round. `latencies` in milliseconds. */
export type Sample = { rate: number; latencies: number[] };

/** By flow and implementation, one sample a round. */
export type Samples = Map<string, Map<string, Sample[]>>;

export function addSample(samples: Samples, flow: string, id: string, sample: Sample): void {
  const ofFlow = samples.get(flow) ?? new Map<string, Sample[]>();
  samples.set(flow, ofFlow.set(id, [...(ofFlow.get(id) ?? []), sample]));
}

/** Processes each of `items` once, with limited concurrency. */
export async function loadOf<Item>(
  items: readonly Item[],
  concurrency: number,
  act: (item: Item) => Promise<unknown>,
): Promise<Sample> {
  const left = [...items];
  return load(concurrency, () => left.shift(), act);
}

/** Processes items while `mayStart()`: takes each from the front of `idle` and returns it to the end. */
export async function loadWhile<Item>(
  mayStart: () => boolean,
  concurrency: number,
  idle: Item[],
  act: (item: Item) => Promise<unknown>,
): Promise<Sample> {
  const next = () => (mayStart() ? idle.shift() : undefined);
  return load(concurrency, next, async (item) => {
    await act(item);
    idle.push(item);
  });
}

async function load<Item>(
  concurrency: number,
  next: () => Item | undefined,
  act: (item: Item) => Promise<unknown>,
): Promise<Sample> {
  const latencies: number[] = [];
  const begun = performance.now();
  const connection = async () => {
    for (let item = next(); item !== undefined; item = next()) {
      const sent = performance.now();
      await act(item);
      latencies.push(performance.now() - sent);
    }
  };
  await Promise.all(Array.from({ length: concurrency }, connection));
  return { rate: (latencies.length * 1000) / (performance.now() - begun), latencies };
}

/** `share` from 0 to 1. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? NaN;
}

/** `rate` is the median of the rounds; `middle` and `slow` are percentiles of all requests in milliseconds. */
export type Figures = { rate: number; middle: number; slow: number };

export function figuresOf(samples: readonly Sample[]): Figures {
  const latencies = samples.flatMap((sample) => sample.latencies);
  return {
    rate: median(samples.map(({ rate }) => rate)),
    middle: quantile(latencies, 0.5),
    slow: quantile(latencies, 0.99),
  };
}

/** The median ratio to `reference` in the same round. */
export function ratioOf(own: readonly Sample[], reference: readonly Sample[]): number {
  return median(own.map(({ rate }, round) => rate / (reference[round]?.rate ?? NaN)));
}
