import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { freePorts, reservePort } from './support/free-ports.ts';

const MODULE = new URL('support/free-ports.ts', import.meta.url).href;

describe('The free ports of tests', () => {
  it('are not given to another run of tests before they are in use', async () => {
    const source = `
      import { freePorts } from '${MODULE}';
      console.log(String(await freePorts(1)));
      process.stdin.resume();`;
    const other = spawn(process.execPath, ['--input-type=module', '--eval', source]);
    const [data] = await once(other.stdout, 'data');
    const port = Number(String(data));
    expect(port).to.be.above(10_000);
    expect(await reservePort(port)).to.equal(false);
    other.stdin.end();
    await once(other, 'exit');
    expect(await reservePort(port)).to.equal(true);
    const more = await freePorts(50);
    expect(new Set([port, ...more]).size).to.equal(51);
  });
});
