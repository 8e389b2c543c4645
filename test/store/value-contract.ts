import { assert, expect } from 'chai';
import type { Found, Store } from '../../src/store/store.ts';
import { until } from '../support/until.ts';
import { BRIEF, LONG, rejection, type ContractFixture } from './contract-fixture.ts';

export function testValues(fixture: ContractFixture): void {
  const { race, untilExpired } = fixture;

  describe('Values in the store', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      second = fixture.second();
      key = fixture.key();
    });

    it('every instance reads a value as it was written', async () => {
      const value = { text: 'naïve 🚪 門 \u0000 "', list: [1, null, { deep: true }], zero: 0 };
      await store.set(key, value, LONG);
      assert.deepEqual((await store.get(key))?.value, value);
      assert.deepEqual((await second.get(key))?.value, value);
    });
    it('an id can contain any characters and have any length', async () => {
      const odd = `thing:門 {a}\r\n${'x'.repeat(5000)}`;
      await store.set(odd, 1, LONG);
      assert.equal((await store.get(odd))?.value, 1);
    });
    it('a value can be false, zero, empty or null', async () => {
      for (const value of [false, 0, '', null]) {
        await store.set(key, value, LONG);
        assert.strictEqual((await store.get(key))?.value, value);
      }
    });
    it('many values are read in the order of their keys, without those that are absent', async () => {
      const keys = Array.from({ length: 450 }, (_, n) => `${key} ${n}`);
      const written = keys.map((each, n) => (n % 3 === 0 ? undefined : store.set(each, n, LONG)));
      await Promise.all(written);
      const expected = keys.map((_, n) => (n % 3 === 0 ? undefined : n));
      assert.deepEqual(await second.getMany(keys), expected);
      assert.deepEqual(await store.getMany([]), []);
    });
    it('values that were seen are returned as they were until others are stored or they are deleted', async () => {
      const [same, changed, deleted] = [`${key} 1`, `${key} 2`, `${key} 3`];
      const keys = [same, changed, deleted];
      for (const each of keys) await store.set(each, { of: each }, LONG);
      const seen = new Map<string, Found<{ of: string }>>();
      const [before] = await store.getMany(keys, seen);
      await second.set(changed, { of: 'another' }, LONG);
      await second.delete(deleted);
      const after = await store.getMany(keys, seen);
      assert.deepEqual(after, [{ of: same }, { of: 'another' }, undefined]);
      assert.strictEqual(after[0], before);
      assert.sameMembers([...seen.keys()], [same, changed]);
    });
    it('set replaces an existing value', async () => {
      await store.set(key, 'first', LONG);
      await store.set(key, 'second', LONG);
      assert.equal((await store.get(key))?.value, 'second');
    });
    it('a value is absent before it is written and after it is deleted', async () => {
      assert.isUndefined(await store.get(key));
      await store.set(key, 1, LONG);
      await store.delete(key);
      assert.isUndefined(await store.get(key));
    });
    it('a value is absent after its TTL', async () => {
      await store.set(key, 1, BRIEF);
      await untilExpired(key);
    });
    it('a value with a TTL of zero or less expires at once', async () => {
      await store.set(key, 1, -5);
      await untilExpired(key);
    });
    it('a value with a TTL of Infinity never expires, also if it had a short TTL before', async () => {
      await store.set(key, 1, BRIEF);
      await store.set(key, 2, Infinity);
      await store.set(`${key} marker`, 1, BRIEF * 2);
      await untilExpired(`${key} marker`);
      assert.equal((await store.get(key))?.value, 2);
    });
    it('a TTL that is not a number and a key without a kind are rejected', async () => {
      expect(await rejection(store.set(key, 1, NaN))).to.be.instanceOf(TypeError);
      expect(await rejection(store.set('no kind', 1, LONG))).to.be.instanceOf(TypeError);
    });
  });

  describe('The store verb add', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      key = fixture.key();
    });

    it('add writes only if the key is free', async () => {
      assert.isTrue(await store.add(key, 'first', LONG));
      assert.isFalse(await store.add(key, 'second', LONG));
      assert.equal((await store.get(key))?.value, 'first');
    });
    it('add writes if the previous value has expired', async () => {
      await store.set(key, 'old', BRIEF);
      await until('the key to be free', () => store.add(key, 'new', LONG));
      assert.equal((await store.get(key))?.value, 'new');
    });
    it('exactly one of many concurrent adds succeeds, also if all write the same value', async () => {
      const answers = await race((each) => each.add(key, 'the same', LONG));
      assert.equal(answers.filter(Boolean).length, 1);
    });
    it('a value that add writes is in sets, whether it was written or the key was taken', async () => {
      const lists = ['list', 'other list'].map((name) => `${name}:${key}`);
      const added = (member: string) => lists.map((list) => ({ key: list, member, ttl: LONG }));
      assert.isTrue(await store.add(key, 'first', LONG, added('1.first')));
      assert.isFalse(await store.add(key, 'second', LONG, added('2.second')));
      assert.equal((await store.get(key))?.value, 'first');
      for (const list of lists)
        assert.deepEqual(await store.page(list, { limit: 9 }), ['1.first', '2.second']);
    });
    it('a value written by add expires after its TTL', async () => {
      await store.add(key, 1, BRIEF);
      await untilExpired(key);
    });
  });

  describe('The store verb take', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      key = fixture.key();
    });

    it('take returns and deletes the value', async () => {
      await store.set(key, 'once', LONG);
      assert.equal(await store.take(key), 'once');
      assert.isUndefined(await store.take(key));
      assert.isUndefined(await store.get(key));
    });
    it('exactly one of many concurrent takes gets the value', async () => {
      await store.set(key, 'once', LONG);
      const answers = await race((each) => each.take(key));
      assert.deepEqual(
        answers.filter((answer) => answer !== undefined),
        ['once'],
      );
    });
    it('take does not return an expired value', async () => {
      await store.set(key, 1, BRIEF);
      await untilExpired(key);
      assert.isUndefined(await store.take(key));
    });
  });
}
