// The contract of replacing the root secret, and of converting a store of version 0.1.0, run on each database.
import { assert, expect } from 'chai';
import { type ByteStore, FIELD_LENGTH } from '../../src/store/byte-store.ts';
import { type NewLogEntry, type Store, StoreUnavailable } from '../../src/store/store.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import type { StoreTimeouts } from '../../src/store/timeout.ts';
import { openStoredKeys } from '../../src/store/stored-keys.ts';
import { rewrapStore } from '../../src/store/rewrap.ts';
import { addMembers } from './contract-fixture.ts';
import { createStoreOfVersion1, keysOfVersion1 } from './version-1-store.ts';
import { createEncryption } from '../../src/store/encryption.ts';
import { memberPlace } from '../../src/store/encrypted-store.ts';
import { until } from '../support/until.ts';
import { rewrapAll, watchRewrapping } from './watch-rewrapping.ts';

export type Database = {
  /** `timeouts` are those of a busy machine unless given. */
  open(options: {
    secret: string;
    previousSecret?: string;
    timeouts?: StoreTimeouts;
  }): Promise<OpenedStore>;
  openBytes(): Promise<ByteStore>;
  /** When each record expires, in seconds since the epoch by the local clock, by its name in the database. */
  expiries(): Promise<Map<string, number>>;
  close(): Promise<void>;
};

export const OLD = 'the old root secret, which is long enough';
export const NEW = 'the new root secret, which is long enough';
const NEWEST = 'the newest root secret, which is long enough';
export const BOTH = { secret: NEW, previousSecret: OLD };

const LONG = 600;
const VALUES = 150;
const MEMBERS = 130;
const ENTRIES = 120;
const RACERS = 20;
const ROUNDS = 5;
/** How many of each a store has. */
type Size = { values: number; members: number; entries: number };
const FULL = { values: VALUES, members: MEMBERS, entries: ENTRIES };
const SMALL = { values: 3, members: 2, entries: 2 };

const countIn = ({ values, members, entries }: Size) => values + members + 2 * entries + 2;
const ALL = countIn(FULL);
/** The record of the keys counts too. */
const clean = (count: number) => ({
  total: count + 1,
  done: count + 1,
  remaining: 0,
  failed: 0,
  unreadable: [],
});
const CLEAN = clean(ALL);

