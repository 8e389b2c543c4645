import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect } from 'chai';
import { recordSoak, SOAK } from '../support/soak.ts';
import { alternate, ratioLine } from './alternate.ts';
import { HELP, readOptions } from './options.ts';
import { IMPLEMENTATIONS } from './peers/implementations.ts';
import { helpOn, readOptions as readPeerOptions } from './peers/options.ts';
import { describe as describeProcesses } from './processes/report.ts';
import type { Measurement } from './rates.ts';
import {
  describeMemory,
  describeRates,
  describeStarts,
  describeTargets,
  type Result,
} from './report.ts';
import { HELP as SCALE_HELP, readOptions as readScaleOptions } from './scale/options.ts';
import { unlike } from './scale/report.ts';
import { markdownTable, targetLine, textTable } from './text.ts';
import { median } from './timing.ts';

const TIMEOUT_MS = 300_000;

describe('the flags of the benchmarks', () => {
  it('npm run bench measures three rounds at three concurrencies by default', () => {
    expect(readOptions([])).to.deep.equal({
      help: false,
      quick: false,
      rounds: 3,
      seconds: 2,
      concurrencies: [1, 16, 64],
      starts: 3,
      refreshes: 10_000,
      logLevel: 'warn',
    });
  });

  it('a flag replaces the value of a quick run', () => {
    const quick = readOptions(['--quick']);
    expect(quick).to.include({ quick: true, rounds: 1, starts: 1 });
    const given = readOptions(['--quick', '--starts', '2', '--concurrency', '8,32']);
    expect(given).to.deep.equal({ ...quick, starts: 2, concurrencies: [8, 32] });
  });

  it('the help of every benchmark describes the flags that it takes', () => {
    const helps = [HELP, helpOn(IMPLEMENTATIONS), SCALE_HELP];
    for (const help of helps)
      expect(help).to.match(/^npm run bench\S* -- \[flags\]\n[^]* --quick /);
    const named = [...HELP.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, flag]) => String(flag));
    expect(named).to.have.lengthOf(8);
    for (const flag of named.filter((each) => each !== 'quick'))
      expect(() => readOptions([`--${flag}`, 'x']), flag).to.throw(TypeError, `--${flag}`);
  });

  it('unknown flags and values out of range are refused', () => {
    for (const args of [['--rounds', '0'], ['--seconds', '-1'], ['--fast'], ['other']])
      expect(() => readOptions(args), args.join(' ')).to.throw(TypeError);
    expect(() => readPeerOptions(['--only', 'x'], IMPLEMENTATIONS)).to.throw(TypeError, 'not x');
    for (const people of ['999', '1.5', 'many'])
      expect(() => readScaleOptions(['--people', people]), people).to.throw(TypeError, '--people');
  });

  it('npm run bench:peers compares with the reference, whatever else is chosen', () => {
    const idsFor = (...args: string[]) =>
      readPeerOptions(args, IMPLEMENTATIONS).implementations.map(({ id }) => id);
    const all = IMPLEMENTATIONS.map(({ id }) => id);
    expect(idsFor()).to.deep.equal(all);
    expect(idsFor('--only', 'oidc-provider')).to.deep.equal([all[0], 'oidc-provider']);
  });

  it('npm run bench:scale measures at a tenth, a half and all of the people', () => {
    expect(readScaleOptions(['--people', '2000']).sizes).to.deep.equal([200, 1000, 2000]);
  });
});

describe('the measurements of the benchmarks', () => {
  it('two subjects take turns after a warm-up, and the first turn changes', async () => {
    const turns: string[] = [];
    const turn = (name: string, rate: number) => async () => {
      turns.push(name);
      return rate;
    };
    const rates = await alternate(2, turn('ours', 8), turn('bare', 10));
    expect(turns.join(' ')).to.equal('ours bare ours bare bare ours');
    expect(rates).to.deep.equal([
      { ours: 8, bare: 10 },
      { ours: 8, bare: 10 },
    ]);
  });

  it('the median of an even number of values is the mean of the two in the middle', () => {
    expect(median([3, 1, 2])).to.equal(2);
    expect(median([4, 1, 2, 10])).to.equal(3);
    expect(Number.isNaN(median([]))).to.equal(true);
  });

  it('records of a generated person that differ from those of a real person are named', () => {
    const grant = { keys: 1, members: 0, bytes: 400 };
    expect(unlike({ real: { grant }, written: { grant: { ...grant, bytes: 410 } } })).to.deep.equal(
      [],
    );
    const written = { grant: { ...grant, bytes: 500 }, other: grant };
    expect(unlike({ real: { grant }, written })).to.deep.equal(['grant', 'other']);
  });
});

