// The comparison with peers: what its command takes, what it installs, and that its document has a result for everything it asks.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { CHECKS } from './checks.ts';
import { IMPLEMENTATIONS } from './implementations.ts';
import { FLOWS } from './flows.ts';
import { PART_TIMEOUT_MS, withTimeout } from './time-limits.ts';
import { readOptions } from './options.ts';

const read = (path: string) => readFileSync(join(import.meta.dirname, path), 'utf8');

describe('the comparison with peers', () => {
  it('says in its help whom it compares', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      join(import.meta.dirname, 'compare.ts'),
      '--help',
    ]);
    for (const { id, name } of IMPLEMENTATIONS) expect(stdout).to.include(id).and.include(name);
  });

  it('compares Gatehouse on Redis with those that are asked for alone', () => {
    const { implementations } = readOptions(['--only', 'better-auth'], IMPLEMENTATIONS);
    expect(implementations.map(({ id }) => id)).to.deep.equal(['gatehouse-redis', 'better-auth']);
    expect(readOptions([], IMPLEMENTATIONS).implementations).to.have.length(IMPLEMENTATIONS.length);
  });

  it('refuses a peer that it does not know, and says which it knows', () => {
    expect(() => readOptions(['--only', 'nobody'], IMPLEMENTATIONS)).to.throw(
      /better-auth.*not nobody/,
    );
  });

  it('gives up on a server that hangs', async () => {
    const hanging = withTimeout(5, () => new Promise(() => undefined));
    const error = await hanging.catch((reason: unknown) => reason);
    expect(error).to.match(/not done within 0.005 s/);
    expect(await withTimeout(PART_TIMEOUT_MS, async () => 'done')).to.equal('done');
  });

  it('installs versions that are pinned, by the command alone', () => {
    const { dependencies } = JSON.parse(read('installed/package.json'));
    const { packages } = JSON.parse(read('installed/package-lock.json'));
    expect(dependencies).to.include.keys('better-auth', 'mcp-oauth-server', 'miniflare');
    for (const [name, version] of Object.entries(dependencies))
      expect(packages[`node_modules/${name}`].version).to.equal(version);
  });

  it('has a document with a mark or a figure for everything and everybody', () => {
    const document = read('README.md');
    const [marks = '', figures = ''] = document.split('### Flows');
    const rows = CHECKS.flatMap((check) => check.rows);
    for (const row of rows) expect(marks).to.include(`| ${row} `);
    for (const { name } of IMPLEMENTATIONS) expect(marks).to.include(`| ${name} `);
    for (const flow of [FLOWS.register, FLOWS.authorize, FLOWS.exchange, FLOWS.refresh(64)])
      for (const { name } of IMPLEMENTATIONS)
        expect(figures.replace(/ +/g, ' ')).to.include(`| ${flow} | ${name} |`);
  });
});
