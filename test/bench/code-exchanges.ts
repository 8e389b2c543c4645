// Code exchanges per second (RFC 6749 section 4.1.3) compared with the engine on Redis. Each code is from a new client and went through the pages.
import { type Code, openClient } from './client.ts';
import { type Place, startEngineOnRedis, startGatehouse, type Subject } from './subjects.ts';
import { type Rates, ratioLine, ratioOf, alternate } from './alternate.ts';
import type { Part } from './part.ts';
import { atLeast, type Report } from './targets.ts';

type Effort = { rounds: number; codes: number; people: number };

const FULL: Effort = { rounds: 6, codes: 48, people: 8 };
const QUICK: Effort = { rounds: 1, codes: 4, people: 2 };
const CONCURRENCY = 16;
const MIN_EXCHANGES_RATIO = 1;
const MIN_WHOLE_RATIO = 0.7;

const PHASE = 'code exchanges and whole connections';

export const exchanges: Part = {
  phases: ({ quick }) => [[PHASE, quick ? 2 : 15]],
  measure(place, begin) {
    begin(PHASE);
    return measureExchanges(place);
  },
};

async function measureExchanges(place: Place): Promise<Report> {
  const gatehouse = await startGatehouse('redis', place);
  const bare = await startEngineOnRedis(place);
  const whole: Record<'ours' | 'bare', number[]> = { ours: [], bare: [] };
  const effort = place.quick ? QUICK : FULL;
  try {
    const rates = await alternate(
      effort.rounds,
      () => exchangesPerSecond(gatehouse, effort, whole.ours),
      () => exchangesPerSecond(bare, effort, whole.bare),
    );
    return describe(rates, effort, whole);
  } finally {
    await Promise.all([gatehouse.stop(), bare.stop()]);
  }
}

function describe(
  rates: Rates,
  { rounds, codes }: Effort,
  { ours, bare }: Record<'ours' | 'bare', readonly number[]>,
): Report {
  // The first turn of each is the warm-up.
  const whole = ours.slice(1).map((rate, n) => ({ ours: rate, bare: bare[n + 1] ?? NaN }));
  return {
    text: [
      `Code exchanges of Gatehouse on Redis at ${CONCURRENCY} connections, ${codes} codes at a time (medians of ${rounds} rounds)`,
      ratioLine('exchanges per second compared with the engine on Redis', rates),
      ratioLine(
        'whole connections per second, from registration through sign-in and consent to tokens, compared with the engine on Redis',
        whole,
      ),
    ].join('\n'),
    targets: [
      atLeast('code exchanges ÷ engine', MIN_EXCHANGES_RATIO, ratioOf(rates)),
      atLeast(
        'whole connections, from registration to tokens ÷ engine',
        MIN_WHOLE_RATIO,
        ratioOf(whole),
      ),
    ],
  };
}

/** Adds the rate of complete flows to `whole`. */
async function exchangesPerSecond(
  subject: Subject,
  effort: Effort,
  whole: number[],
): Promise<number> {
  const begun = performance.now();
  const codes = await obtainCodes(subject, effort);
  const obtained = performance.now();
  await each(codes, CONCURRENCY, (code) => code.exchange());
  const ended = performance.now();
  whole.push((effort.codes * 1000) / (ended - begun));
  return (effort.codes * 1000) / (ended - obtained);
}

/** People connect in parallel, each with their own browser and a new client for every code. */
async function obtainCodes(subject: Subject, effort: Effort): Promise<Code[]> {
  const codes: Code[] = [];
  await each([...Array(effort.codes).keys()], effort.people, async () => {
    codes.push(await (await openClient(subject)).openCode());
  });
  return codes;
}

async function each<Item>(
  items: readonly Item[],
  concurrency: number,
  act: (item: Item) => Promise<unknown>,
): Promise<void> {
  const left = [...items];
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await act(item);
  };
  await Promise.all(Array.from({ length: concurrency }, work));
}
