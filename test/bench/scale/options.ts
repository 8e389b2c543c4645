// The flags of `npm run bench:scale`.
import { readFlags, wholeNumber, WRITE } from '../command.ts';

/** The amount of work at each size. */
export type Effort = {
  /** People of the small system, with which the large one is compared. */
  small: number;
  requests: number;
  lists: number;
  rounds: number;
  turnSeconds: number;
  /** For the CPU time of each kind of request. */
  cpuSeconds: number;
  /** The number of connectors and recorded calls whose memory is measured. */
  samples: number;
};

export type Options = {
  effort: Effort;
  /** Updates config/scale.md. */
  write: boolean;
  /** The numbers of connected people, in ascending order. */
  sizes: number[];
};

const HELP = `npm run bench:scale -- [flags]

  --people 100000  how many people are connected in the end; measured at a tenth, a half and all of them
  --quick          50 people and one short round: shows that all of it runs; the numbers mean little
  --write          puts the result into config/scale.md as well

Takes some two minutes on two idle cores and at most five: what is not written by then is left out, and the result says so.
Needs redis-server and 1 GB of memory for the default. How it measures: test/bench/README.md.
`;

const FULL: Effort = {
  small: 1000,
  requests: 200,
  lists: 10,
  rounds: 10,
  turnSeconds: 0.25,
  cpuSeconds: 4,
  samples: 1000,
};
const QUICK: Effort = {
  small: 20,
  requests: 5,
  lists: 1,
  rounds: 1,
  turnSeconds: 0.1,
  cpuSeconds: 0.3,
  samples: 20,
};
const QUICK_PEOPLE = 50;

const STEPS = [0.1, 0.5, 1];
const MIN_PEOPLE = 1000;

export function readOptions(): Options {
  const flags = readFlags(HELP, { ...WRITE, people: { type: 'string', default: '100000' } });
  const people = wholeNumber('people', flags.people, MIN_PEOPLE, 1e7);
  const all = flags.quick ? QUICK_PEOPLE : people;
  const sizes = STEPS.map((part) => Math.round(all * part));
  return { write: flags.write, sizes, effort: flags.quick ? QUICK : FULL };
}
