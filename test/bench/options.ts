// The flags of `npm run bench`.
import { parseArgs } from 'node:util';
import { LOG_LEVELS } from '../../src/settings/schema.ts';

export type Options = {
  help: boolean;
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
] as const;
export type PartName = (typeof PARTS)[number];

export const HELP = `npm run bench -- [flags]

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

/** Throws a TypeError for wrong flags. */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      help: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      runs: { type: 'string', default: '1' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      concurrency: { type: 'string' },
      starts: { type: 'string' },
      refreshes: { type: 'string' },
      'log-level': { type: 'string', default: 'warn' },
      only: { type: 'string' },
    },
  });
  const logLevel = LOG_LEVELS.find((level) => level === values['log-level']);
  if (!logLevel) throw new TypeError(`--log-level is one of ${LOG_LEVELS.join(', ')}`);
  const only = PARTS.find((part) => part === values.only);
  if (values.only !== undefined && !only)
    throw new TypeError(`--only is one of ${PARTS.join(', ')}`);
  const defaults = values.quick ? QUICK : FULL;
  const { concurrency = defaults.concurrency } = values;
  return {
    help: values.help,
    quick: values.quick,
    runs: positive('runs', values.runs),
    rounds: positive('rounds', values.rounds ?? defaults.rounds),
    seconds: positive('seconds', values.seconds ?? defaults.seconds),
    concurrencies: concurrency.split(',').map((text) => positive('concurrency', text)),
    starts: positive('starts', values.starts ?? defaults.starts),
    refreshes: positive('refreshes', values.refreshes ?? defaults.refreshes),
    logLevel,
    ...(only ? { only } : {}),
  };
}

function positive(flag: string, text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new TypeError(`--${flag} takes whole numbers, not ${text}`);
  return Number(text);
}
