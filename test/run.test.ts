import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
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
});
