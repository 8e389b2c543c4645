// Keeps the benchmarks running. Their results are not tested.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { expect } from 'chai';

const TIMEOUT_MS = 300_000;
const COMPILE_CACHE = join(import.meta.dirname, '../../src/compile-cache.js');

type Outcome = { code: number; stdout: string; stderr: string };

function run(script: string, ...flags: string[]): Promise<Outcome> {
  const args = ['--import', COMPILE_CACHE, join(import.meta.dirname, script), '--quick', ...flags];
  return new Promise((resolve) => {
    execFile(process.execPath, args, { timeout: TIMEOUT_MS }, (error, stdout, stderr) =>
      resolve({ code: error ? 1 : 0, stdout, stderr }),
    );
  });
}

describe('A quick run of the benchmarks', function () {
  this.timeout(TIMEOUT_MS);

  const benchmarks: [command: string, args: [string, ...string[]], parts: string[]][] = [
    [
      'bench',
      ['bench.ts'],
      [
        'Refreshes per second',
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
  ];
  for (const [command, args, parts] of benchmarks)
    it(`npm run ${command} succeeds and reports every part`, async () => {
      const { code, stdout, stderr } = await run(...args);
      expect(code, stdout + stderr).to.equal(0);
      for (const part of parts) expect(stdout).to.include(part);
      expect(stdout).to.not.include('could not be checked');
    });
});
