// A replacement of the root secret or of the data keys whose process is killed, and repeated.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Redis } from 'ioredis';
import type { StoreAddress } from '../../src/settings/addresses.ts';
import type { ByteStore } from '../../src/store/byte-store.ts';
import { memberPlace } from '../../src/store/encrypted-store.ts';
import { openStore } from '../../src/store/open.ts';
import { openRedis } from '../../src/store/redis.ts';
import { openSqlite } from '../../src/store/sqlite.ts';
import { openStoredKeys } from '../../src/store/stored-keys.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { recordSoak, SOAK } from '../support/soak.ts';
import { STORES, type StoreKind } from '../support/system.ts';
import type { Replacement } from './replace-secret.ts';
import { createStoreOfVersion1 } from './version-1-store.ts';
import { NEW, OLD } from './rewrap-contract.ts';
import { watchRewrapping } from './watch-rewrapping.ts';
import { STORE_TIMEOUTS } from '../../src/store/timeout.ts';
import { PATIENT_TIMEOUTS } from '../support/scale-out/patient-timeouts.ts';

const RECORDS = 20;
/** With SOAK=1, before each of its writes. */
const WRITES = SOAK ? Array.from({ length: 200 }, (_, n) => n + 1) : [2, 5];
const PROGRAM = join(import.meta.dirname, 'replace-secret.ts');
const KILL = join(import.meta.dirname, '../support/kill-before-write.ts');
const BOTH = { secret: NEW, previousSecret: OLD };

/** A place for stores, of which each use gets an empty one. */
type Place = {
  empty(): Promise<StoreAddress>;
  openBytes(address: StoreAddress): Promise<ByteStore>;
  close(): Promise<void>;
};

const PLACES: Record<StoreKind, (dataDir: string) => Promise<Place>> = {
  async sqlite(dataDir) {
    let files = 0;
    return {
      empty: async () => ({ kind: 'sqlite', file: join(dataDir, `${(files += 1)}.sqlite`) }),
      openBytes: async (address) => openSqlite(address.kind === 'sqlite' ? address.file : ''),
      close: async () => undefined,
    };
  },
  async redis() {
    const server: RedisServer = await startRedis();
    const raw = new Redis(server.url);
    const address = { kind: 'redis', url: server.url } as const;
    return {
      async empty() {
        await raw.flushall();
        return address;
      },
      openBytes: () => openRedis(address, undefined, { ...STORE_TIMEOUTS, ...PATIENT_TIMEOUTS }),
      async close() {
        raw.disconnect();
        await server.stop();
      },
    };
  },
};

for (const kind of STORES)
  describe(`A replacement that is killed before one of its writes, on ${kind}`, function () {
    this.timeout(SOAK ? 900_000 : 60_000);
    let dataDir: string;
    let place: Place;
    before(async () => {
      dataDir = await mkdtemp(join(tmpdir(), 'rewrap-killed-'));
      place = await PLACES[kind](dataDir);
    });
    after(async () => {
      await place?.close();
      await rm(dataDir, { recursive: true });
    });

    async function createRecords(address: StoreAddress, version: string): Promise<void> {
      const store =
        version === '0.1.0'
          ? await createStoreOfVersion1(await place.openBytes(address), OLD)
          : await openStore(address, { secret: OLD, dataDir, timeouts: PATIENT_TIMEOUTS });
      for (let n = 0; n < RECORDS; n += 1) await store.set(`account:${n}`, { n }, 3600);
      await store.close();
    }

    async function killedAt(write: number, replacement: Replacement): Promise<unknown> {
      const args = ['--import', KILL, PROGRAM, JSON.stringify(replacement)];
      const env = { KILL_AT: String(write) };
      const child = spawn(process.execPath, args, { env, stdio: 'ignore' });
      const [code, signal] = await once(child, 'close');
      return signal ?? code;
    }

    /** Kills replacements of new stores one write later each time, up to one that ends by itself. */
    async function killAtEach(
      version: string,
      wanted: Pick<Replacement, 'secrets' | 'newDataKeys'>,
      check: (address: StoreAddress) => Promise<void>,
      prepare: (address: StoreAddress) => Promise<void> = async () => undefined,
    ): Promise<void> {
      let kills = 0;
      for (const write of WRITES) {
        const address = await place.empty();
        await createRecords(address, version);
        await prepare(address);
        const end = await killedAt(write, { address, dataDir, ...wanted });
        if (end === 'SIGKILL') kills += 1;
        else expect(end).to.equal(0);
        await check(address);
        if (end === 0) break;
      }
      expect(kills).to.be.at.least(2);
      const what = wanted.newDataKeys ? 'new data keys' : `root secret of ${version}`;
      recordSoak({ what: `${what}, killed on ${kind}`, held: `before each of ${kills} writes` });
    }

    async function expectRecords(store: Awaited<ReturnType<typeof openStore>>): Promise<void> {
      for (let n = 0; n < RECORDS; n += 1)
        expect((await store.get(`account:${n}`))?.value).to.deep.equal({ n });
    }

    for (const version of ['0.1.0', '0.2.0'])
      it(`the repeated replacement loses nothing of a store of ${version}, and the previous secret opens nothing`, () =>
        killAtEach(version, { secrets: BOTH, newDataKeys: false }, async (address) => {
          const store = await openStore(address, { ...BOTH, dataDir, timeouts: PATIENT_TIMEOUTS });
          const { remaining, failed } = await store.rewrap.run({ waitMs: 60_000 });
          expect([remaining, failed]).to.deep.equal([0, 0]);
          await expectRecords(store);
          await store.close();
          const old = await openStore(address, {
            secret: OLD,
            dataDir,
            timeouts: PATIENT_TIMEOUTS,
          }).catch((error: Error) => error.message);
          expect(old).to.match(/was replaced/);
        }));

    it('repeated new data keys lose nothing, and the keys of before open nothing', () => {
      let before: Awaited<ReturnType<typeof openStoredKeys>>['keys']['encryption'];
      return killAtEach(
        '0.2.0',
        { secrets: { secret: OLD }, newDataKeys: true },
        async (address) => {
          const store = await openStore(address, {
            secret: OLD,
            dataDir,
            timeouts: PATIENT_TIMEOUTS,
          });
          const watched = watchRewrapping(store, { settle: 0.05 });
          const { remaining, failed } = await store.rewrap.run({
            newDataKeys: true,
            waitMs: 60_000,
          });
          expect([remaining, failed]).to.deep.equal([0, 0]);
          await expectRecords(store);
          await watched.stop();
          await store.close();
          const bytes = await place.openBytes(address);
          let opened = 0;
          for await (const _count of bytes.rewrite((encrypted, { name, field }) => {
            const at = field === undefined ? name : memberPlace(name, field);
            if (before.decrypt(at, encrypted) !== undefined) opened += 1;
            return undefined;
          }));
          await bytes.close();
          expect(opened).to.equal(0);
        },
        async (address) => {
          const bytes = await place.openBytes(address);
          const { keys } = await openStoredKeys(bytes, { secret: OLD }, '0.2.0');
          before = keys.encryption;
          await bytes.close();
        },
      );
    });
  });
