// What every store promises, whatever database it is on: run by the test of each database.
import { assert, expect } from 'chai';
import {
  type Change,
  KEEP,
  type Range,
  type Store,
  StoreUnavailable,
} from '../../src/store/store.ts';
import { until } from './condition.ts';

export type OpenedStore = {
  store: Store;
  /** Another instance on the same database. */
  second: Store;
  /** Every byte the database holds, names included. */
  dump(): Promise<Buffer>;
  /** Copies the stored bytes of the one key of kind `from` over those of the one key of kind `to`. */
  overwrite(from: string, to: string): Promise<void>;
  /** Opens the same database with another root secret. */
  openWithSecret(secret: string): Promise<Store>;
  close(): Promise<void>;
};

const RACERS = 50;
/** More than are read at once. */
const MANY = 2500;
const LONG = 600;
const BRIEF = 0.05;

const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail('it was not refused'),
    (error: unknown) => error,
  );

const increment: Change<{ count: number }> = (current) => ({
  value: { count: (current?.count ?? 0) + 1 },
  ttl: LONG,
});

export function storeContract(open: () => Promise<OpenedStore>): void {
  let opened: OpenedStore;
  let store: Store;

  before(async () => {
    opened = await open();
    ({ store } = opened);
  });
  after(() => opened?.close());

  let number = 0;
  let key: string;
  beforeEach(() => {
    key = `thing:${++number}`;
  });

  /** Fifty calls at once, half of them on either instance. */
  const race = <R>(work: (store: Store, index: number) => Promise<R>): Promise<R[]> =>
    Promise.all(Array.from({ length: RACERS }, (_, i) => work(i % 2 ? opened.second : store, i)));
  const gone = (name: string) =>
    until(`${name} expires`, async () => (await store.get(name)) === undefined);

  describe('values', () => {
    it('are read as they were written, by every instance', async () => {
      const value = { text: 'naïve 🚪 門 \u0000 "', list: [1, null, { deep: true }], zero: 0 };
      await store.set(key, value, LONG);
      assert.deepEqual((await store.get(key))?.value, value);
      assert.deepEqual((await opened.second.get(key))?.value, value);
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

  describe('update', () => {
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
      await opened.second.update(key, increment);
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
      assert.equal((await opened.second.get(key))?.value, 2);
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

  describe('replicated', () => {
    it('is over soon, whether something was written or not', async () => {
      await store.replicated(key);
      await store.set(key, 1, LONG);
      await store.update(key, () => undefined);
      await race((each) => each.replicated(key));
    });
    it('is never refused, also when the store is closed', async () => {
      const other = await open();
      await other.close();
      await other.store.replicated(key);
    });
  });

  describe('sets', () => {
    it('hold each member once, until it is removed', async () => {
      for (const member of ['ada', 'grace', 'ada', '門']) await store.addMember(key, member, LONG);
      await opened.second.removeMember(key, 'grace');
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
    const values = async (range: Range) =>
      (await store.range<number>(key, range)).map(({ value }) => value);

    it('give back their entries oldest first, page by page', async () => {
      for (let i = 0; i < 5; i++) await (i % 2 ? opened.second : store).append(key, i, LONG);
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
      for (let i = 0; i < 5; i++) await (i % 2 ? opened.second : store).append(key, i, LONG);
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

  describe('channels', () => {
    it('tell every instance that subscribed, in order, and nobody else', async () => {
      const heard: string[] = [];
      await store.subscribe(`${key} news`, (message) => heard.push(`first ${message}`));
      await opened.second.subscribe(`${key} news`, (message) => heard.push(`second ${message}`));
      await opened.second.subscribe(`${key} other`, (message) => heard.push(`other ${message}`));
      await store.publish(`${key} news`, 'a');
      // What two publish at once may be heard in either order.
      await until('both hear the first', () => heard.length >= 2);
      await opened.second.publish(`${key} news`, 'b — 門');
      await until('four messages arrive', () => heard.length >= 4);
      assert.sameMembers(heard, ['first a', 'first b — 門', 'second a', 'second b — 門']);
      assert.isBelow(heard.indexOf('first a'), heard.indexOf('first b — 門'));
    });
    it('tell each of several listeners', async () => {
      const heard: string[] = [];
      await store.subscribe(key, () => heard.push('one'));
      await store.subscribe(key, () => heard.push('two'));
      await store.publish(key, '');
      await until('both hear it', () => heard.length >= 2);
      assert.sameMembers(heard, ['one', 'two']);
    });
  });

  describe('at rest', () => {
    it('shows no id, value, member, entry, channel or message', async () => {
      const secret = (part: string) => `needle-${part}-haystack`;
      await store.set(`thing:${secret('id')}`, secret('value'), LONG);
      await store.addMember(`thing:${secret('set')}`, secret('member'), LONG);
      await store.append(`thing:${secret('stream')}`, { [secret('name')]: secret('entry') }, LONG);
      await store.subscribe(secret('channel'), () => undefined);
      await store.publish(secret('channel'), secret('message'));
      const dump = await opened.dump();
      assert.include(dump.toString('latin1'), 'thing:');
      assert.notInclude(dump.toString('latin1'), 'needle');
      assert.notInclude(
        dump.toString('latin1'),
        Buffer.from('needle').toString('base64url').slice(0, 7),
      );
    });
    it('counts bytes that were moved to another key as absent, and does not touch them', async () => {
      await store.set('source:1', 'of one', LONG);
      await store.set('target:1', 'of another', LONG);
      await opened.overwrite('source', 'target');
      assert.isUndefined(await store.get('target:1'));
      assert.isFalse(await store.add('target:1', 'new', LONG));
      const refusal = await rejection(store.update('target:1', () => ({ value: 1, ttl: LONG })));
      expect(refusal).to.be.instanceOf(Error).and.not.instanceOf(StoreUnavailable);
      assert.equal((await store.get('source:1'))?.value, 'of one');
    });
    it('opens with the secret it was written with only', async () => {
      const refusal = await rejection(
        opened.openWithSecret('another secret, just as long as it is'),
      );
      expect(refusal)
        .to.be.instanceOf(Error)
        .with.property('message')
        .that.includes('GATEHOUSE_SECRET');
    });
  });

  it('answers a ping', () => store.ping());

  it('is unavailable after it was closed', async () => {
    const other = await open();
    await other.close();
    expect(await rejection(other.store.get(key))).to.be.instanceOf(StoreUnavailable);
    expect(await rejection(other.store.add(key, 1, LONG))).to.be.instanceOf(StoreUnavailable);
    expect(await rejection(other.store.ping())).to.be.instanceOf(StoreUnavailable);
  });
}