/** Each test has an empty database, which is closed afterwards. The result is for further tests in the same `describe`. */
export function rewrapContract(start: () => Promise<Database>): () => Database {
  let database: Database;
  beforeEach(async () => {
    database = await start();
  });
  afterEach(() => database?.close());

  async function fill(store: Store, size: Size = FULL): Promise<void> {
    const numbers = Array.from({ length: size.values }, (_, i) => i);
    await Promise.all(numbers.map((i) => store.set(`thing:${i}`, { number: i }, LONG)));
    await addMembers(store, 'members:many', size.members);
    await store.set('lasting:value', 'for ever', Infinity);
    await store.addMember('lasting:set', 'ada', Infinity);
    const entries = Array.from({ length: size.entries }, (_, i): NewLogEntry<string> => ({
      value: `entry ${i}`,
      part: 'lasting',
      time: i,
      terms: [`term ${i}`],
    }));
    await store.appendLog('log:1', entries);
    for (let i = 0; i < size.entries; i += 1) await store.append('stream:1', `item ${i}`, LONG);
  }

  /** A store of version 0.1.0. */
  async function earlier(size: Size = FULL): Promise<void> {
    const bytes = await database.openBytes();
    await fill(await createStoreOfVersion1(bytes, OLD), size);
  }

  async function countFound(store: Store): Promise<number> {
    const keys = Array.from({ length: VALUES }, (_, i) => `thing:${i}`);
    const values = await Promise.all(keys.map((key) => store.get<{ number: number }>(key)));
    const right = values.filter((found, i) => found?.value.number === i).length;
    const members = await store.members('members:many');
    const lasting = (await store.get('lasting:value'))?.value === 'for ever' ? 1 : 0;
    const log = await store.readLog<string>('log:1', { after: 0, limit: 1000 });
    const stream = await store.range<string>('stream:1', { limit: 1000 });
    const entries = [
      ...log.map(({ value }, i) => value === `entry ${i}`),
      ...stream.map(({ value }, i) => value === `item ${i}`),
    ].filter(Boolean);
    const others = (await store.members('lasting:set')).length + entries.length;
    return right + members.length + lasting + others;
  }

  /** How many records, members and entries the root secrets of version 0.1.0 decrypt. */
  async function openedBy(secret: string): Promise<number> {
    const bytes = await database.openBytes();
    const encryption = createEncryption(keysOfVersion1([secret]));
    let opened = 0;
    for await (const _count of bytes.rewrite((encrypted, { name, field }) => {
      const place = field === undefined ? name : memberPlace(name, field);
      if (encryption.decrypt(place, encrypted) !== undefined) opened += 1;
      return undefined;
    }));
    return opened;
  }

  const refusal = (secrets: { secret: string; previousSecret?: string }) =>
    database.open(secrets).then(
      () => 'opened',
      (error: Error) => error.message,
    );

  it('a store of version 0.1.0 is read at once, and after a pass the root secrets open no record of it', async () => {
    await earlier();
    const store = await database.open(BOTH);
    assert.equal(await countFound(store), ALL);
    assert.equal(await openedBy(OLD), ALL);
    const { lines, progress } = await rewrapAll(store);
    assert.deepEqual(progress, CLEAN);
    assert.include(
      lines.map(({ message }) => message),
      'no record is encrypted with older keys any more',
    );
    assert.equal(await openedBy(OLD), 0);
    assert.equal(await openedBy(NEW), 0);
    assert.equal(await countFound(await database.open({ secret: NEW })), ALL);
    assert.match(await refusal({ secret: OLD }), /was replaced, and opens nothing any more/);
    assert.match(
      await refusal({ secret: OLD, previousSecret: NEW }),
      /the current and the previous root secret are exchanged/,
    );
  });

  it('the conversion of a store of version 0.1.0 keeps TTLs, numbers and ids', async () => {
    await earlier();
    const store = await database.open(BOTH);
    const facts = async () => ({
      blocks: await store.readLogBlocks('log:1', { part: 'lasting', limit: 9, after: 0 }),
      log: (await store.readLog('log:1', { after: 0, limit: 1000 })).map((entry) => entry),
      ids: (await store.range('stream:1', { limit: 1000 })).map(({ id }) => id),
    });
    const [before, factsBefore] = [await database.expiries(), await facts()];
    await rewrapAll(store);
    const after = await database.expiries();
    assert.isAbove(before.size, VALUES);
    assert.sameMembers([...after.keys()], [...before.keys()]);
    for (const [name, expiry] of before) {
      if (expiry === Infinity) assert.equal(after.get(name), Infinity, name);
      else assert.closeTo(after.get(name) ?? 0, expiry, 2, name);
    }
    assert.include([...after.values()], Infinity);
    assert.deepEqual(await facts(), factsBefore);
  });

  it('the root secret is replaced twice, and everything stays readable with the newest alone', async () => {
    await fill(await database.open({ secret: OLD }));
    const signed = (await database.open({ secret: OLD })).keyRing('cookies')[0];
    for (const secrets of [BOTH, { secret: NEWEST, previousSecret: NEW }]) {
      const store = await database.open(secrets);
      assert.deepEqual(await store.rewrap.run({ waitMs: 60_000 }), CLEAN);
    }
    const store = await database.open({ secret: NEWEST });
    assert.equal(await countFound(store), ALL);
    assert.isTrue(store.keyRing('cookies')[0].equals(signed), 'the keys of cookies are the same');
    for (const secret of [OLD, NEW])
      assert.match(await refusal({ secret }), /was replaced, and opens nothing any more/);
    assert.equal(await openedBy(OLD), 0);
  });

  it('a root secret that is replaced again before the first pass opens the store, and one pass ends both others', async () => {
    await earlier();
    await database.open(BOTH);
    const store = await database.open({ secret: NEWEST, previousSecret: NEW });
    assert.equal(await countFound(store), ALL);
    assert.deepEqual(await store.rewrap.run({ waitMs: 60_000 }), CLEAN);
    for (const secret of [OLD, NEW]) {
      assert.match(await refusal({ secret }), /was replaced, and opens nothing any more/);
      assert.equal(await openedBy(secret), 0);
    }
    assert.equal(await countFound(await database.open({ secret: NEWEST })), ALL);
  });

  it('until the pass, processes with the old root secret start, and the pass runs only where the new one is', async () => {
    const before = await database.open({ secret: OLD });
    await database.open(BOTH);
    const late = await database.open({ secret: OLD });
    await late.set('thing:late', 'written with the old root secret', LONG);
    const error = await late.rewrap.run({ waitMs: 60_000 }).then(
      () => assert.fail('the pass ran'),
      (thrown: Error) => thrown,
    );
    assert.match(error.message, /this process has an earlier root secret than the store/);
    const store = await database.open(BOTH);
    assert.equal((await store.rewrap.run({ waitMs: 60_000 })).remaining, 0);
    await before.ping();
    await before.set('thing:later', 'written by a process that still runs', LONG);
    const after = await database.open({ secret: NEW });
    assert.equal((await after.get('thing:late'))?.value, 'written with the old root secret');
    assert.equal((await after.get('thing:later'))?.value, 'written by a process that still runs');
  });

  it('a process whose root secret was replaced leaves the keys of a converted store to those with the new one', async () => {
    await earlier(SMALL);
    const bytes = await database.openBytes();
    let readings = 0;
    const counted: ByteStore = {
      ...bytes,
      compareAndSwap(...each) {
        readings += 1;
        return bytes.compareAndSwap(...each);
      },
    };
    const { keys } = await openStoredKeys(counted, { secret: OLD }, '0.2.0');
    const store = await database.open(BOTH);
    assert.equal((await store.rewrap.run({ waitMs: 60_000 })).remaining, 0);
    const opened = readings;
    const rewrap = rewrapStore(counted, keys, { secret: OLD });
    const watched = watchRewrapping({ rewrap }, { follow: 0.01 });
    await until('the process to follow the keys several times', () => readings > opened + 10);
    await watched.stop();
    assert.deepEqual(watched.lines, []);
    const error = await keys.change((state) => state).catch((thrown: unknown) => thrown);
    assert.instanceOf(error, StoreUnavailable);
    assert.equal(await refusal({ secret: NEW }), 'opened');
    assert.match(await refusal({ secret: OLD }), /was replaced/);
  });

  it('a process whose root secret was replaced is not ready once others use data keys that it does not know', async () => {
    const before = await database.open({ secret: OLD });
    const store = await database.open(BOTH);
    const watched = watchRewrapping(store, { follow: 0.01, settle: 0.1 });
    assert.equal((await store.rewrap.run({ waitMs: 60_000 })).remaining, 0);
    await before.ping();
    await store.rewrap.run({ newDataKeys: true, waitMs: 60_000 });
    await watched.stop();
    const error: unknown = await before.ping().catch((thrown: unknown) => thrown);
    assert.instanceOf(error, StoreUnavailable);
    assert.match(
      String(error.cause),
      /restart this process with the root secret in force as GATEHOUSE_SECRET/,
    );
    await (await database.open({ secret: NEW })).ping();
  });

  it('a start with the new root secret alone ends the old one', async () => {
    await fill(await database.open({ secret: OLD }));
    await database.open(BOTH);
    const { progress } = await rewrapAll(await database.open({ secret: NEW }));
    assert.deepEqual(progress, CLEAN);
    assert.match(await refusal({ secret: OLD }), /was replaced/);
  });

  it('a call while a pass runs waits for that pass, and starts no other', async () => {
    await fill(await database.open({ secret: OLD }), SMALL);
    const bytes = await database.openBytes();
    const released = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    let passes = 0;
    const slow: ByteStore = {
      ...bytes,
      async *rewrite(transform) {
        passes += 1;
        begun.resolve();
        await released.promise;
        yield* bytes.rewrite(transform);
      },
    };
    const { keys } = await openStoredKeys(slow, BOTH, '0.2.0');
    const rewrap = rewrapStore(slow, keys, BOTH);
    assert.isAbove((await rewrap.run({ waitMs: 0 })).remaining, 0);
    await begun.promise;
    assert.isAbove((await rewrap.run({ waitMs: 0 })).remaining, 0);
    // It follows the keys first, so that it is surely called while the pass runs.
    const last = rewrap.run({ waitMs: 60_000 });
    await keys.follow();
    released.resolve();
    assert.deepEqual(await last, clean(countIn(SMALL)));
    assert.equal(passes, 1);
  });

  it('a pass goes on past records that cannot be read, counts them and names them', async () => {
    await earlier();
    const bytes = await database.openBytes();
    const names: string[] = [];
    for await (const _count of bytes.rewrite((encrypted, { name, field, entry }) => {
      if (!name.startsWith('thing:') && !name.startsWith('log:')) return undefined;
      if (field !== undefined || (entry ?? '7') !== '7' || names.includes(name)) return undefined;
      if (names.length === 2) return undefined;
      names.push(name);
      return Buffer.concat([encrypted, Buffer.of(0)]);
    }));
    const store = await database.open(BOTH);
    for (let run = 0; run < 2; run += 1) {
      const { unreadable, ...counts } = await store.rewrap.run({ waitMs: 60_000 });
      assert.deepEqual(counts, { total: ALL + 1, done: ALL - 1, remaining: 0, failed: 2 });
      assert.sameMembers(
        unreadable.map((text) => text.split(' ')[0] ?? ''),
        names,
      );
    }
  });

  it('with new data keys, everything is encrypted again, and the keys of before open and verify nothing', async () => {
    const other = await database.open({ secret: OLD });
    await fill(other);
    const otherWatched = watchRewrapping(other, { follow: 0.01, settle: 0.2 });
    const [signed] = other.keyRing('cookies');
    const before = await openStoredKeys(await database.openBytes(), { secret: OLD }, '0.2.0');
    const copied = before.keys.encryption;
    const store = await database.open({ secret: OLD });
    const watched = watchRewrapping(store, { follow: 0.01, settle: 0.2 });
    const progress = await store.rewrap.run({ newDataKeys: true, waitMs: 60_000 });
    assert.deepEqual(progress, CLEAN);
    assert.equal(await countFound(other), ALL);
    await other.set('thing:since', 1, LONG);
    await watched.stop();
    await otherWatched.stop();
    let opened = 0;
    const bytes = await database.openBytes();
    for await (const _count of bytes.rewrite((encrypted, { name, field }) => {
      const place = field === undefined ? name : memberPlace(name, field);
      if (copied.decrypt(place, encrypted) !== undefined) opened += 1;
      return undefined;
    }));
    assert.equal(opened, 0);
    const after = await database.open({ secret: OLD });
    assert.equal(await countFound(after), ALL);
    assert.isFalse(after.keyRing('cookies').some((key) => key.equals(signed)));
  });

  it('a replacement that is killed at any of its writes is finished by the next start', async () => {
    /** A database whose process is killed before its write number `last`. */
    const killedAt = async (last: number) => {
      const bytes = await database.openBytes();
      let writes = 0;
      let isKilled = false;
      const die = () => {
        isKilled = true;
        throw new Error('killed');
      };
      const counted: ByteStore = {
        ...bytes,
        async compareAndSwap(...swap) {
          // The record exists, so a swap of nothing only reads it.
          writes += swap[1] === undefined ? 0 : 1;
          if (isKilled || writes > last) die();
          return bytes.compareAndSwap(...swap);
        },
        async *rewrite(transform) {
          yield* bytes.rewrite((...each) => {
            const next = isKilled ? undefined : transform(...each);
            if (!next) return undefined;
            writes += 1;
            if (writes <= last) return next;
            isKilled = true;
            return undefined;
          });
          if (isKilled) die();
        },
      };
      return { counted, isKilled: () => isKilled };
    };
    const versions = {
      '0.1.0': () => earlier(SMALL),
      '0.2.0': async () => fill(await database.open({ secret: OLD }), SMALL),
    };
    for (const [version, create] of Object.entries(versions)) {
      let kills = 0;
      for (;;) {
        await database.close();
        database = await start();
        await create();
        const { counted, isKilled } = await killedAt(kills);
        const replacing = openStoredKeys(counted, BOTH, '0.2.0').then(({ keys }) =>
          rewrapStore(counted, keys, BOTH).run({ waitMs: 60_000 }),
        );
        await replacing.catch(() => undefined);
        const store = await database.open(BOTH);
        const { progress } = await rewrapAll(store);
        assert.deepEqual(progress, clean(countIn(SMALL)), `${version}, write ${kills}`);
        assert.equal(await countFound(store), countIn(SMALL));
        assert.match(await refusal({ secret: OLD }), /was replaced/);
        assert.equal(await openedBy(OLD), 0);
        if (!isKilled()) break;
        kills += 1;
      }
      // Opening, each record, the end; or opening and the end.
      assert.equal(kills, version === '0.1.0' ? countIn(SMALL) + 2 : 2);
    }
  });

  it('re-encryption does not overwrite a value that was changed or deleted meanwhile', async () => {
    const bytes = await database.openBytes();
    const [old, encrypted, newer] = ['old', 'old, re-encrypted', 'newer'].map((text) =>
      Buffer.from(text),
    ) as [Buffer, Buffer, Buffer];
    const placed = (text: string) => {
      const field = text.padStart(FIELD_LENGTH, '-');
      return { field, place: field };
    };
    for (const name of ['value:kept', 'value:written', 'value:removed'])
      await bytes.set(name, old, LONG);
    for (const field of ['kept', 'written', 'removed'])
      await bytes.addMember('set:1', { ...placed(field), bytes: old }, LONG);

    const meanwhile: Promise<unknown>[] = [];
    let replaced = 0;
    for await (const count of bytes.rewrite((before, { name, field }) => {
      if (!before.equals(old)) return undefined;
      if (name === 'value:written') meanwhile.push(bytes.set(name, newer, LONG));
      if (name === 'value:removed') meanwhile.push(bytes.delete(name));
      if (field?.includes('written'))
        meanwhile.push(bytes.addMember(name, { ...placed('written'), bytes: newer }, LONG));
      if (field?.includes('removed')) meanwhile.push(bytes.removeMember(name, placed('removed')));
      return encrypted;
    }))
      replaced += count;
    await Promise.all(meanwhile);

    assert.lengthOf(meanwhile, 4);
    assert.equal(replaced, 2);
    assert.deepEqual(await bytes.get('value:kept'), encrypted);
    assert.deepEqual(await bytes.get('value:written'), newer);
    assert.isUndefined(await bytes.get('value:removed'));
    assert.deepEqual(
      new Map((await bytes.members('set:1', '')).members),
      new Map([
        [placed('kept').field, encrypted],
        [placed('written').field, newer],
      ]),
    );
  });

  it('re-encryption loses no write of many concurrent writers', async () => {
    const bytes = await database.openBytes();
    const before = await createStoreOfVersion1(bytes, OLD);
    const keys = Array.from({ length: 5 }, (_, i) => `count:${i}`);
    for (const key of keys) await before.set(key, 0, LONG);
    const store = await database.open(BOTH);
    const increment = (each: OpenedStore, key: string) =>
      each.update<number>(key, (count = 0) => ({ value: count + 1, ttl: LONG }));
    const writers = [await database.open(BOTH), store];
    const watched = watchRewrapping(store);
    for (let round = 0; round < ROUNDS; round++) {
      await Promise.all(
        Array.from({ length: RACERS }, (_, i) => {
          const [writer = store, key = ''] = [writers[i % 2], keys[i % keys.length]];
          return increment(writer, key);
        }),
      );
    }
    await watched.stop();
    await rewrapAll(store);
    const after = await database.open({ secret: NEW });
    for (const key of keys) {
      assert.equal((await after.get(key))?.value, (ROUNDS * RACERS) / keys.length);
    }
  });

  it('two processes can re-encrypt the store at once', async () => {
    await earlier();
    const [first, second] = [await database.open(BOTH), await database.open(BOTH)];
    const ended = await Promise.all([rewrapAll(first), rewrapAll(second)]);
    assert.deepEqual(
      ended.map(({ progress }) => progress),
      [CLEAN, CLEAN],
    );
    assert.equal(await countFound(await database.open({ secret: NEW })), ALL);
  });

  it('a process completes the re-encryption that another process did not finish', async () => {
    await earlier();
    const watched = watchRewrapping(await database.open(BOTH), { report: 0, pause: LONG });
    await watched.line(/in progress/);
    await watched.stop();
    expect(await openedBy(OLD)).to.be.within(1, ALL - 1);
    const { progress } = await rewrapAll(await database.open(BOTH));
    assert.deepEqual(progress, CLEAN);
    assert.equal(await countFound(await database.open({ secret: NEW })), ALL);
  });

  it('a pass says nothing and replaces nothing where the keys are the newest', async () => {
    const store = await database.open({ secret: OLD });
    await fill(store);
    const { lines, progress } = await rewrapAll(store);
    assert.deepEqual(progress, CLEAN);
    assert.isEmpty(lines);
  });

  return () => database;
}
