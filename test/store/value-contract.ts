// What every store promises of single values: read, added, taken, gone when their time is over.
import { assert, expect } from 'chai';
import type { Store } from '../../src/store/store.ts';
import { until } from './condition.ts';
import { BRIEF, LONG, rejection, type Subject } from './contract-subject.ts';

export function valuesHold(subject: Subject): void {
  const { race, gone } = subject;

  describe('values', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      second = subject.second();
      key = subject.key();
    });

    it('are read as they were written, by every instance', async () => {
      const value = { text: 'naïve 🚪 門 \u0000 "', list: [1, null, { deep: true }], zero: 0 };
      await store.set(key, value, LONG);
      assert.deepEqual((await store.get(key))?.value, value);
      assert.deepEqual((await second.get(key))?.value, value);
    });
    it('may have ids in any script and of any length', async () => {
      const odd = `thing:門 {a}\r\n${'x'.repeat(5000)}`;
      await store.set(odd, 1, LONG);
      assert.equal((await store.get(odd))?.value, 1);
    });
    it('may be false, zero, empty or null', async () => {
      for (const value of [false, 0, '', null]) {
        await store.set(key, value, LONG);
        assert.strictEqual((await store.get(key))?.value, value);
      }
    });
    it('replace what was there', async () => {
      await store.set(key, 'first', LONG);
      await store.set(key, 'second', LONG);
      assert.equal((await store.get(key))?.value, 'second');
    });
    it('are absent before they are written and after they are deleted', async () => {
      assert.isUndefined(await store.get(key));
      await store.set(key, 1, LONG);
      await store.delete(key);
      assert.isUndefined(await store.get(key));
    });
    it('are gone when their lifetime is over', async () => {
      await store.set(key, 1, BRIEF);
      await gone(key);
    });
    it('are gone at once with a lifetime of zero or less', async () => {
      await store.set(key, 1, -5);
      await gone(key);
    });
    it('live for ever with a lifetime of Infinity, also after they had a short one', async () => {
      await store.set(key, 1, BRIEF);
      await store.set(key, 2, Infinity);
      await store.set(`${key} marker`, 1, BRIEF * 2);
      await gone(`${key} marker`);
      assert.equal((await store.get(key))?.value, 2);
    });
    it('are refused with a lifetime that is not a number, and without a kind', async () => {
      expect(await rejection(store.set(key, 1, NaN))).to.be.instanceOf(TypeError);
      expect(await rejection(store.set('no kind', 1, LONG))).to.be.instanceOf(TypeError);
    });
  });

  describe('add', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      key = subject.key();
    });

    it('writes where nothing is and leaves alone what is there', async () => {
      assert.isTrue(await store.add(key, 'first', LONG));
      assert.isFalse(await store.add(key, 'second', LONG));
      assert.equal((await store.get(key))?.value, 'first');
    });
    it('writes where something has expired', async () => {
      await store.set(key, 'old', BRIEF);
      await until('add finds the place free', () => store.add(key, 'new', LONG));
      assert.equal((await store.get(key))?.value, 'new');
    });
    it('has exactly one winner of fifty, also when all write the same value', async () => {
      const answers = await race((each) => each.add(key, 'the same', LONG));
      assert.equal(answers.filter(Boolean).length, 1);
    });
    it('keeps what it wrote for its lifetime only', async () => {
      await store.add(key, 1, BRIEF);
      await gone(key);
    });
  });

  describe('take', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      key = subject.key();
    });

    it('reads and deletes', async () => {
      await store.set(key, 'once', LONG);
      assert.equal(await store.take(key), 'once');
      assert.isUndefined(await store.take(key));
      assert.isUndefined(await store.get(key));
    });
    it('gives the value to exactly one of fifty', async () => {
      await store.set(key, 'once', LONG);
      const answers = await race((each) => each.take(key));
      assert.deepEqual(
        answers.filter((answer) => answer !== undefined),
        ['once'],
      );
    });
    it('finds nothing that has expired', async () => {
      await store.set(key, 1, BRIEF);
      await gone(key);
      assert.isUndefined(await store.take(key));
    });
  });
}
