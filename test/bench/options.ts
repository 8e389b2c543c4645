// The flags of `npm run bench`.
import { LOG_LEVELS } from '../../src/settings/schema.ts';
import { oneOf, readFlags, wholeNumber } from './command.ts';

export type Options = {
  /** Runs every part as short as possible. */
  quick: boolean;
  /** All is measured so often, each time with new servers. */
  runs: number;
  rounds: number;
  /** Duration of one measurement. */
  seconds: number;
  concurrencies: number[];
  starts: number;
  /** Refreshes before memory is measured. */
  refreshes: number;
  logLevel: string;
  /** Measures this part alone. */
  only?: PartName;
};

export const PARTS = [
  'refreshes',
  'proxied-calls',
  'store',
  'exchanges',
  'calls',
  'consent-page',
  'one-caller',
  'delivery',
] as const;
export type PartName = (typeof PARTS)[number];

const HELP = `npm run bench -- [flags]

  --runs 1               repeats all; the table of the targets then has each run and the median
  --rounds 3             every subject is measured once per round and concurrency
  --seconds 2            time of each subject in a round, at each concurrency
  --concurrency 1,16,64  concurrent requests
  --starts 3             cold starts of each store
  --refreshes 10000      refreshes before memory is read; also the warm-up
  --quick                one short round of every part: shows that all of it runs; the numbers mean little
  --log-level warn       of Gatehouse
  --only PART            one part: ${PARTS.join(', ')}

Prints one table of all targets at the end. A run takes about five minutes on two cores. Needs redis-server.
What is measured, and compared with what: test/bench/README.md.
`;

const FULL = {
  rounds: '3',
  seconds: '2',
  concurrency: '1,16,64',
  starts: '3',
  refreshes: '10000',
};
const QUICK = { rounds: '1', seconds: '1', concurrency: '4', starts: '1', refreshes: '50' };

export function readOptions(): Options {
  const flags = readFlags(HELP, {
    runs: { type: 'string', default: '1' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    concurrency: { type: 'string' },
    starts: { type: 'string' },
    refreshes: { type: 'string' },
    'log-level': { type: 'string', default: 'warn' },
    only: { type: 'string' },
  });
  const given = { ...(flags.quick ? QUICK : FULL), ...flags };
  const { only } = flags;
  return {
    quick: flags.quick,
    runs: wholeNumber('runs', flags.runs),
    rounds: wholeNumber('rounds', given.rounds),
    seconds: wholeNumber('seconds', given.seconds),
    concurrencies: given.concurrency.split(',').map((text) => wholeNumber('concurrency', text)),
    starts: wholeNumber('starts', given.starts),
    refreshes: wholeNumber('refreshes', given.refreshes),
    logLevel: oneOf('log-level', LOG_LEVELS, flags['log-level']),
    ...(only === undefined ? {} : { only: oneOf('only', PARTS, only) }),
  };
}
