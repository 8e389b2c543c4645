// Measures two subjects in short alternating turns, so that other load on the machine slows both equally.
import { median } from './timing.ts';

/** Rates per second of both subjects in one round. */
export type Rates = { ours: number; bare: number }[];

/** The first turns are the warm-up; the order changes from round to round. */
export async function alternate(
  rounds: number,
  ours: () => Promise<number>,
  bare: () => Promise<number>,
): Promise<Rates> {
  await ours();
  await bare();
  const rates: Rates = [];
  for (let round = 0; round < rounds; round += 1) {
    const isFirst = round % 2 === 0;
    const early = isFirst ? await ours() : undefined;
    const other = await bare();
    rates.push({ ours: early ?? (await ours()), bare: other });
  }
  return rates;
}

/** The median of the ratios of each round. */
export function ratioOf(rates: Rates): number {
  return median(rates.map(({ ours, bare }) => ours / bare));
}

/** `what` names the comparison. */
export function ratioLine(what: string, rates: Rates): string {
  const [ours, bare] = [rates.map((rate) => rate.ours), rates.map((rate) => rate.bare)].map(median);
  return `  ${what}: ${ratioOf(rates).toFixed(2)} (${ours?.toFixed(0)} and ${bare?.toFixed(0)})`;
}
