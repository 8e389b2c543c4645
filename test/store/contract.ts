// The contract of the store, run by the test of each database.
import { assert, expect } from 'chai';
import { type Store, StoreUnavailable } from '../../src/store/store.ts';
import { until } from './condition.ts';
import { LONG, type OpenedStore, rejection, useOpenedStore } from './contract-subject.ts';
import { valuesHold } from './value-contract.ts';
import { updatesHold } from './update-contract.ts';
import { collectionsHold } from './collection-contract.ts';

export function storeContract(open: () => Promise<OpenedStore>): void {
  const subject = useOpenedStore(open);

  valuesHold(subject);
  updatesHold(subject);

  describe('Waiting for a replica', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      key = subject.key();
    });

    it('replicated resolves soon, whether or not something was written', async () => {
      await store.replicated(key);
      await store.set(key, 1, LONG);
      await store.update(key, () => undefined);
      await subject.race((each) => each.replicated(key));
    });
    it('replicated never rejects, also after the store is closed', async () => {
      const other = await open();
      await other.close();
      await other.store.replicated(key);
    });
  });

  collectionsHold(subject);

  describe('Channels of the store', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = subject.store();
      second = subject.second();
      key = subject.key();
    });

    it('a message reaches every subscribed instance, in order, and no other', async () => {
      const heard: string[] = [];
      await store.subscribe(`${key} news`, (message) => heard.push(`first ${message}`));
      await second.subscribe(`${key} news`, (message) => heard.push(`second ${message}`));
      await second.subscribe(`${key} other`, (message) => heard.push(`other ${message}`));
      await store.publish(`${key} news`, 'a');
      // What two publish at once may be heard in either order.
      await until('both hear the first', () => heard.length >= 2);
      await second.publish(`${key} news`, 'b — 門');
      await until('four messages arrive', () => heard.length >= 4);
      assert.sameMembers(heard, ['first a', 'first b — 門', 'second a', 'second b — 門']);
      assert.isBelow(heard.indexOf('first a'), heard.indexOf('first b — 門'));
    });
    it('a message reaches each of several listeners', async () => {
      const heard: string[] = [];
      await store.subscribe(key, () => heard.push('one'));
      await store.subscribe(key, () => heard.push('two'));
      await store.publish(key, '');
      await until('both hear it', () => heard.length >= 2);
      assert.sameMembers(heard, ['one', 'two']);
    });
  });

  describe('Data at rest', () => {
    let store: Store;
    let opened: OpenedStore;
    beforeEach(() => {
      store = subject.store();
      opened = subject.opened();
    });

    it('the database contains no id, value, member, entry, channel or message in plain text', async () => {
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
    it('a value that was copied to another key counts as absent and is not overwritten', async () => {
      await store.set('source:1', 'of one', LONG);
      await store.set('target:1', 'of another', LONG);
      await opened.overwrite('source', 'target');
      assert.isUndefined(await store.get('target:1'));
      assert.isFalse(await store.add('target:1', 'new', LONG));
      const refusal = await rejection(store.update('target:1', () => ({ value: 1, ttl: LONG })));
      expect(refusal).to.be.instanceOf(Error).and.not.instanceOf(StoreUnavailable);
      assert.equal((await store.get('source:1'))?.value, 'of one');
    });
    it('the store opens only with the secret it was written with', async () => {
      const refusal = await rejection(
        opened.openWithSecret('another secret, just as long as it is'),
      );
      expect(refusal)
        .to.be.instanceOf(Error)
        .with.property('message')
        .that.includes('GATEHOUSE_SECRET');
    });
  });

  it('the store answers a ping', () => subject.store().ping());

  it('the store is unavailable after it is closed', async () => {
    const other = await open();
    await other.close();
    expect(await rejection(other.store.get(subject.key()))).to.be.instanceOf(StoreUnavailable);
    expect(await rejection(other.store.add(subject.key(), 1, LONG))).to.be.instanceOf(
      StoreUnavailable,
    );
    expect(await rejection(other.store.ping())).to.be.instanceOf(StoreUnavailable);
  });
}