describe('the reports of the benchmarks', () => {
  const load = (rate: number) => ({ refreshes: 2 * rate, seconds: 2, failures: [] });
  const measured = (round: number, bare: number, redis: number, sqlite: number): Measurement[] => [
    { kind: 'bare', round, concurrency: 16, load: load(bare) },
    { kind: 'redis', round, concurrency: 16, load: load(redis) },
    { kind: 'sqlite', round, concurrency: 16, load: load(sqlite) },
  ];
  const memory = (['bare', 'redis', 'sqlite'] as const).flatMap((kind) => [
    { kind, moment: 'started' as const, bytes: 90e6 },
    { kind, moment: 'after the refreshes' as const, bytes: kind === 'redis' ? 150e6 : 250e6 },
    { kind, moment: 'at the end' as const, bytes: 160e6 },
  ]);
  const result: Result = {
    measurements: [...measured(0, 1000, 900, 500), ...measured(1, 500, 350, 500)],
    starts: [
      { kind: 'redis', start: { alive: 0.5, serving: 0.75 } },
      { kind: 'sqlite', start: { alive: 0.5, serving: 3.5 } },
    ],
    memory,
  };
  const options = readOptions(['--concurrency', '16', '--refreshes', '50']);

  it('rates are medians of the rounds, with the ratio to the bare engine in the same round', () => {
    expect(describeRates(result, options).split('\n').slice(1)).to.deep.equal([
      '  concurrency  subject              refreshes/s  min   max  ratio   min   max',
      '           16  engine on Redis              750  500  1000      1',
      '           16  Gatehouse on Redis           625  350   900   0.80  0.70  0.90',
      '           16  Gatehouse on SQLite          500  500   500   0.75  0.50  1.00',
    ]);
  });

  it('start and memory are in seconds and megabytes', () => {
    expect(describeStarts(result)).to.match(/\n {2}Gatehouse on SQLite +0\.50 +3\.50 +3\.50$/);
    expect(describeMemory(result, options)).to.match(
      /after 50 refreshes[^]*\n {2}Gatehouse on Redis +90 +150 +160\n/,
    );
  });

  it('each target is met or missed', () => {
    expect(describeTargets(result, options).split('\n')).to.deep.equal([
      'Targets',
      '  MISSED  refreshes on Redis at least 0.9 of the engine with the usual adapter, concurrency 16: 0.80',
      '  MISSED  Gatehouse on Redis serves within 0.3 s: 0.75 s',
      '  MISSED  Gatehouse on SQLite serves within 0.3 s: 3.50 s',
      '  met     Gatehouse on Redis holds at most 120 MB, started: 90 MB',
      '  met     Gatehouse on Redis holds at most 180 MB, after the refreshes: 150 MB',
      '  met     Gatehouse on SQLite holds at most 120 MB, started: 90 MB',
      '  MISSED  Gatehouse on SQLite holds at most 180 MB, after the refreshes: 250 MB',
    ]);
    expect(targetLine(false, 'what', '1')).to.equal('  MISSED  what: 1');
  });

  it('processes do as many times more as there are, until one core of Redis is busy', () => {
    const cost = { perSecond: 700, gatehouse: 0.5, redis: 0.2, balancer: 0.1, load: 0.4 };
    const text = describeProcesses([
      { operation: 'refresh', count: 2, ...cost },
      { operation: 'refresh', count: 4, ...cost },
    ]);
    expect(text).to.match(/Calculated[^]*\n {2}refresh +2 +4000 +80%\n {2}refresh +4 +5000 +100%$/);
  });

  it('a comparison without a target shows the ratio and both rates', () => {
    const rates = [{ ours: 90, bare: 100 }];
    expect(ratioLine('calls', rates)).to.equal('          calls: 0.90 (90 and 100)');
    expect(ratioLine('calls', rates, 0.95)).to.equal(
      '  MISSED  calls, at least 0.95: 0.90 (90 and 100)',
    );
  });

  it('columns of numbers are aligned to the right in text and in Markdown', () => {
    const rows = [
      ['one', '5'],
      ['eleven', '1,000'],
    ];
    expect(textTable(['what', 'n'], rows)).to.equal(
      '  what        n\n  one         5\n  eleven  1,000',
    );
    expect(markdownTable(['what', 'n'], rows)).to.equal(
      '| what   |     n |\n| ------ | ----: |\n| one    |     5 |\n| eleven | 1,000 |',
    );
  });
});

// A run of a benchmark starts up to a dozen servers.
if (SOAK)
  describe('a quick run of the benchmarks', function () {
    this.timeout(TIMEOUT_MS);

    const benchmarks: [command: string, args: [string, ...string[]], parts: string[]][] = [
      [
        'bench',
        ['bench.ts'],
        [
          'Refreshes per second',
          'Calls directly',
          'Redis: round trips',
          'Code exchanges',
          'Tool calls',
          'consent page',
        ],
      ],
      // The other peers would have to be installed first.
      [
        'bench:peers',
        ['peers/compare.ts', '--only', 'oidc-provider'],
        ['### Who passes what', '### Flows', '### Start and memory'],
      ],
      [
        'bench:scale',
        ['scale/scale.ts'],
        ['Memory of Redis', 'Times of one at a time', 'A million connected people'],
      ],
      ['bench:processes', ['processes/processes.ts'], ['Measured', 'Calculated']],
      ['bench:steps', ['steps.ts'], ['signs in and connects', 'The bare engine', 'ratio']],
    ];
    for (const [command, args, parts] of benchmarks)
      it(`npm run ${command} succeeds and reports every part`, async () => {
        const { code, stdout, stderr } = await run(...args);
        expect(code, stdout + stderr).to.equal(0);
        for (const part of parts) expect(stdout).to.include(part);
        expect(stdout).to.not.include('could not be checked');
        recordSoak({ what: `npm run ${command} -- --quick`, held: `${parts.length} parts` });
      });
  });

type Outcome = { code: number; stdout: string; stderr: string };

function run(script: string, ...flags: string[]): Promise<Outcome> {
  const args = [join(import.meta.dirname, script), '--quick', ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: TIMEOUT_MS }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, stdout, stderr }),
    );
  });
}
