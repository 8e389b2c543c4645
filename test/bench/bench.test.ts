import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'chai';
import { recordSoak, SOAK } from '../support/soak.ts';
import { alternate, ratioLine } from './alternate.ts';
import { HELP, PARTS, readOptions } from './options.ts';
import { IMPLEMENTATIONS } from './peers/implementations.ts';
import { helpOn, readOptions as readPeerOptions } from './peers/options.ts';
import { describe as describeProcesses } from './processes/report.ts';
import { followPhases } from './progress.ts';
import { callAtRate } from './proxied/raw-calls.ts';
import { describeProxied, type Measured, SMALL, type Turn } from './proxied/report.ts';
import type { Measurement } from './rates.ts';
import { describeMemory, describeRates, describeStarts, type Result, targetsOf } from './report.ts';
import { HELP as SCALE_HELP, readOptions as readScaleOptions } from './scale/options.ts';
import { unlike } from './scale/report.ts';
import { atLeast, atMost, describeTargets } from './targets.ts';
import { markdownTable, textTable } from './text.ts';
import { median } from './timing.ts';

const TIMEOUT_MS = 300_000;

const COMMANDS: readonly [command: string, script: string][] = [
  ['bench', 'bench.ts'],
  ['bench:peers', 'peers/compare.ts'],
  ['bench:scale', 'scale/scale.ts'],
  ['bench:processes', 'processes/processes.ts'],
  ['bench:steps', 'steps.ts'],
];

