import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { CHROMIUM, findProgram, howToInstall, REDIS } from './support/programs.ts';

describe('the programs that the tests start', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'programs-'));
  });
  after(() => rm(folder, { recursive: true }));

  /** Returns a folder with empty programs of these names. */
  async function folderWith(...names: string[]): Promise<string> {
    const path = await mkdtemp(join(folder, 'bin-'));
    for (const name of names) {
      await writeFile(join(path, name), '#!/bin/sh\n');
      await chmod(join(path, name), 0o755);
    }
    return path;
  }

  it('a program is found in the PATH', async () => {
    const PATH = await folderWith('chromium-browser');
    expect(findProgram(CHROMIUM, { PATH })).to.equal(join(PATH, 'chromium-browser'));
  });

  it('CHROME_BIN takes precedence over the PATH', async () => {
    const PATH = await folderWith('chromium');
    const other = await folderWith('my-chrome');
    const CHROME_BIN = join(other, 'my-chrome');
    expect(findProgram(CHROMIUM, { PATH, CHROME_BIN })).to.equal(CHROME_BIN);
  });

  it('a CHROME_BIN that names no program is an error', async () => {
    const directory = join(folder, 'directory');
    await mkdir(directory, { recursive: true });
    for (const CHROME_BIN of [join(folder, 'missing'), directory])
      expect(() => findProgram(CHROMIUM, { PATH: '', CHROME_BIN })).to.throw(
        `CHROME_BIN is ${CHROME_BIN}, which is not a program`,
      );
  });

  it('missing programs are reported with the install command of the system', async () => {
    const commands: Record<string, string> = {
      'apt-get': 'sudo apt-get update && sudo apt-get install --yes redis-server chromium',
      dnf: 'sudo dnf install --assumeyes redis chromium',
      brew: 'brew install redis chromium',
    };
    for (const [manager, command] of Object.entries(commands)) {
      const text = howToInstall([REDIS, CHROMIUM], { PATH: await folderWith(manager) });
      expect(text).to.include('The tests need Redis (redis-server) and Chromium or Chrome.');
      expect(text).to.include(`\n  ${command}\n`);
      expect(text).to.include('set REDIS_SERVER_BIN and CHROME_BIN');
    }
  });

  it('missing programs are reported without a command if the package manager is unknown', () => {
    expect(howToInstall([REDIS], { PATH: '' })).to.equal(
      'The tests need Redis (redis-server).\nInstall it and try again.\nIf it is installed already, set REDIS_SERVER_BIN to its path.',
    );
  });
});
