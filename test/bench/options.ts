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
  delivery: DeliveryOptions;
  logLevel: string;
  /** Measures this part alone. */
  only?: PartName;
};

export type DeliveryOptions = {
  /** How long items are stored, if the last kill is not later. */
  seconds: number;
  /** Items a second. */
  rate: number;
  /** Of processes that deliver. */
  kills: number;
  /** How long the receiver is up, and then down, again and again. */
  downSeconds: number;
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
  --delivery-seconds 200 time of the delivery of the audit log
  --delivery-rate 1000   audit items a second
  --kills 20             of processes that deliver
  --down-seconds 5       the receiver is up so long, and then down so long
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
  'delivery-seconds': '200',
  kills: '20',
};
const QUICK = {
  rounds: '1',
  seconds: '1',
  concurrency: '4',
  starts: '1',
  refreshes: '50',
  'delivery-seconds': '20',
  kills: '2',
};

export function readOptions(): Options {
  const flags = readFlags(HELP, {
    runs: { type: 'string', default: '1' },
    rounds: { type: 'string' },
    seconds: { type: 'string' },
    concurrency: { type: 'string' },
    starts: { type: 'string' },
    refreshes: { type: 'string' },
    'delivery-seconds': { type: 'string' },
    'delivery-rate': { type: 'string', default: '1000' },
    kills: { type: 'string' },
    'down-seconds': { type: 'string', default: '5' },
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
    delivery: {
      seconds: wholeNumber('delivery-seconds', given['delivery-seconds']),
      rate: wholeNumber('delivery-rate', flags['delivery-rate']),
      kills: wholeNumber('kills', given.kills),
      downSeconds: wholeNumber('down-seconds', flags['down-seconds']),
    },
    logLevel: oneOf('log-level', LOG_LEVELS, flags['log-level']),
    ...(only === undefined ? {} : { only: oneOf('only', PARTS, only) }),
  };
}
