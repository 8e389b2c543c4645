// A new, empty store never takes the place of an earlier one unnoticed.
import { rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { z } from 'zod';
import { parseStoreAddress } from '../../src/settings/addresses.ts';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import { runServer } from '../support/main-process.ts';
import { restartSystem } from '../support/restart.ts';
import {
  createDeployment,
  type Deployment,
  type LogLine,
  STORES,
  startDeployment,
} from '../support/system.ts';

const STORE_ADDRESS = z.string().transform(parseStoreAddress);
const READY = /is running/;
const KEY = 'a key that an earlier start has generated';

describe('A start with a store that is new and empty', () => {
  let place: Deployment;
  beforeEach(async () => {
    place = await createDeployment();
  });
  afterEach(() => place.release());

  const file = () => place.facts.storeAddress.replace('sqlite:', '');
  const start = (...options: string[]) =>
    runServer({ ...place.environment, GATEHOUSE_LOG_LEVEL: 'info' }, READY, options);
  /** Starts in this process, which takes a tenth of the time. Returns what the log says of a new store. */
  async function startHere(newStore = false): Promise<string[]> {
    const log: LogLine[] = [];
    const system = await startDeployment(place, {}, { log, newStore });
    await system.stop();
    return log.map(({ msg }) => String(msg)).filter((msg) => msg.includes('a new, empty store'));
  }
  const refusal = (key: string) =>
    `the store at ${file()} is empty, but ${key} is from an earlier start. Check dataDir and GATEHOUSE_STORE, or restore the backup. To begin with a new, empty store, start once with --new-store`;
  /** A key in the data directory, of a start so many minutes ago. */
  async function keyOf(minutes: number, name = 'management.key') {
    const path = join(place.facts.dataDir, name);
    const at = Date.now() / 1000 - minutes * 60;
    await writeFile(path, KEY);
    await utimes(path, at, at);
    return path;
  }

  it('the first start creates the store, and says so in one line with its path and its id', async () => {
    const { code, stderr } = await start();
    expect(code).to.equal(0);
    const lines = stderr.split('\n').filter((line) => line.includes('a new, empty store'));
    expect(lines).to.have.length(1);
    const line = JSON.parse(lines[0] ?? '') as LogLine;
    expect(line.msg).to.equal(`a new, empty store was created at ${file()}`);
    expect(line.storeId).to.match(/^[0-9a-f]{18}$/);
    expect(await startHere()).to.deep.equal([]);
  });

  it('the start is refused if secret in the data directory is from an earlier start, until --new-store', async () => {
    const key = await keyOf(11, 'secret');
    const { code, stdout, stderr } = await start();
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.equal(`${refusal(key)}\n`);
    const begun = await start('--new-store');
    expect([begun.code, begun.stderr.includes('a new, empty store')]).to.deep.equal([0, true]);
    expect(await startHere()).to.deep.equal([]);
  });

  it('the start is refused if management.key in the data directory is from an earlier start, until --new-store', async () => {
    const key = await keyOf(11, 'management.key');
    const refused = await startHere().then(
      () => 'started',
      (error: Error) => error.message,
    );
    expect(refused).to.equal(refusal(key));
    expect(await startHere(true)).to.have.length(1);
    expect(await startHere()).to.deep.equal([]);
  });

  it('keys of a first start that failed a moment ago refuse nothing', async () => {
    await keyOf(2);
    expect(await startHere()).to.have.length(1);
  });

  it('the start is refused where the settings have storeId, also after the file of the store was lost', async () => {
    const log: LogLine[] = [];
    const first = await startDeployment(place, {}, { log });
    await first.stop();
    const storeId = log.find(({ storeId: id }) => id !== undefined)?.storeId;
    expect(storeId).to.be.a('string');
    const second = await restartSystem(place, { storeId });
    await second.stop();
    for (const suffix of ['', '-wal', '-shm']) await rm(`${file()}${suffix}`, { force: true });
    const lost = await restartSystem(place, { storeId }).then(
      () => 'started',
      (error: Error) => error.message,
    );
    expect(lost).to.include('is empty, but storeId in the settings says that there is one');
  });
});

for (const kind of STORES)
  describe(`The id of a store, on ${kind}`, () => {
    let place: Deployment;
    before(async () => {
      place = await createDeployment({ store: kind });
    });
    after(() => place.release());

    async function withStore<T>(
      options: { storeId?: string; earlier?: string },
      use: (store: OpenedStore) => T,
    ): Promise<T> {
      const store = await openStore(STORE_ADDRESS.parse(place.facts.storeAddress), {
        secret: 'the root secret of this store, long enough',
        dataDir: place.facts.dataDir,
        ...options,
      });
      try {
        return use(store);
      } finally {
        await store.close();
      }
    }

    it('a new store has the id of the settings, keeps it, and is refused where another one is expected', async () => {
      const wanted = await withStore({ storeId: 'club-production' }, ({ id }) => id);
      expect(wanted).to.equal('club-production');
      expect(await withStore({}, ({ id }) => id)).to.equal('club-production');
      const other = await withStore({ storeId: 'club-test' }, ({ id }) => id).catch(
        (error: Error) => error.message,
      );
      expect(other).to.match(
        /^the store at .+ is another one, with the id club-production, and storeId in the settings is club-test\./,
      );
      // What showed that there was a store does not matter where there is one.
      await withStore({ earlier: 'a key is from an earlier start' }, ({ id }) => id);
    });
  });
