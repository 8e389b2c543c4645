import { assert } from 'chai';
import { type Change, KEEP, type Store } from '../../src/store/store.ts';
import { BRIEF, LONG, RACERS, rejection, type ContractFixture } from './contract-fixture.ts';

const increment: Change<{ count: number }> = (current) => ({
  value: { count: (current?.count ?? 0) + 1 },
  ttl: LONG,
});

export function testUpdates(fixture: ContractFixture): void {
  const { race, untilExpired } = fixture;

  describe('The store verb update', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      second = fixture.second();
      key = fixture.key();
    });

    it('update creates, changes and deletes a value, and returns what is stored', async () => {
      const made = await store.update(key, increment);
      assert.deepEqual(made?.value, { count: 1 });
      const changed = await store.update(key, increment);
      assert.deepEqual(changed, await store.get(key));
      assert.deepEqual(changed?.value, { count: 2 });
      assert.isUndefined(await store.update(key, () => undefined));
      assert.isUndefined(await store.get(key));
    });
    it('update with KEEP changes nothing', async () => {
      assert.isUndefined(await store.update(key, () => KEEP));
      await store.set(key, 1, LONG);
      assert.equal((await store.update(key, () => KEEP))?.value, 1);
      assert.equal((await store.get(key))?.value, 1);
    });
    it('many concurrent increments are all applied', async () => {
      await race((each) => each.update(key, increment));
      assert.deepEqual((await store.get(key))?.value, { count: RACERS });
    });
    it('update notices that a value was replaced by an equal one', async () => {
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
    it('exactly one of many concurrent updates with the same value sees the old one', async () => {
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
    it('update starts with the value passed to it, and reads again if that is stale', async () => {
      const seen = await store.update(key, increment);
      await second.update(key, increment);
      assert.deepEqual((await store.update(key, increment, seen))?.value, { count: 3 });
    });
    it('update sets a new TTL', async () => {
      await store.set(key, { count: 1 }, LONG);
      await store.update<{ count: number }>(
        key,
        (current) => current && { value: current, ttl: BRIEF },
      );
      await untilExpired(key);
    });
    it('update can remove the expiry of a value', async () => {
      await store.set(key, 1, LONG);
      await store.update<number>(key, () => ({ value: 2, ttl: Infinity }));
      assert.equal((await second.get(key))?.value, 2);
    });
    it('update rejects with what the change throws and stores nothing', async () => {
      const mine = new Error('mine');
      const refuse = () => {
        throw mine;
      };
      assert.strictEqual(await rejection(store.update(key, refuse)), mine);
      assert.isUndefined(await store.get(key));
    });
  });
}
