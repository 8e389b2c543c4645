// The contract of the store, run by the test of each database.
import { assert, expect } from 'chai';
import { type Store, StoreUnavailable } from '../../src/store/store.ts';
import { until } from '../support/until.ts';
import { LONG, type OpenedStore, rejection, useOpenedStore } from './contract-fixture.ts';
import { testValues } from './value-contract.ts';
import { testUpdates } from './update-contract.ts';
import { testCollections } from './collection-contract.ts';
import { testLogs } from './log-contract.ts';

export function storeContract(open: () => Promise<OpenedStore>): void {
  const fixture = useOpenedStore(open);

  testValues(fixture);
  testUpdates(fixture);

  describe('Waiting for a replica', () => {
    let store: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      key = fixture.key();
    });

    it('replicated resolves soon, whether or not something was written', async () => {
      await store.replicated(key);
      await store.set(key, 1, LONG);
      await store.update(key, () => undefined);
      await fixture.race((each) => each.replicated(key));
    });
    it('replicated never rejects, also after the store is closed', async () => {
      const other = await open();
      await other.close();
      await other.store.replicated(key);
    });
  });

  testCollections(fixture);
  testLogs(fixture);

  describe('Channels of the store', () => {
    let store: Store;
    let second: Store;
    let key: string;
    beforeEach(() => {
      store = fixture.store();
      second = fixture.second();
      key = fixture.key();
    });

    it('a message reaches every subscribed instance, in order, and no other', async () => {
      const received: string[] = [];
      await store.subscribe(`${key} news`, (message) => received.push(`first ${message}`));
      await second.subscribe(`${key} news`, (message) => received.push(`second ${message}`));
      await second.subscribe(`${key} other`, (message) => received.push(`other ${message}`));
      await store.publish(`${key} news`, 'a');
      // Messages that two instances publish concurrently may arrive in either order.
      await until('both to receive the first', () => received.length >= 2);
      await second.publish(`${key} news`, 'b — 門');
      await until('four messages', () => received.length >= 4);
      assert.sameMembers(received, ['first a', 'first b — 門', 'second a', 'second b — 門']);
      assert.isBelow(received.indexOf('first a'), received.indexOf('first b — 門'));
    });
    it('a message reaches each of several listeners', async () => {
      const received: string[] = [];
      await store.subscribe(key, () => received.push('one'));
      await store.subscribe(key, () => received.push('two'));
      await store.publish(key, '');
      await until('both to receive it', () => received.length >= 2);
      assert.sameMembers(received, ['one', 'two']);
    });
  });

  describe('Data at rest', () => {
    let store: Store;
    let opened: OpenedStore;
    beforeEach(() => {
      store = fixture.store();
      opened = fixture.opened();
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

  it('a ping of the open store succeeds', () => fixture.store().ping());

  it('the store is unavailable after it is closed', async () => {
    const other = await open();
    await other.close();
    expect(await rejection(other.store.get(fixture.key()))).to.be.instanceOf(StoreUnavailable);
    expect(await rejection(other.store.add(fixture.key(), 1, LONG))).to.be.instanceOf(
      StoreUnavailable,
    );
    expect(await rejection(other.store.ping())).to.be.instanceOf(StoreUnavailable);
  });
}
