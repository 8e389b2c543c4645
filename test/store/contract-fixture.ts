import { assert } from 'chai';
import type { Store } from '../../src/store/store.ts';
import { until } from '../support/until.ts';

export type OpenedStore = {
  store: Store;
  /** Another instance on the same database. */
  second: Store;
  /** Every byte the database holds, names included. */
  dump(): Promise<Buffer>;
  /** Overwrites the bytes of the only key of kind `to` with those of the only key of kind `from`. */
  overwrite(from: string, to: string): Promise<void>;
  /** Opens the same database with another root secret. */
  openWithSecret(secret: string): Promise<Store>;
  close(): Promise<void>;
};

/** What the tests of the contract use. The stores and the key exist while a test runs. */
export type ContractFixture = {
  store: () => Store;
  /** Another instance on the same database. */
  second: () => Store;
  /** A key that no other test uses. */
  key: () => string;
  opened: () => OpenedStore;
  /** Concurrent calls, half of them on each instance. */
  race<R>(work: (store: Store, index: number) => Promise<R>): Promise<R[]>;
  untilExpired(name: string): Promise<unknown>;
};

export const RACERS = 20;
/** TTLs in seconds. */
export const LONG = 600;
export const BRIEF = 0.05;

export const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => assert.fail('the promise was not rejected'),
    (error: unknown) => error,
  );

const MEMBERS_AT_A_TIME = 50;

/** Adds this many members and returns them. In portions, because all at once would take longer than a command may on a slow machine. */
export async function addMembers(
  store: Pick<Store, 'addMember'>,
  key: string,
  count: number,
): Promise<string[]> {
  const members = Array.from({ length: count }, (_, i) => `member ${i}`);
  for (let from = 0; from < count; from += MEMBERS_AT_A_TIME) {
    const portion = members.slice(from, from + MEMBERS_AT_A_TIME);
    await Promise.all(portion.map((member) => store.addMember(key, member, LONG)));
  }
  return members;
}

/** One store for all tests of the enclosing `describe`. */
export function useOpenedStore(open: () => Promise<OpenedStore>): ContractFixture {
  let opened: OpenedStore | undefined;
  before(async () => {
    opened = await open();
  });
  after(() => opened?.close());

  let number = 0;
  beforeEach(() => {
    number += 1;
  });

  const current = (): OpenedStore => {
    if (!opened) throw new Error('the store is open only while a test runs');
    return opened;
  };
  const store = () => current().store;
  const second = () => current().second;
  return {
    store,
    second,
    key: () => `thing:${number}`,
    opened: current,
    race: (work) =>
      Promise.all(Array.from({ length: RACERS }, (_, i) => work((i % 2 ? second : store)(), i))),
    untilExpired: (name) =>
      until(`${name} to expire`, async () => (await store().get(name)) === undefined),
  };
}
