import { assert, expect } from 'chai';
import { MEMBERS_PER_PAGE } from '../../src/store/byte-store.ts';
import type { Range, Store } from '../../src/store/store.ts';
import { until } from '../support/until.ts';
import {
  addMembers,
  BRIEF,
  LONG,
  RACERS,
  rejection,
  type ContractFixture,
} from './contract-fixture.ts';

const MORE_THAN_TWO_PAGES = 2 * MEMBERS_PER_PAGE + 100;

export function testCollections(fixture: ContractFixture): void {
  const { race, untilExpired } = fixture;

  describe('Sets in the store', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      second = fixture.second();
      key = fixture.key();
    });

    it('a set holds each member once until it is removed', async () => {
      for (const member of ['ada', 'grace', 'ada', '門']) await store.addMember(key, member, LONG);
      await second.removeMember(key, 'grace');
      await store.removeMember(key, 'nobody');
      assert.sameMembers(await store.members(key), ['ada', '門']);
      assert.deepEqual(await second.includes(key, ['門', 'grace']), new Set(['門']));
      assert.deepEqual(await store.includes(key, []), new Set());
    });
    it('a set to which nothing was added is empty', async () => {
      assert.deepEqual(await store.members(key), []);
    });
    it('a set keeps all of many members added concurrently', async () => {
      await race((each, i) => each.addMember(key, `member ${i}`, LONG));
      const members = await store.members(key);
      assert.sameMembers(
        members,
        Array.from({ length: RACERS }, (_, i) => `member ${i}`),
      );
    });
    it('a set of many pages is read completely, also when some of its members are known', async () => {
      const many = await addMembers(store, key, MORE_THAN_TWO_PAGES);
      assert.sameMembers(await store.members(key), many);
      await second.removeMember(key, many[0] ?? '');
      await second.addMember(key, 'new', LONG);
      assert.sameMembers(await store.members(key), [...many.slice(1), 'new']);
    });
    it('sets are counted in the order of their keys, each up to the limit', async () => {
      await addMembers(store, key, 120);
      await store.addMember(`${key} small`, 'ada', LONG);
      const keys = [`${key} empty`, key, `${key} small`];
      assert.deepEqual(await second.sizes(keys, 200), [0, 120, 1]);
      assert.deepEqual(await second.sizes(keys, 100), [0, 100, 1]);
      assert.deepEqual(await second.sizes([], 100), []);
    });
    it('a set holds a member once after many concurrent adds, and not after many removals', async () => {
      await race((each) => each.addMember(key, 'ada', LONG));
      assert.deepEqual(await store.members(key), ['ada']);
      await race((each) => each.removeMember(key, 'ada'));
      assert.deepEqual(await store.members(key), []);
    });
    it('a set expires as a whole with the TTL of the last addition', async () => {
      await store.addMember(key, 'early', LONG);
      await store.addMember(key, 'late', BRIEF);
      await until('the set to expire', async () => (await store.members(key)).length === 0);
      assert.deepEqual(await store.sizes([key], 9), [0]);
      await store.addMember(key, 'afterwards', LONG);
      assert.deepEqual(await store.members(key), ['afterwards']);
      assert.deepEqual(await store.sizes([key], 9), [1]);
    });
    it('a set with a TTL of Infinity never expires', async () => {
      await store.addMember(key, 'brief', BRIEF);
      await store.addMember(key, 'lasting', Infinity);
      await store.set(`${key} marker`, 1, BRIEF * 2);
      await untilExpired(`${key} marker`);
      assert.include(await store.members(key), 'lasting');
    });
    it('a set is read by page in an order that does not change, in both directions', async () => {
      const sorted = ['5.a', '40.a', '40.b', '300.a'];
      for (const member of sorted.toReversed()) await store.addMember(key, member, LONG);
      const all = await second.page(key, { limit: 9 });
      assert.sameMembers(all, sorted);
      assert.deepEqual(
        all.map((member) => Number.parseInt(member, 10)),
        [5, 40, 40, 300],
      );
      const newestFirst = true;
      assert.deepEqual(await store.page(key, { limit: 9, newestFirst }), all.toReversed());
      assert.deepEqual(await store.page(key, { limit: 2 }), all.slice(0, 2));
      assert.deepEqual(await store.page(key, { limit: 2, after: all[1] }), all.slice(2));
      assert.deepEqual(await store.page(key, { limit: 1, after: all[2], newestFirst }), [all[1]]);
      assert.deepEqual(await store.page(key, { limit: 2, after: all[3] }), []);
    });
    it('the pages of a large set have each member once', async () => {
      const many = await addMembers(store, key, 250);
      const read: string[] = [];
      for (let page = await store.page(key, { limit: 90 }); page.length > 0;) {
        read.push(...page);
        page = await second.page(key, { limit: 90, after: read.at(-1) });
      }
      assert.lengthOf(read, many.length);
      assert.sameMembers(read, many);
      assert.deepEqual(await store.page(key, { limit: 300, newestFirst: true }), read.toReversed());
    });
    it('the next page follows a member that was removed or is added again', async () => {
      for (const member of ['ada', 'grace', 'alan', 'mary'])
        await store.addMember(key, member, LONG);
      const [first = '', after = '', ...others] = await store.page(key, { limit: 9 });
      await second.removeMember(key, after);
      assert.deepEqual(await store.page(key, { after, limit: 9 }), others);
      await second.addMember(key, after, LONG);
      assert.deepEqual(await store.page(key, { after: first, limit: 1 }), [after]);
      await second.delete(key);
      assert.deepEqual(await store.page(key, { limit: 9 }), []);
    });
    it('a deleted set is empty', async () => {
      await store.addMember(key, 'ada', LONG);
      await store.delete(key);
      assert.deepEqual(await store.members(key), []);
    });
  });

  describe('Streams in the store', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      second = fixture.second();
      key = fixture.key();
    });

    const values = async (range: Range) =>
      (await store.range<number>(key, range)).map(({ value }) => value);

    it('a stream returns its entries oldest first, page by page', async () => {
      for (let i = 0; i < 5; i++) await (i % 2 ? second : store).append(key, i, LONG);
      const page = await store.range<number>(key, { limit: 2 });
      assert.deepEqual(
        page.map(({ value }) => value),
        [0, 1],
      );
      assert.deepEqual(await values({ after: page.at(-1)?.id, limit: 2 }), [2, 3]);
      assert.deepEqual(await values({ limit: 100 }), [0, 1, 2, 3, 4]);
    });
    it('a stream returns its entries newest first, page by page, while more are appended', async () => {
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
    it('a stream returns an empty page after its last entry, in either order', async () => {
      await store.append(key, 1, LONG);
      for (const newestFirst of [false, true]) {
        const [entry] = await store.range(key, { limit: 10, newestFirst });
        assert.deepEqual(await values({ after: entry?.id, limit: 10, newestFirst }), []);
      }
    });
    it('a stream can be read from any id, also one that no entry has', async () => {
      await store.append(key, 1, LONG);
      const [lowest, highest] = ['0'.repeat(32), '9'.repeat(32)];
      assert.deepEqual(await values({ after: lowest, limit: 10 }), [1]);
      assert.deepEqual(await values({ after: lowest, limit: 10, newestFirst: true }), []);
      assert.deepEqual(await values({ after: highest, limit: 10 }), []);
      assert.deepEqual(await values({ after: highest, limit: 10, newestFirst: true }), [1]);
    });
    it('a stream to which nothing was appended is empty', async () => {
      assert.deepEqual(await values({ limit: 10 }), []);
      assert.deepEqual(await values({ limit: 10, newestFirst: true }), []);
    });
    it('a stream keeps all of many entries appended concurrently, with ids that sort by age', async () => {
      await race((each, i) => each.append(key, i, Infinity));
      const entries = await store.range<number>(key, { limit: 100 });
      const ids = entries.map(({ id }) => id);
      assert.equal(new Set(entries.map(({ value }) => value)).size, RACERS);
      assert.deepEqual(ids, [...new Set(ids)].sort());
    });
    it('a stream expires when nothing is appended within its TTL', async () => {
      await store.append(key, 1, BRIEF);
      await until('the stream to expire', async () => (await values({ limit: 1 })).length === 0);
      assert.deepEqual(await values({ limit: 1, newestFirst: true }), []);
    });
    it('a stream rejects an id that is not an entry id', async () => {
      expect(await rejection(store.range(key, { after: '$', limit: 1 }))).to.be.instanceOf(
        RangeError,
      );
    });
    it('a deleted stream is empty', async () => {
      await store.append(key, 1, LONG);
      await store.delete(key);
      assert.deepEqual(await values({ limit: 10 }), []);
    });
  });
}
