// What people put before an MCP server, compared with Gatehouse (npm run bench:proxies).
import { execFileSync } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { loadavg } from 'node:os';
import { join } from 'node:path';
import { freePorts } from '../../support/free-ports.ts';
import { CADDY, NGINX, requireProgram } from '../../support/programs.ts';
import { blockOf, readFlags, temporaryFolder, WRITE, writeBetween } from '../command.ts';
import { forCalls, forSeconds } from '../load.ts';
import { logProgress } from '../progress.ts';
import { callOf, FIXED_SERVER, openTargets, takeSaturated } from '../proxied/measure.ts';
import type { Turn } from '../proxied/report.ts';
import { residentMemory, startProcess, untilPrinted } from '../server-process.ts';
import { textTable } from '../text.ts';
import { median } from '../timing.ts';
import { startProducts, type Subject } from './subjects.ts';

const HELP = `npm run bench:proxies -- [flags]

  --quick  one short round: shows that all of it runs; the numbers mean little
  --write  puts the result into test/bench/README.md as well

Takes about three minutes on two idle cores. Needs nginx and caddy. How it measures: test/bench/README.md.
`;

const FULL = { rounds: 7, turnSeconds: 0.5, maxWarmUpCalls: 40_000 };
const QUICK: Effort = { rounds: 1, turnSeconds: 0.1, maxWarmUpCalls: 100 };
type Effort = typeof FULL;

const CONNECTIONS = 16;
const MAX_REASON_LENGTH = 200;
type Kind = { name: string; message: object; warmUpCalls: number };
const KINDS: readonly Kind[] = [
  { name: 'small JSON', message: callOf('fixed', { body: 'small' }), warmUpCalls: 40_000 },
  { name: '1 MB JSON', message: callOf('fixed', { body: 'large' }), warmUpCalls: 500 },
];
const DOCUMENT = join(import.meta.dirname, '../README.md');

async function main({ quick, write }: { quick: boolean; write: boolean }): Promise<void> {
  const place = { root: await temporaryFolder(), logLevel: 'warn', quick };
  const [load = 0] = loadavg();
  logProgress('starting');
  const versions = [
    versionOf(requireProgram(NGINX), '-v'),
    versionOf(requireProgram(CADDY), 'version'),
  ];
  const { targets, stop } = await openTargets(place, FIXED_SERVER);
  const stops: (() => Promise<unknown>)[] = [stop];
  try {
    const token = String(targets.Gatehouse.token);
    const [port = 0] = await freePorts(1);
    const introspection = startProcess('test/bench/proxies/introspection.ts', {
      args: [String(port), token],
      directory: await mkdtemp(join(place.root, 'introspection-')),
    });
    stops.push(introspection.stop);
    await untilPrinted(introspection, /(listening)/);
    const asked = { host: `127.0.0.1:${port}`, process: introspection };
    const server = new URL(targets.direct.url).host;
    const products = await startProducts(place.root, token, asked, server);
    stops.push(...products.map((product) => product.server.stop));
    const { direct, 'bare proxy': bare, Gatehouse } = targets;
    const subjects: Subject[] = [
      { name: 'no proxy', target: direct, server: direct.server },
      ...products,
      { name: 'undici, passes bytes on', target: bare, server: bare.server },
      { name: 'Gatehouse', target: Gatehouse, server: Gatehouse.server },
    ];
    const tables: string[] = [];
    for (const kind of KINDS) {
      logProgress(kind.name);
      const rows = await measure(subjects, kind, quick ? QUICK : FULL);
      tables.push(`${kind.name}\n${textTable(HEAD, rows)}`);
    }
    const about = `${versions.join(', ')}; ${CONNECTIONS} connections; load average at the start ${load.toFixed(1)}`;
    const text = [about, ...tables].join('\n\n');
    console.log(text);
    if (write) await writeBetween(DOCUMENT, blockOf('bench:proxies'), text);
  } finally {
    await Promise.all(stops.map((end) => end()));
  }
}

const HEAD = ['way', 'calls/s', 'of undici', 'ms', 'p99', 'CPU µs', 'MB', 'broken'];
/** A turn in which a connection was closed before its response was complete. */
const BROKEN: Turn = { perSecond: NaN, p50: NaN, p99: NaN, cpu: NaN };

async function measure(
  subjects: readonly Subject[],
  { message, warmUpCalls }: Kind,
  { rounds, turnSeconds, maxWarmUpCalls }: Effort,
) {
  const turnOf = ({ target, ...servers }: Subject, mayStart: () => boolean) =>
    takeSaturated({ ...target, ...servers }, message, CONNECTIONS, mayStart).catch(
      (error: unknown) => {
        logProgress(String(error).slice(0, MAX_REASON_LENGTH));
        return BROKEN;
      },
    );
  const warmUp = Math.min(warmUpCalls, maxWarmUpCalls);
  for (const subject of subjects) await turnOf(subject, forCalls(warmUp));
  const turns = subjects.map((): Turn[] => []);
  for (let round = 0; round < rounds; round += 1) {
    const order = [...subjects.keys()];
    for (const n of round % 2 === 0 ? order : order.toReversed())
      turns[n]?.push(await turnOf(subjects[n] as Subject, forSeconds(turnSeconds)));
  }
  const limit = turns.at(-2) ?? [];
  return Promise.all(
    subjects.map(async ({ name, server, asks }, n) => {
      const all = turns[n] ?? [];
      const own = all.filter((turn) => turn !== BROKEN);
      const of = (part: keyof Turn) => median(own.map((turn) => turn[part]));
      const ratios = all.map((turn, round) => turn.perSecond / (limit[round]?.perSecond ?? NaN));
      const ratio = median(ratios.filter((value) => !Number.isNaN(value)));
      const memory = [server, ...(asks ? [asks] : [])].map(residentMemory);
      const bytes = (await Promise.all(memory)).reduce((sum, each) => sum + each, 0);
      return [
        name,
        of('perSecond').toFixed(0),
        ratio.toFixed(2),
        of('p50').toFixed(2),
        of('p99').toFixed(2),
        of('cpu').toFixed(0),
        (bytes / 1e6).toFixed(0),
        String(all.length - own.length),
      ];
    }),
  );
}

/** The first line that the program prints about itself. */
function versionOf(program: string, argument: string): string {
  // nginx prints it as an error.
  const shell = `"$0" ${argument} 2>&1`;
  const [line = ''] = execFileSync('/bin/sh', ['-c', shell, program]).toString().split('\n');
  return line.replace(/^nginx version: nginx\//, 'nginx ').replace(/^v?(?=\d)/, 'Caddy ');
}

await main(readFlags(HELP, WRITE));
