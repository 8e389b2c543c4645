// Calls every verb of a store while its database is unavailable, and afterwards.
import { expect } from 'chai';
import { type Store, StoreUnavailable } from '../../src/store/store.ts';
import { until } from '../support/until.ts';

const LOG_ENTRY = { value: 1, part: 'bulk', time: 1, terms: [] } as const;

const EVERY_VERB: Record<string, (store: Store) => Promise<unknown>> = {
  get: (store) => store.get('thing:1'),
  set: (store) => store.set('thing:1', 1, 60),
  add: (store) => store.add('thing:1', 1, 60),
  take: (store) => store.take('thing:1'),
  delete: (store) => store.delete('thing:1'),
  update: (store) => store.update('thing:1', () => ({ value: 1, ttl: 60 })),
  addMember: (store) => store.addMember('set:1', 'ada', 60),
  removeMember: (store) => store.removeMember('set:1', 'ada'),
  members: (store) => store.members('set:1'),
  includes: (store) => store.includes('set:1', ['ada']),
  page: (store) => store.page('set:1', { limit: 1 }),
  append: (store) => store.append('stream:1', 1, 60),
  range: (store) => store.range('stream:1', { limit: 1 }),
  appendLog: (store) => store.appendLog('log:1', [LOG_ENTRY]),
  appendMarked: (store) => store.appendMarked('log:1', [LOG_ENTRY], { before: '', after: '1' }),
  logMark: (store) => store.logMark('log:1'),
  replaceLogEntries: (store) => store.replaceLogEntries('log:1', [{ number: 1, value: 1 }]),
  readLog: (store) => store.readLog('log:1', { after: 0, limit: 1 }),
  readLogEntries: (store) => store.readLogEntries('log:1', [1]),
  lastInLog: (store) => store.lastInLog('log:1'),
  beginLogEpoch: (store) => store.beginLogEpoch('log:1'),
  readLogBlocks: (store) => store.readLogBlocks('log:1', { part: 'bulk', before: 1, limit: 1 }),
  trimLog: (store) => store.trimLog('log:1', { part: 'bulk', ranges: [[1, 1]], blocks: [] }),
  publish: (store) => store.publish('news', 'a'),
  subscribe: (store) => store.subscribe('more news', () => undefined),
  ping: (store) => store.ping(),
};

/** Resolves while the database is unavailable. */
export async function assertUnavailable(store: Store): Promise<void> {
  await Promise.all(
    Object.entries(EVERY_VERB).map(async ([verb, call]) => {
      const error = await call(store).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error, verb).to.be.instanceOf(StoreUnavailable).with.property('cause');
    }),
  );
}

export async function assertAvailable(store: Store): Promise<void> {
  for (const verb of ['ping', 'subscribe']) {
    await until(`${verb} to work again`, () =>
      EVERY_VERB[verb]?.(store).then(
        () => true,
        () => false,
      ),
    );
  }
  for (const call of Object.values(EVERY_VERB)) await call(store);
}
