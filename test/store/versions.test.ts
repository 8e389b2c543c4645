import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert, expect } from 'chai';
import type { ByteStore } from '../../src/store/byte-store.ts';
import { fingerprintOf, KEYS_RECORD, parseEnvelope } from '../../src/store/data-keys.ts';
import type { RootSecrets } from '../../src/store/key-derivation.ts';
import { networkFileSystem } from '../../src/store/network-file-system.ts';
import { openStore } from '../../src/store/open.ts';
import { openSqlite } from '../../src/store/sqlite.ts';
import { StoreNotOpened, StoreUnavailable } from '../../src/store/store.ts';
import { openStoredKeys, reportKeys } from '../../src/store/stored-keys.ts';
import { version } from '../../src/version.ts';

const SECRET = 'the root secret, which is long enough';
const NEW = 'the new root secret, which is long enough';

describe('The version that wrote the store', () => {
  let dataDir: string;
  let bytes: ByteStore;
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gatehouse-versions-'));
    bytes = openSqlite(join(dataDir, 'gatehouse.sqlite'), {});
  });
  afterEach(async () => {
    await bytes.close();
    await rm(dataDir, { recursive: true, force: true });
  });

  const start = (as: string, secrets: RootSecrets = { secret: SECRET }) =>
    openStoredKeys(bytes, secrets, as);
  const record = async () => JSON.parse(String(await bytes.get(KEYS_RECORD)));
  const versions = async () => {
    const { version: newest, needs } = await record();
    return { newest, needs };
  };

  async function changeRecord(change: object): Promise<void> {
    const stored = await bytes.get(KEYS_RECORD);
    const next = Buffer.from(JSON.stringify({ ...(await record()), ...change }));
    assert.isTrue(await bytes.compareAndSwap(KEYS_RECORD, stored, next, Infinity));
  }

  const messageOf = (opening: Promise<unknown>) =>
    opening.then(
      () => undefined,
      (error: Error) => error.message,
    );

  it('a new store has the version of this program, and a newer program replaces it', async () => {
    const store = await openStore(
      { kind: 'sqlite', file: 'gatehouse.sqlite' },
      { secret: SECRET, dataDir },
    );
    await store.close();
    expect(await versions()).to.deep.equal({ newest: version, needs: '0.2.0' });
    await start('0.10.0');
    expect(await versions()).to.deep.equal({ newest: '0.10.0', needs: '0.2.0' });
  });

  it('programs of adjacent versions use one store, and the older one leaves what the newer one wrote', async () => {
    const older = await start('0.2.0');
    await start('0.3.0');
    await changeRecord({ added: 'later' });
    await older.keys.follow();
    await start('0.2.1');
    await start('0.2.0', { secret: NEW, previousSecret: SECRET });
    expect(await record()).to.include({ version: '0.3.0', needs: '0.2.0', added: 'later' });
    expect((await record()).wrapped).to.have.length(2);
  });

  it('a store that an older program would damage refuses it, names the version to use, and is not changed', async () => {
    await start('0.9.0');
    await changeRecord({ version: '0.11.0', needs: '0.10.0', format: 3 });
    const before = await record();
    for (const older of ['0.2.0', '0.9.9'])
      expect(await messageOf(start(older))).to.equal(
        `the store was written by version 0.11.0 of Gatehouse, and this is ${older}, which would lose something in it: start version 0.10.0 or later, or restore the backup from before the upgrade`,
      );
    expect(await record()).to.deep.equal(before);
  });

  it('a program of the oldest version that the store takes opens it, also as a prerelease', async () => {
    await start('0.9.0');
    await changeRecord({ version: '0.11.0', needs: '0.10.0' });
    await start('0.10.0');
    await start('0.10.0-rc.1');
    expect(await versions()).to.deep.equal({ newest: '0.11.0', needs: '0.10.0' });
  });

  it('a running program stops using a store in which it would lose something', async () => {
    const { keys } = await start('0.2.0');
    await changeRecord({ version: '0.4.0', needs: '0.4.0' });
    for (const use of [keys.follow(), keys.change((state) => state)]) {
      const error: unknown = await use.catch((thrown: unknown) => thrown);
      expect(error).to.be.an.instanceOf(StoreUnavailable);
      expect(error).to.have.nested.property('cause.message').that.includes('start version 0.4.0');
    }
    expect(await versions()).to.deep.equal({ newest: '0.4.0', needs: '0.4.0' });
  });

  it('a damaged record of the keys, or one of a later format, is refused with what to do, also by a running program', async () => {
    const { keys } = await start('0.2.0');
    const whole = await record();
    const later = JSON.stringify({ ...whole, format: 3 });
    for (const text of ['{"format":2', '{"format":2}', later]) {
      await bytes.set(KEYS_RECORD, Buffer.from(text), Infinity);
      const said = 'the record of the keys is damaged or of a later version: restore the backup';
      const refused: unknown = await start('0.2.0').catch((thrown: unknown) => thrown);
      expect(refused).to.be.an.instanceOf(StoreNotOpened);
      expect(refused).to.have.property('message').that.includes(said);
      const error: unknown = await keys.follow().catch((thrown: unknown) => thrown);
      expect(error).to.be.an.instanceOf(StoreUnavailable);
      expect(error).to.have.nested.property('cause.message').that.includes(said);
    }
  });

  it('only a start that creates the store says where', async () => {
    const file = 'new.sqlite';
    const created: (string | undefined)[] = [];
    for (let n = 0; n < 2; n += 1) {
      const store = await openStore({ kind: 'sqlite', file }, { secret: SECRET, dataDir });
      created.push(store.createdAt);
      await store.close();
    }
    expect(created).to.deep.equal([join(dataDir, file), undefined]);
  });

  it('a report on the keys says what a start would say, and writes nothing', async () => {
    const read = async (name: string) => (await bytes.get(name)) ?? null;
    const report = (secrets: RootSecrets & { storeId?: string }) =>
      reportKeys(read, secrets, '0.2.0');
    expect(await report({ secret: SECRET })).to.equal(undefined);
    await start('0.2.0');
    const before = await record();
    const id = parseEnvelope((await read(KEYS_RECORD)) ?? Buffer.of())?.id;
    expect(id).to.match(/^[0-9a-f]{18}$/);
    expect(await report({ secret: SECRET })).to.deep.equal({ id });
    const elsewhere = await report({ secret: SECRET, storeId: 'other' });
    expect(elsewhere?.refusal).to.include(`another one, with the id ${id}`);
    const replacing = await report({ secret: NEW, previousSecret: SECRET });
    expect(replacing?.notice).to.match(/^the previous root secret still opens the store/);
    const exchanged = await report({ secret: SECRET, previousSecret: NEW });
    expect(exchanged?.notice).to.match(/the current and the previous one are exchanged$/);
    const other = await report({ secret: NEW });
    expect(other).to.include({ isOtherSecret: true });
    expect(other?.refusal).to.include(fingerprintOf(SECRET)).and.include(fingerprintOf(NEW));
    expect(await record()).to.deep.equal(before);
    await changeRecord({ version: '0.3.0', needs: '0.3.0' });
    const newer = await report({ secret: SECRET });
    expect(newer).to.include({ isOtherSecret: false });
    expect(newer?.refusal).to.include('start version 0.3.0 or later');
  });
});

describe('The file system of a SQLite store', () => {
  // The numbers of statfs(2).
  it('file systems on other machines are told from local disks, with and without a sign in their type', () => {
    const types = [0x6969, 0xff534d42, 0xff534d42 | 0, 0xfe534d42, 0x517b, 0x65735546];
    expect(types.map(networkFileSystem)).to.deep.equal([
      'NFS',
      'CIFS',
      'CIFS',
      'SMB 2',
      'SMB',
      'FUSE',
    ]);
    const local = { ext4: 0xef53, xfs: 0x58465342, btrfs: 0x9123683e, overlay: 0x794c7630 };
    expect(Object.values(local).map(networkFileSystem).filter(Boolean)).to.deep.equal([]);
  });
});
