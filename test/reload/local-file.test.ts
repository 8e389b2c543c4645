import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { nodeArguments } from '../support/node-arguments.ts';
import { createDeployment, type Deployment } from '../support/system.ts';
import { until } from '../support/until.ts';

/** On a busy machine. */
const START_TIMEOUT_SECONDS = 90;

describe('A settings file of the working directory', () => {
  let place: Deployment;
  before(async () => {
    place = await createDeployment();
  });
  after(() => place.release());

  it('that is gone at a reload is an error, and the settings of the package are not read in its place', async () => {
    const { dataDir } = place.facts;
    const local = join(dataDir, 'gatehouse.yaml');
    copyFileSync(String(place.environment.GATEHOUSE_CONFIG), local);
    const { GATEHOUSE_CONFIG: _config, ...env } = place.environment;
    const child = spawn(process.execPath, nodeArguments(['start']), {
      cwd: dataDir,
      env: { ...env, GATEHOUSE_LOG_LEVEL: 'info' },
    });
    const exited = once(child, 'exit');
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (text) => (output += text));
    try {
      await until('the server to run', () => output.includes('is running'), START_TIMEOUT_SECONDS);
      rmSync(local);
      child.kill('SIGHUP');
      await until('the refusal', () => output.includes('the settings were not changed'));
      expect(output).to.include('expected a readable settings file (ENOENT)');
    } finally {
      child.kill('SIGTERM');
      await exited;
    }
  });
});