describe('the flags of the benchmarks', () => {
  it('npm run bench measures three rounds at three concurrencies by default', () => {
    expect(readOptions([])).to.deep.equal({
      help: false,
      quick: false,
      runs: 1,
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
    expect(named).to.have.lengthOf(9);
    for (const flag of named.filter((each) => each !== 'quick'))
      expect(() => readOptions([`--${flag}`, 'x']), flag).to.throw(TypeError, `--${flag}`);
  });

  it('--only chooses one part by its name in the help', () => {
    expect(readOptions([])).to.not.have.property('only');
    for (const part of PARTS) {
      expect(readOptions(['--only', part]).only).to.equal(part);
      expect(HELP).to.match(new RegExp(`--only .*\\b${part}\\b`));
    }
    for (const wrong of ['refresh', 'store,calls', ''])
      expect(() => readOptions(['--only', wrong]), wrong).to.throw(TypeError, PARTS.join(', '));
  });

  for (const [command, script] of COMMANDS) {
    it(`npm run ${command} prints a short help, and one line for a wrong flag`, async () => {
      const help = await run(script, '--help');
      expect(help, help.stderr).to.include({ code: 0, stderr: '' });
      const lines = help.stdout.trimEnd().split('\n');
      expect(lines[0]).to.equal(`npm run ${command} -- [flags]`);
      expect(lines.length).to.be.at.most(20);
      const wrong = await run(script, '--fast');
      expect(wrong).to.include({ code: 2, stdout: '' });
      expect(wrong.stderr.trimEnd().split('\n')).to.have.lengthOf(1);
    });
  }

  it('unknown flags and values out of range are refused', () => {
    for (const args of [['--rounds', '0'], ['--runs', '0'], ['--fast'], ['other']])
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

  it('a call at a fixed rate counts the time that it waits for its connection', async () => {
    const answerMs = 20;
    const server = createServer((_req, res) => void setTimeout(() => res.end('{}'), answerMs));
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    try {
      const pace = { perSecond: 1000, connections: 1, seconds: 0.01 };
      const times = await callAtRate({ url: `http://127.0.0.1:${port}/mcp` }, {}, pace);
      expect(times).to.have.lengthOf(10);
      expect(times.at(-1)).to.be.above(5 * answerMs);
    } finally {
      server.close();
    }
  });

  it('a call at a fixed rate that fails is an error', async () => {
    let calls = 0;
    const server = createServer((_req, res) => {
      calls += 1;
      res.writeHead(calls === 3 ? 503 : 200).end('{}');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;
    try {
      const pace = { perSecond: 1000, connections: 1, seconds: 0.01 };
      const failure = await callAtRate({ url: `http://127.0.0.1:${port}/mcp` }, {}, pace).then(
        () => 'none',
        String,
      );
      expect(failure).to.include('503');
    } finally {
      server.close();
    }
  });

  it('each phase is announced with its number and expected time, in the planned order', () => {
    const lines: string[] = [];
    const plan = [
      ['first', 1.2],
      ['second', 3],
    ] as const;
    const begin = followPhases(plan, 'run 1 of 2, ', (line) => lines.push(line));
    begin('first');
    expect(() => begin('third')).to.throw('second');
    begin('second');
    expect(() => begin('second')).to.throw('undefined');
    expect(lines).to.deep.equal([
      'run 1 of 2, phase 1 of 2: first (about 2 s)',
      'run 1 of 2, phase 2 of 2: second (about 3 s)',
    ]);
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

  it('refreshes, starts and memory have targets', () => {
    const targets = targetsOf(result, options).map(({ what, value }) => [what, value]);
    expect(targets.map(([what, value]) => `${what}: ${Number(value).toFixed(2)}`)).to.deep.equal([
      'refreshes on Redis ÷ engine with the usual adapter, 16 connections: 0.80',
      'start of Gatehouse on Redis: 0.75',
      'start of Gatehouse on SQLite: 3.50',
      'memory of Gatehouse on Redis, started: 90.00',
      'memory of Gatehouse on Redis, after 50 refreshes: 150.00',
      'memory of Gatehouse on SQLite, started: 90.00',
      'memory of Gatehouse on SQLite, after 50 refreshes: 250.00',
    ]);
  });

  it('the table of targets says which are met, and never rounds a miss to its limit', () => {
    const targets = [
      atLeast('rate', 0.9, 0.8999),
      atLeast('other rate', 0.9, 0.9),
      atMost('start', 0.3, 's', 0.3001),
      atMost('memory', 120, 'MB', 119.2),
      atMost('other delay', 1.1, 'ms', 1.1),
      atMost('delay', 1, 'ms', NaN),
    ];
    expect(describeTargets([targets]).split('\n')).to.deep.equal([
      '  target       limit           measured  result',
      '  rate         at least 0.9    0.89      MISSED',
      '  other rate   at least 0.9    0.90      met',
      '  start        at most 0.3 s   0.31      MISSED',
      '  memory       at most 120 MB  120       met',
      '  other delay  at most 1.1 ms  1.10      met',
      '  delay        at most 1 ms    NaN       MISSED',
    ]);
  });

  it('the median of several runs decides whether a target is met', () => {
    const runs = [0.7, 0.95, 0.9].map((rate) => [atLeast('rate', 0.9, rate)]);
    expect(describeTargets(runs).split('\n')).to.deep.equal([
      '  target  limit         run 1  run 2  run 3  median  result',
      '  rate    at least 0.9   0.70   0.95   0.90    0.90  met',
    ]);
  });

  const turnsOf = (...turns: [perSecond: number, p50: number][]): Turn[] =>
    turns.map(([perSecond, p50]) => ({ perSecond, p50, p99: 3 * p50, cpu: 50 }));
  const proxied = (connections: number, more: Partial<Measured> = {}): Measured => ({
    kind: SMALL,
    connections,
    turns: {
      direct: turnsOf([2000, 0.5], [1000, 1]),
      'bare proxy': turnsOf([1000, 1], [500, 2]),
      Gatehouse: turnsOf([625, 1.25], [375, 3]),
    },
    ...more,
  });
  const streams = {
    events: { direct: [0.5, 0.25, 0.75], 'bare proxy': [1, 1, 1], Gatehouse: [1.75, 1.25, 1.5] },
    bytes: { 'bare proxy': 12_000, Gatehouse: 21_500 },
    streams: 1000,
  };
  const report = describeProxied(
    [proxied(1), proxied(16), proxied(16, { perSecond: 1000 }), proxied(8, { kind: 'other' })],
    streams,
  );

  it('proxied calls are compared with direct calls and with the bare proxy of the same round', () => {
    expect(report.text).to.match(
      /\n {2}small JSON +16  Gatehouse +500 +0\.69 +2\.13 +6\.38 +1\.38 +4\.13 +0\.63 +1\.88 +50\n/,
    );
    const [saturated, below] = report.text.split('Below saturation: 1000 calls a second');
    expect(saturated).to.match(/\n {2}other +8  direct /);
    expect(below?.match(/^ {2}small JSON +16 /gm)).to.have.lengthOf(3);
  });

  it('streams are compared with the bare proxy, and their memory is reported for both', () => {
    expect(report.text).to.match(/\n {2}bare proxy +1\.00 +1\.00 +12\.0\n/);
    expect(report.text).to.match(/\n {2}Gatehouse +1\.50 +1\.75 +21\.5 +9\.5$/);
  });

  it('small responses and streams have targets, saturated and at a fixed rate', () => {
    expect(report.targets).to.deep.equal([
      atLeast('proxied calls ÷ bare proxy, 16 connections', 0.6, 0.6875),
      atMost('median of a call over the bare proxy, saturated, 1 connection', 0.5, 'ms', 0.625),
      atMost('median of a call over the bare proxy, saturated, 16 connections', 0.5, 'ms', 0.625),
      atMost(
        'median of a call over the bare proxy, 1000 calls a second, 16 connections',
        0.5,
        'ms',
        0.625,
      ),
      atMost('median of an event over a direct stream', 1, 'ms', 1),
      atMost('memory of an idle stream, without garbage', 20, 'kB', 21.5),
    ]);
  });

  it('processes do as many times more as there are, until one core of Redis is busy', () => {
    const cost = { perSecond: 700, gatehouse: 0.5, redis: 0.2, balancer: 0.1, load: 0.4 };
    const text = describeProcesses([
      { operation: 'refresh', count: 2, ...cost },
      { operation: 'refresh', count: 4, ...cost },
    ]);
    expect(text).to.match(/Calculated[^]*\n {2}refresh +2 +4000 +80%\n {2}refresh +4 +5000 +100%$/);
  });

  it('a comparison shows the ratio and both rates', () => {
    const rates = [{ ours: 90, bare: 100 }];
    expect(ratioLine('calls', rates)).to.equal('  calls: 0.90 (90 and 100)');
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
        ['bench.ts', '--runs', '2'],
        [
          'Refreshes per second',
          'Calls directly',
          'Redis: round trips',
          'Code exchanges',
          'Tool calls',
          'consent page',
          'Targets',
        ],
      ],
      ['bench -- --only consent-page', ['bench.ts', '--only', 'consent-page'], ['Targets']],
      // The other peers would have to be installed first.
      [
        'bench:peers',
        ['peers/compare.ts', '--only', 'oidc-provider'],
        ['### Who passes what', '### Flows', '### Targets', '### Start and memory'],
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
        const { code, stdout, stderr } = await run(args[0], '--quick', ...args.slice(1));
        expect(code, stdout + stderr).to.equal(0);
        for (const part of parts) expect(stdout).to.include(part);
        expect(stdout).to.not.include('could not be checked');
        recordSoak({ what: `npm run ${command} -- --quick`, held: `${parts.length} parts` });
      });
  });

type Outcome = { code: number; stdout: string; stderr: string };

function run(script: string, ...flags: string[]): Promise<Outcome> {
  const args = [join(import.meta.dirname, script), ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: TIMEOUT_MS }, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
    );
  });
}
