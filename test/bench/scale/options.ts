// The flags of the measurement of scale, and what --help says about it.
import { parseArgs } from 'node:util';

export type Options = {
  help: boolean;
  /** Into config/scale.md. */
  write: boolean;
  /** How many are connected at each step, fewest first. */
  sizes: number[];
};

export const HELP = `npm run bench:scale -- [flags]

  --people 100000  how many people are connected in the end; measured at a tenth, a half and all of them
  --write          puts the result into config/scale.md as well

Starts a Redis and one process of Gatehouse, all roles, with the flags of npm start; and both again, for a system of 1,000 people that
the other is compared with in short turns. One person connects for real; then people are
written with the store code of Gatehouse, a hundred to a connector, each with a client of their own, as dynamic registration
makes them. First what is written for one is compared with what the real one left: the same kinds of keys, the same sizes.

At each size: memory and keys of Redis, times of refreshes and first calls of 1,000 people chosen at random, one after the other; how many a
second the process does at 16 connections; and the time of a page of the list of accounts.

Takes some two minutes on two idle cores and at most five: what is not written by then is left out, and the result says so.
Needs redis-server and 1 GB of memory for the default.
`;

const STEPS = [0.1, 0.5, 1];
const MIN_PEOPLE = 1000;

/** Throws a TypeError that says what is wrong with the flags. */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      help: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      people: { type: 'string', default: '100000' },
    },
  });
  const people = Number(values.people);
  if (!Number.isSafeInteger(people) || people < MIN_PEOPLE || people > 1e7)
    throw new TypeError(`--people is a whole number from ${MIN_PEOPLE} to 10000000`);
  const { help, write } = values;
  return { help, write, sizes: STEPS.map((part) => Math.round(people * part)) };
}
