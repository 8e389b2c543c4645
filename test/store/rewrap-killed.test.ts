// A replacement of the root secret whose process is killed, and repeated.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { openStore } from '../../src/store/open.ts';
import { openSqlite } from '../../src/store/sqlite.ts';
import { SOAK } from '../support/soak.ts';
import { createStoreOfVersion1 } from './version-1-store.ts';
import { NEW, OLD } from './rewrap-contract.ts';

const RECORDS = 20;
/** With SOAK=1, before each of its commits. */
const COMMITS = SOAK ? Array.from({ length: 60 }, (_, n) => n + 1) : [2, 5];
const PROGRAM = join(import.meta.dirname, 'replace-secret.ts');
const KILL = join(import.meta.dirname, '../support/kill-before-commit.ts');

describe('A replacement of the root secret that is killed before one of its commits', () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'rewrap-killed-'));
  });
  afterEach(() => rm(dataDir, { recursive: true }));

  async function createRecords(file: string, version: string): Promise<void> {
    const store =
      version === '0.1.0'
        ? await createStoreOfVersion1(openSqlite(file), OLD)
        : await openStore({ kind: 'sqlite', file }, { secret: OLD, dataDir });
    for (let n = 0; n < RECORDS; n += 1) await store.set(`account:${n}`, { n }, 3600);
    await store.close();
  }

  async function replaceUntil(file: string, commit: number): Promise<unknown> {
    const args = ['--import', KILL, PROGRAM, file, dataDir, NEW, OLD];
    const env = { KILL_AT: String(commit) };
    const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
    const [code, signal] = await once(child, 'close');
    return signal ?? code;
  }

  for (const version of ['0.1.0', '0.2.0'])
    it(`the repeated replacement loses nothing of a store of ${version}, and the previous secret opens nothing`, async () => {
      let kills = 0;
      for (const commit of COMMITS) {
        const file = join(dataDir, `${commit}.sqlite`);
        await createRecords(file, version);
        const end = await replaceUntil(file, commit);
        if (end === 'SIGKILL') kills += 1;
        else expect(end).to.equal(0);
        const address = { kind: 'sqlite', file } as const;
        const store = await openStore(address, { secret: NEW, previousSecret: OLD, dataDir });
        const { remaining, failed } = await store.rewrap.run({ waitMs: 60_000 });
        expect([remaining, failed]).to.deep.equal([0, 0]);
        for (let n = 0; n < RECORDS; n += 1)
          expect((await store.get(`account:${n}`))?.value).to.deep.equal({ n });
        await store.close();
        const old = await openStore(address, { secret: OLD, dataDir }).catch(
          (error: Error) => error.message,
        );
        expect(old).to.match(/was replaced/);
        if (end === 0) break;
      }
      expect(kills).to.be.at.least(2);
      if (SOAK) console.log(`killed before each of ${kills} commits`);
    });
});
