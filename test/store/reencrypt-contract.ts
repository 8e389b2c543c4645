// The contract of re-encryption after a root secret rotation, run on each database.
import { assert, expect } from 'chai';
import { type ByteStore, FIELD_LENGTH } from '../../src/store/byte-store.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import { addMembers } from './contract-fixture.ts';
import { DONE, reencryptAll, watchReencryption } from './watch-reencryption.ts';

export type Database = {
  open(secrets: { secret: string; previousSecret?: string }): Promise<OpenedStore>;
  openBytes(): Promise<ByteStore>;
  /** When each record expires, in seconds since the epoch by the local clock, by its name in the database. */
  expiries(): Promise<Map<string, number>>;
  close(): Promise<void>;
};

export const OLD = 'the old root secret, which is long enough';
export const NEW = 'the new root secret, which is long enough';
export const BOTH = { secret: NEW, previousSecret: OLD };

const LONG = 600;
const VALUES = 150;
const MEMBERS = 130;
const RACERS = 20;
const ROUNDS = 5;

/** Each test has an empty database, which is closed afterwards. The result is for further tests in the same `describe`. */
export function reencryptionContract(start: () => Promise<Database>): () => Database {
  let database: Database;
  beforeEach(async () => {
    database = await start();
  });
  afterEach(() => database?.close());

  async function fill(store: OpenedStore): Promise<void> {
    const numbers = Array.from({ length: VALUES }, (_, i) => i);
    await Promise.all(numbers.map((i) => store.set(`thing:${i}`, { number: i }, LONG)));
    await addMembers(store, 'members:many', MEMBERS);
    await store.set('lasting:value', 'for ever', Infinity);
    await store.addMember('lasting:set', 'ada', Infinity);
  }

  async function filled(): Promise<OpenedStore> {
    await fill(await database.open({ secret: OLD }));
    return database.open(BOTH);
  }

  async function countFound(store: OpenedStore): Promise<number> {
    const keys = Array.from({ length: VALUES }, (_, i) => `thing:${i}`);
    const values = await Promise.all(keys.map((key) => store.get<{ number: number }>(key)));
    const right = values.filter((found, i) => found?.value.number === i).length;
    const members = await store.members('members:many');
    const lasting = (await store.get('lasting:value'))?.value === 'for ever' ? 1 : 0;
    return right + members.length + lasting + (await store.members('lasting:set')).length;
  }

  const ALL = VALUES + MEMBERS + 2;

  it('re-encryption makes every value and member readable with the new secret alone, and logs their number', async () => {
    assert.equal(await reencryptAll(await filled()), ALL);
    assert.equal(await countFound(await database.open({ secret: NEW })), ALL);
  });

  it('re-encryption does not change any TTL', async () => {
    const store = await filled();
    const before = await database.expiries();
    await reencryptAll(store);
    const after = await database.expiries();
    assert.isAbove(before.size, VALUES);
    assert.sameMembers([...after.keys()], [...before.keys()]);
    for (const [name, expiry] of before) {
      if (expiry === Infinity) assert.equal(after.get(name), Infinity, name);
      else assert.closeTo(after.get(name) ?? 0, expiry, 2, name);
    }
    assert.include([...after.values()], Infinity);
  });

  it('re-encryption leaves streams unchanged: older entries are readable only with the previous secret', async () => {
    await (await database.open({ secret: OLD })).append('stream:1', 'from before', LONG);
    const store = await database.open(BOTH);
    await reencryptAll(store);
    await store.append('stream:1', 'from after', LONG);
    const entries = async (each: OpenedStore) =>
      (await each.range<string>('stream:1', { limit: 9 })).map(({ value }) => value);
    assert.deepEqual(await entries(store), ['from before', 'from after']);
    assert.deepEqual(await entries(await database.open({ secret: NEW })), [
      undefined,
      'from after',
    ]);
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
    for await (const count of bytes.rewrite((before, name, field) => {
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
    const before = await database.open({ secret: OLD });
    const keys = Array.from({ length: 5 }, (_, i) => `count:${i}`);
    for (const key of keys) await before.set(key, 0, LONG);
    const store = await database.open(BOTH);
    const increment = (each: OpenedStore, key: string) =>
      each.update<number>(key, (count = 0) => ({ value: count + 1, ttl: LONG }));
    // Writers with the old secret keep producing values to re-encrypt.
    const writers = [await database.open({ secret: OLD, previousSecret: NEW }), store];
    const watched = watchReencryption(store, { repeat: 0 });
    for (let round = 0; round < ROUNDS; round++) {
      await Promise.all(
        Array.from({ length: RACERS }, (_, i) => {
          const [writer = store, key = ''] = [writers[i % 2], keys[i % keys.length]];
          return increment(writer, key);
        }),
      );
    }
    await watched.stop();
    await reencryptAll(store);
    const after = await database.open({ secret: NEW });
    for (const key of keys) {
      assert.equal((await after.get(key))?.value, (ROUNDS * RACERS) / keys.length);
    }
  });

  it('two processes can re-encrypt the store at once', async () => {
    const [first, second] = [await filled(), await database.open(BOTH)];
    const counts = await Promise.all([reencryptAll(first), reencryptAll(second)]);
    assert.equal(counts[0] + counts[1], ALL);
    assert.equal(await countFound(await database.open({ secret: NEW })), ALL);
  });

  it('a process completes the re-encryption that another process did not finish', async () => {
    const store = await filled();
    const stopped = watchReencryption(store, { report: 0, pause: LONG });
    await stopped.line(/in progress/);
    await stopped.stop();
    const found = await countFound(await database.open({ secret: NEW }));
    expect(found).to.be.within(1, ALL - 1);
    assert.equal(await reencryptAll(await database.open(BOTH)), ALL - found);
    assert.equal(await countFound(await database.open({ secret: NEW })), ALL);
  });

  it('re-encryption repeats, to cover values that a process with the old secret wrote late', async () => {
    const late = await database.open({ secret: OLD, previousSecret: NEW });
    const watched = watchReencryption(await database.open(BOTH), { repeat: 0.02 });
    await watched.line(DONE);
    await late.set('thing:late', 'written late', LONG);
    const { details } = await watched.line(DONE, 2);
    await watched.stop();
    assert.deepEqual(details, { reencrypted: 1 });
    const after = await database.open({ secret: NEW });
    assert.equal((await after.get('thing:late'))?.value, 'written late');
  });

  it('re-encryption changes nothing if both secrets are the same', async () => {
    await fill(await database.open({ secret: OLD }));
    const same = await database.open({ secret: OLD, previousSecret: OLD });
    assert.equal(await reencryptAll(same), 0);
  });

  it('re-encryption does not start without a previous secret', async () => {
    const watched = watchReencryption(await database.open({ secret: OLD }));
    await watched.stop();
    assert.isEmpty(watched.lines);
  });

  return () => database;
}
