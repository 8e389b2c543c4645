import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { expect } from 'chai';
import { addressOf, mint } from '../links/minted-tokens/minting.ts';
import { spawnGatehouse } from '../management/command-line.ts';
import { readAllAudit } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { createDeployment, type Deployment, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

/** In bytes. The files of the store are larger, so that every write to them fails, as on a disk that takes nothing any more. */
const MAX_FILE = 4096;

describe('The audit log on a disk that takes no writes (sqlite)', () => {
  let place: Deployment;
  let system: System;
  let server: ReturnType<typeof spawnGatehouse>;
  before(async () => {
    place = await createDeployment();
    server = spawnGatehouse(['start'], { PATH: process.env.PATH ?? '', ...place.environment });
    server.stdout.resume();
    server.stderr.resume();
    const stop = async () => {
      const exited = once(server, 'exit');
      server.kill();
      await exited;
    };
    system = { ...place.facts, signalStore: place.signalStore, stop };
    await until('the server', async () => {
      const answer = await fetch(`${system.management}/livez`).catch(() => undefined);
      return answer?.ok;
    });
  });
  after(async () => {
    await system?.stop();
    await place?.release();
  });

  /** Of Debian's package util-linux, which every installation has. */
  const limitFiles = (bytes: number | 'unlimited') =>
    execFileSync('prlimit', ['--pid', String(server.pid), `--fsize=${bytes}:unlimited`]);

  it('refuses calls of level full, lets others pass, and has these later', async () => {
    const full = await mint(system, { level: 'full' });
    const lower = await mint(system, { level: 'admin' });
    const call = ({ token }: { token: string }) =>
      callTool(addressOf(system), token, 'member_contact', { memberId: 'M0001' });
    limitFiles(MAX_FILE);
    for (let times = 0; times < 3; times += 1) {
      expect((await call(full)).rpc?.error?.message).to.match(/must be recorded/);
      expect((await call(lower)).rpc?.result?.structuredContent).to.include.keys('email');
    }
    limitFiles('unlimited');
    expect((await call(full)).rpc?.result?.structuredContent).to.include.keys('email');
    const outcomes = await until('all calls', async () => {
      const items = (await readAllAudit(system)).filter(({ event }) => event === 'call');
      const found = items.map(({ level, outcome }) => `${level} ${outcome}`).toSorted();
      return found.length >= 5 && found.includes('full answered') && found;
    });
    expect(outcomes.filter((text) => text.startsWith('admin'))).to.deep.equal(
      Array.from({ length: 3 }, () => 'admin answered'),
    );
    expect(outcomes).to.include.members(['full answered', 'full refused']);
  });
});
