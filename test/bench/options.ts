// The flags of the benchmark, and what --help says about the method.
import { parseArgs } from 'node:util';
import { LOG_LEVELS } from '../../src/settings/schema.ts';

export type Options = {
  help: boolean;
  rounds: number;
  /** Of one measurement. */
  seconds: number;
  concurrencies: number[];
  starts: number;
  /** Before memory is read. */
  refreshes: number;
  logLevel: string;
};

export const HELP = `npm run bench -- [flags]

  --rounds 3             rounds; every subject is measured once per round and concurrency
  --seconds 2            time of each subject in a round, at each concurrency
  --concurrency 1,16,64  requests under way at a time
  --starts 5             cold starts of each store
  --refreshes 10000      refreshes before resident memory is read; they are the warm-up, too
  --log-level warn       of Gatehouse (its default, info, writes a line for every request, to a file here)

Subjects, each a process of its own: Gatehouse on SQLite, Gatehouse on a redis-server started for it, and the bare engine:
oidc-provider with its in-memory adapter, which logs nothing. All three run with the flags of npm start and do the same for
a client: dynamic registration, PKCE, ES256 JWT access tokens for one resource, rotating refresh tokens. The in-memory
adapter gets slower with every token of a grant, so the families are new in every round and take turns; there are as many
as the highest concurrency.

The load comes from this process over keep-alive connections. Request n of a family carries the refresh token of reply n-1.
A reply that is not 200 with a new refresh token is a failure, and one failure makes the exit code 1; a missed target does not.

Subjects take turns of 0.2 s within a round, a different one first each time, so that whatever else the machine does slows
all of them down alike: compare the ratios, which are made within a round, rather than the rates. The SQLite file is in
TMPDIR and synced on every write, so its rate depends on that disk.

Round trips to Redis are what an answer is later by when Redis is 50 ms away, in units of that, for one request at a time; commands
are counted on the way there, with those that nobody waits for. Encryption is measured against Gatehouse with another encryption module put in
place by the module loader; distance against the engine with an adapter as most of its users have one (a key for each model, MULTI, a
list for each grant), both through a link of their own that delivers answers late. Exchanges are of codes that went through the pages,
each of a client of its own. These have rounds of their own whatever the flags, 24 or 6; encryption and distance after 10,000 refreshes of each.

Tool calls with a token are measured against the same MCP server on the same host without authorization, and tokens that were
not seen before against jwtVerify of jose alone, in 24 rounds of their own whatever the flags.

A cold start is a new process with an empty data directory and an empty store; the program's files are in the page cache.
`;

/** Throws a TypeError that says what is wrong with the flags. */
export function readOptions(args: string[]): Options {
  const { values } = parseArgs({
    args,
    options: {
      help: { type: 'boolean', default: false },
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '2' },
      concurrency: { type: 'string', default: '1,16,64' },
      starts: { type: 'string', default: '5' },
      refreshes: { type: 'string', default: '10000' },
      'log-level': { type: 'string', default: 'warn' },
    },
  });
  const logLevel = LOG_LEVELS.find((level) => level === values['log-level']);
  if (!logLevel) throw new TypeError(`--log-level is one of ${LOG_LEVELS.join(', ')}`);
  return {
    help: values.help,
    rounds: positive('rounds', values.rounds),
    seconds: positive('seconds', values.seconds),
    concurrencies: values.concurrency.split(',').map((text) => positive('concurrency', text)),
    starts: positive('starts', values.starts),
    refreshes: positive('refreshes', values.refreshes),
    logLevel,
  };
}

function positive(flag: string, text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text))
    throw new TypeError(`--${flag} takes whole numbers, not ${text}`);
  return Number(text);
}
