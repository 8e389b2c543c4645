// What every store promises of sets and streams: whole, in order, gone when their time is over.
import { assert, expect } from 'chai';
import type { Range, Store } from '../../src/store/store.ts';
import { until } from './condition.ts';
import { BRIEF, LONG, RACERS, rejection, type Subject } from './contract-subject.ts';

/** More than are read at once. */
const MANY = 2500;

export function collectionsHold(subject: Subject): void {
  const { race, gone } = subject;

  describe('sets', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      second = subject.second();
      key = subject.key();
    });

    it('hold each member once, until it is removed', async () => {
      for (const member of ['ada', 'grace', 'ada', '門']) await store.addMember(key, member, LONG);
      await second.removeMember(key, 'grace');
      await store.removeMember(key, 'nobody');
      assert.sameMembers(await store.members(key), ['ada', '門']);
    });
    it('are empty when nothing was added', async () => {
      assert.deepEqual(await store.members(key), []);
    });
    it('lose none of fifty members added at once', async () => {
      await race((each, i) => each.addMember(key, `member ${i}`, LONG));
      const members = await store.members(key);
      assert.sameMembers(
        members,
        Array.from({ length: RACERS }, (_, i) => `member ${i}`),
      );
    });
    it('are read whole, however many members they have', async () => {
      const many = Array.from({ length: MANY }, (_, i) => `member ${i}`);
      await Promise.all(many.map((member) => store.addMember(key, member, LONG)));
      assert.sameMembers(await store.members(key), many);
    });
    it('hold a member once when fifty add it, and not at all when fifty remove it', async () => {
      await race((each) => each.addMember(key, 'ada', LONG));
      assert.deepEqual(await store.members(key), ['ada']);
      await race((each) => each.removeMember(key, 'ada'));
      assert.deepEqual(await store.members(key), []);
    });
    it('disappear as a whole after the lifetime of the last addition', async () => {
      await store.addMember(key, 'early', LONG);
      await store.addMember(key, 'late', BRIEF);
      await until('the set expires', async () => (await store.members(key)).length === 0);
      await store.addMember(key, 'afterwards', LONG);
      assert.deepEqual(await store.members(key), ['afterwards']);
    });
    it('live for ever with a lifetime of Infinity', async () => {
      await store.addMember(key, 'brief', BRIEF);
      await store.addMember(key, 'lasting', Infinity);
      await store.set(`${key} marker`, 1, BRIEF * 2);
      await gone(`${key} marker`);
      assert.include(await store.members(key), 'lasting');
    });
    it('are deleted like values', async () => {
      await store.addMember(key, 'ada', LONG);
      await store.delete(key);
      assert.deepEqual(await store.members(key), []);
    });
  });

  describe('streams', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      second = subject.second();
      key = subject.key();
    });

    const values = async (range: Range) =>
      (await store.range<number>(key, range)).map(({ value }) => value);

    it('give back their entries oldest first, page by page', async () => {
      for (let i = 0; i < 5; i++) await (i % 2 ? second : store).append(key, i, LONG);
      const page = await store.range<number>(key, { limit: 2 });
      assert.deepEqual(
        page.map(({ value }) => value),
        [0, 1],
      );
      assert.deepEqual(await values({ after: page.at(-1)?.id, limit: 2 }), [2, 3]);
      assert.deepEqual(await values({ limit: 100 }), [0, 1, 2, 3, 4]);
    });
    it('give them back newest first, page by page, whatever is appended meanwhile', async () => {
      const newestFirst = true;
      for (let i = 0; i < 5; i++) await (i % 2 ? second : store).append(key, i, LONG);
      const page = await store.range<number>(key, { limit: 2, newestFirst });
      assert.deepEqual(
        page.map(({ value }) => value),
        [4, 3],
      );
      await store.append(key, 5, LONG);
      const after = page.at(-1)?.id;
      assert.deepEqual(await values({ after, limit: 2, newestFirst }), [2, 1]);
      assert.deepEqual(await values({ limit: 100, newestFirst }), [5, 4, 3, 2, 1, 0]);
    });
    it('end with an empty page, from either end', async () => {
      await store.append(key, 1, LONG);
      for (const newestFirst of [false, true]) {
        const [entry] = await store.range(key, { limit: 10, newestFirst });
        assert.deepEqual(await values({ after: entry?.id, limit: 10, newestFirst }), []);
      }
    });
    it('are gone through from any place, also where no entry can be', async () => {
      await store.append(key, 1, LONG);
      const [before, behind] = ['0'.repeat(32), '9'.repeat(32)];
      assert.deepEqual(await values({ after: before, limit: 10 }), [1]);
      assert.deepEqual(await values({ after: before, limit: 10, newestFirst: true }), []);
      assert.deepEqual(await values({ after: behind, limit: 10 }), []);
      assert.deepEqual(await values({ after: behind, limit: 10, newestFirst: true }), [1]);
    });
    it('are empty when nothing was appended', async () => {
      assert.deepEqual(await values({ limit: 10 }), []);
      assert.deepEqual(await values({ limit: 10, newestFirst: true }), []);
    });
    it('keep all of fifty entries appended at once, with ids that sort by age', async () => {
      await race((each, i) => each.append(key, i, Infinity));
      const entries = await store.range<number>(key, { limit: 100 });
      const ids = entries.map(({ id }) => id);
      assert.equal(new Set(entries.map(({ value }) => value)).size, RACERS);
      assert.deepEqual(ids, [...new Set(ids)].sort());
    });
    it('disappear when nothing was appended for a lifetime', async () => {
      await store.append(key, 1, BRIEF);
      await until('the stream expires', async () => (await values({ limit: 1 })).length === 0);
      assert.deepEqual(await values({ limit: 1, newestFirst: true }), []);
    });
    it('refuse to go on after something that is not an entry', async () => {
      expect(await rejection(store.range(key, { after: '$', limit: 1 }))).to.be.instanceOf(
        RangeError,
      );
    });
    it('are deleted like values', async () => {
      await store.append(key, 1, LONG);
      await store.delete(key);
      assert.deepEqual(await values({ limit: 10 }), []);
    });
  });
}
