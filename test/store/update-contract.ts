// What every store promises of changes to a value: none is lost, however many are made at once.
import { assert } from 'chai';
import { type Change, KEEP, type Store } from '../../src/store/store.ts';
import { BRIEF, LONG, RACERS, rejection, type Subject } from './contract-subject.ts';

const increment: Change<{ count: number }> = (current) => ({
  value: { count: (current?.count ?? 0) + 1 },
  ttl: LONG,
});

export function updatesHold(subject: Subject): void {
  const { race, gone } = subject;

  describe('update', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      second = subject.second();
      key = subject.key();
    });

    it('makes, changes and removes a value, and answers with what is stored', async () => {
      const made = await store.update(key, increment);
      assert.deepEqual(made?.value, { count: 1 });
      const changed = await store.update(key, increment);
      assert.deepEqual(changed, await store.get(key));
      assert.deepEqual(changed?.value, { count: 2 });
      assert.isUndefined(await store.update(key, () => undefined));
      assert.isUndefined(await store.get(key));
    });
    it('leaves what is there, or nothing, when told to keep it', async () => {
      assert.isUndefined(await store.update(key, () => KEEP));
      await store.set(key, 1, LONG);
      assert.equal((await store.update(key, () => KEEP))?.value, 1);
      assert.equal((await store.get(key))?.value, 1);
    });
    it('counts fifty increments as fifty', async () => {
      await race((each) => each.update(key, increment));
      assert.deepEqual((await store.get(key))?.value, { count: RACERS });
    });
    it('is not confused by a value that was replaced by an equal one', async () => {
      await store.set(key, 'same', LONG);
      const seen = await store.get<string>(key);
      await store.set(key, 'same', LONG);
      const given: unknown[] = [];
      const change: Change<string> = (current) => {
        given.push(current);
        return { value: 'next', ttl: LONG };
      };
      await store.update(key, change, seen);
      assert.lengthOf(given, 2);
    });
    it('lets exactly one of fifty that wrote the same value see the old one', async () => {
      await store.set(key, 'old', LONG);
      const seenOld = await race(async (each) => {
        let last: unknown;
        await each.update<string>(key, (current) => {
          last = current;
          return { value: 'new', ttl: LONG };
        });
        return last === 'old';
      });
      assert.equal(seenOld.filter(Boolean).length, 1);
    });
    it('starts from what was seen, and reads again when that is out of date', async () => {
      const seen = await store.update(key, increment);
      await second.update(key, increment);
      assert.deepEqual((await store.update(key, increment, seen))?.value, { count: 3 });
    });
    it('sets the lifetime anew', async () => {
      await store.set(key, { count: 1 }, LONG);
      await store.update<{ count: number }>(
        key,
        (current) => current && { value: current, ttl: BRIEF },
      );
      await gone(key);
    });
    it('makes a value that lives for ever out of one that did not', async () => {
      await store.set(key, 1, LONG);
      await store.update<number>(key, () => ({ value: 2, ttl: Infinity }));
      assert.equal((await second.get(key))?.value, 2);
    });
    it('passes on what the change throws, and stores nothing', async () => {
      const mine = new Error('mine');
      const refuse = () => {
        throw mine;
      };
      assert.strictEqual(await rejection(store.update(key, refuse)), mine);
      assert.isUndefined(await store.get(key));
    });
  });
}
