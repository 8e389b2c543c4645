import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect } from 'chai';
import { recordSoak, SOAK } from '../support/soak.ts';
import { callAtRate } from './proxied/raw-calls.ts';
import { atLeast, atMost, describeTargets } from './targets.ts';

const TIMEOUT_MS = 300_000;

const COMMANDS: readonly [command: string, script: string][] = [
  ['bench', 'bench.ts'],
  ['bench:peers', 'peers/compare.ts'],
  ['bench:proxies', 'proxies/proxies.ts'],
  ['bench:scale', 'scale/scale.ts'],
  ['bench:console', 'console-pages.ts'],
  ['bench:processes', 'processes/processes.ts'],
  ['bench:steps', 'steps.ts'],
];

describe('the flags of the benchmarks', () => {
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
});

describe('the measurements of the benchmarks', () => {
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
});

describe('the reports of the benchmarks', () => {
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
