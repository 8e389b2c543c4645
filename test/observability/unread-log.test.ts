import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'chai';
import { nodeArguments } from '../support/node-arguments.ts';
import { createDeployment, type Deployment } from '../support/system.ts';
import { until } from '../support/until.ts';

const MEGABYTE = 1024 * 1024;
const LINES = 80_000;
const WRITER = join(import.meta.dirname, 'log-writer-process.ts');

describe('A log that nobody reads', () => {
  let place: Deployment;
  before(async () => void (place = await createDeployment()));
  after(() => place.release());

  it('LOG-11 requests are answered, and the process stops when it is told to', async () => {
    const environment = { ...place.environment, GATEHOUSE_LOG_LEVEL: 'info' };
    const child = spawn(process.execPath, nodeArguments(['start']), { env: environment });
    try {
      let printed = '';
      child.stdout.on('data', (text) => (printed += text));
      await until('the process to run', () => / is running\.$/m.test(printed));
      // Half a megabyte of lines: more than a pipe holds.
      const path = `/${'nothing-at-all/'.repeat(12)}`;
      for (let round = 0; round < 50; round += 1) {
        const sent = Array.from({ length: 30 }, () => fetch(place.facts.resource + path));
        for (const response of await Promise.all(sent)) expect(response.status).to.equal(404);
      }
      child.kill('SIGTERM');
      await until('the process to end', () => child.exitCode !== null || child.signalCode !== null);
      expect(child.exitCode).to.equal(0);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('LOG-11 a full disk does not end the process', async () => {
    const script = 'exec "$0" "$@" 2>/dev/full';
    const child = spawn('sh', ['-c', script, process.execPath, WRITER, '100']);
    const exited = once(child, 'exit');
    try {
      await Promise.race([once(child.stdout, 'data'), exited]);
      child.stdin.end();
      expect(await exited).to.deep.equal([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('LOG-11 lines above 16 MB are dropped, and the log says how many', async () => {
    const child = spawn(process.execPath, [WRITER, String(LINES)]);
    try {
      await once(child.stdout, 'data');
      let text = '';
      child.stderr.setEncoding('utf8').on('data', (more) => (text += more));
      await until('the number of dropped lines', () => /"lines":\d+.*\n$/.test(text.slice(-500)));
      const lines = text.trimEnd().split('\n');
      const { lines: dropped } = JSON.parse(lines.pop() ?? '');
      expect(dropped).to.be.above(0);
      expect(lines.length + dropped).to.equal(LINES);
      expect(text.length).to.be.within(15 * MEGABYTE, 17 * MEGABYTE);
      child.stdin.end();
      expect(await once(child, 'exit')).to.deep.equal([0, null]);
    } finally {
      child.kill('SIGKILL');
    }
  });
});
