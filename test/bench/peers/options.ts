// The flags of `npm run bench:peers`.
import { oneOf, readFlags, WRITE } from '../command.ts';
import type { Implementation } from './implementation.ts';

export type Options = {
  quick: boolean;
  /** Updates README.md. */
  write: boolean;
  implementations: readonly Implementation[];
  rounds: number;
  /** Duration of one turn. */
  seconds: number;
  /** Registrations, authorizations and exchanges in one round. */
  codes: number;
  starts: number;
};

export const CONCURRENCIES = [1, 16, 64];

const FULL = { rounds: 5, seconds: 1, codes: 48, starts: 5 };
const QUICK = { rounds: 1, seconds: 0.2, codes: 8, starts: 1 };

function helpOn(all: readonly Implementation[]): string {
  return `npm run bench:peers -- [flags]

  --only <id>[,<id>…]  compare Gatehouse on Redis with these alone
  --quick              one short round, without the checks that wait a minute: shows that all of it runs
  --write              puts the result into test/bench/peers/README.md as well

${all.map(({ id, name }) => `  ${id.padEnd(24)}${name}`).join('\n')}

Installs the peers in test/bench/peers/installed (npm ci, versions pinned), starts each as a process of its own on loopback, asks
all of them the same questions, then measures the same flows in turns. Takes some eight minutes on two cores. Needs redis-server.
How and why: test/bench/peers/README.md.
`;
}

/** The first of `all` is the reference. */
export function readOptions(all: readonly Implementation[]): Options {
  const { quick, write, only } = readFlags(helpOn(all), {
    ...WRITE,
    only: { type: 'string', multiple: true, default: [] },
  });
  const known = all.map(({ id }) => id);
  const ids = only.flatMap((list) => list.split(',')).map((id) => oneOf('only', known, id));
  const isWanted = ({ id }: Implementation, n: number) =>
    n === 0 || ids.length === 0 || ids.includes(id);
  return { quick, write, implementations: all.filter(isWanted), ...(quick ? QUICK : FULL) };
}
