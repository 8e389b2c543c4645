import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';

const RUN = join(import.meta.dirname, 'support/run.ts');
const SUPPORT = join(import.meta.dirname, 'support');

describe('npm test', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'run-'));
  });
  after(() => rm(folder, { recursive: true }));

  /** Runs files with these contents, which may use `$SUPPORT` for the folder with what tests share. */
  async function run(contents: Record<string, string>, ...args: string[]) {
    const files: string[] = [];
    for (const [name, content] of Object.entries(contents)) {
      const file = join(folder, name);
      await writeFile(file, content.replaceAll('$SUPPORT', SUPPORT));
      if (name.includes('.test.')) files.push(file);
    }
    const { SOAK: _, ...env } = process.env;
    const child = spawn(process.execPath, [RUN, '--no-color', ...args, ...files], { env });
    const closed = once(child, 'close');
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const [code] = await closed;
    return { code, stdout, stderr };
  }

  describe('a run without failures', () => {
    let code: number | null;
    let stdout: string;
    before(async () => {
      ({ code, stdout } = await run({
        'measures.test.mjs': "// from '$SUPPORT/deadlines.ts'\nit('is fast', () => {})",
        'one.test.mjs': "it('holds', () => {})",
        'two.test.mjs': "it('holds', () => {}); it('holds again', () => {})",
      }));
    });

    it('a run without failures ends with the slowest files and the totals, and exits with 0', () => {
      expect(stdout).to.match(/^With \S+redis-server, \S+, \S+$/m);
      expect(stdout).to.match(/The 3 slowest files:\n +\d+\.\d s .+\.test\.mjs\n/);
      expect(stdout).to.match(/\n4 passed, 0 failed, in \d+ s\n$/);
      expect(code).to.equal(0);
    });

    it('files that measure time run alone, after all others', () => {
      expect(stdout).to.match(
        /^2 files, \d+ at a time$[^]*^1 file, one at a time, because they measure time$/m,
      );
    });
  });

  it('a failure is named at once and printed in full at the end, and the run exits with 1', async () => {
    const { code, stdout } = await run({
      'fails.test.mjs': "describe('A', () => it('fails', () => { throw new Error('the reason') }))",
      'holds.test.mjs': "it('holds', () => {})",
    });
    expect(stdout).to.match(/^failed: A fails \(.+fails\.test\.mjs\)$/m);
    expect(stdout).to.match(/ {2}1\) A\n +fails:\n +Error: the reason\n +at /);
    expect(stdout.indexOf('the reason')).to.be.above(stdout.indexOf('2 of 2 files'));
    expect(stdout).to.match(/\n1 passed, 1 failed, in \d+ s\n$/);
    expect(code).to.equal(1);
  });

  it('a file that cannot be loaded is a failure', async () => {
    const { code, stdout, stderr } = await run({ 'broken.test.mjs': "import './missing.mjs'" });
    expect(stdout + stderr).to.include('missing.mjs');
    expect(stdout).to.match(/, 1 failed, /);
    expect(code).to.equal(1);
  });

  it('the soak runs only files with a long form, in that form, and ends with a table', async () => {
    const { code, stdout } = await run(
      {
        'long.test.mjs': `
          import { recordSoak, SOAK } from '$SUPPORT/soak.ts';
          it(SOAK ? 'long' : 'short', () => recordSoak({ what: '3 rounds', held: '0 lost' }));`,
        'scenario.mjs': "export { SOAK } from '$SUPPORT/soak.ts';",
        'shared.test.mjs': "import { SOAK } from './scenario.mjs'; it(`long: ${SOAK}`, () => {});",
        'short.test.mjs': "it('holds', () => {})",
      },
      '--soak',
    );
    expect(stdout).to.include('2 files, one at a time').and.include('2 passed, 0 failed');
    expect(stdout).to.match(/\nWhat held:\n {2}3 rounds {2}0 lost\n$/);
    expect(code).to.equal(0);
  });

  it('the number of jobs comes from the cores of the machine, and the help names it', async () => {
    const { code, stdout } = await run({}, '--help');
    expect(stdout).to.match(
      new RegExp(`--jobs <number> .*default: ${Math.min(2 * availableParallelism(), 16)}\\)`),
    );
    expect(code).to.equal(0);
  });

  it('a pattern that matches no file and a wrong number of jobs are refused', async () => {
    const none = await run({}, 'test/nothing.test.ts');
    expect(none.stderr).to.equal('no test file matches test/nothing.test.ts\n');
    expect(none.code).to.equal(1);
    const jobs = await run({}, '--jobs', '0');
    expect(jobs.stderr).to.include('It must be a whole number of at least 1.');
    expect(jobs.code).to.equal(1);
  });
});
