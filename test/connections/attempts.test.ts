// How attempts are kept: what notes change, how many there are, and who reads what.
import { expect } from 'chai';
import {
  type Attempt,
  listAttempts,
  type NotedAttempt,
  saveNotes,
  trimAttempts,
  withNote,
} from '../../src/connections/attempts.ts';
import {
  KEYS,
  type ManagementHost,
  openManagementHost,
  request,
} from '../management/management-host.ts';
import { onEachStore } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';
import type { Store } from '../../src/store/store.ts';

const DAY = 86_400;
const START = 1_800_000_000;
const mayAdd = async () => true;

const noted = (id: string, note: Partial<NotedAttempt['notes'][number]> = {}): NotedAttempt => ({
  id,
  notes: [{ at: START, step: 'authorize', ...note }],
  names: [],
  creates: true,
});

describe('A note', () => {
  const refused: Attempt = {
    id: 'a',
    time: START,
    step: 'consent',
    heardAt: START,
    end: 'refused',
    reason: 'no_rule',
  };

  it('of a further step, or of the same one, removes how the attempt ended', () => {
    for (const step of ['consent', 'code'] as const)
      expect(withNote(refused, { at: START + 1, step })).to.not.have.any.keys('end', 'reason');
  });

  it('of an earlier step leaves how the attempt ended, and the furthest step', () => {
    expect(withNote(refused, { at: START + 1, step: 'provider' })).to.include({
      step: 'consent',
      end: 'refused',
    });
  });

  it('that arrives late changes no end', () => {
    const called: Attempt = { id: 'a', time: START, step: 'first_call', heardAt: START + 5 };
    const late = withNote(called, { at: START, step: 'code', end: 'failed', account: 'ada' });
    expect(late).to.include({ step: 'first_call', account: 'ada', heardAt: START + 5 });
    expect(late).to.not.have.property('end');
  });
});

onEachStore('The list of attempts', (system) => {
  let store: Store;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  const ids = async () =>
    (await Array.fromAsync(listAttempts(store, {}))).map(({ item }) => item?.id);

  it('TRY-02 above the limit, the oldest attempts without a person are deleted first, and expired ones anyway', async () => {
    await saveNotes(store, noted('person', { account: 'ada' }), mayAdd);
    for (const n of [1, 2, 3, 4])
      await saveNotes(store, noted(`nobody-${n}`, { at: START + n }), mayAdd);
    await trimAttempts(store, START + 5, 3);
    expect(await ids()).to.deep.equal(['nobody-4', 'nobody-3', 'person']);
    await trimAttempts(store, START + 3 + 30 * DAY, 3);
    expect(await ids()).to.deep.equal(['nobody-4', 'nobody-3']);
  });

  it('TRY-02 an attempt without a person is not added above the limit of its address, and with one it is', async () => {
    const mayNot = async () => false;
    expect(await saveNotes(store, noted('flood'), mayNot)).to.equal(undefined);
    expect(await saveNotes(store, noted('later', { account: 'ada' }), mayNot)).to.include({
      id: 'later',
    });
  });

  it('is read by page without gaps, newest first', async () => {
    for (let n = 0; n < 120; n += 1)
      await saveNotes(store, noted(`page-${n}`, { at: START + n, client: 'paged' }), mayAdd);
    const listed = await Array.fromAsync(listAttempts(store, { client: 'paged' }));
    expect(listed.map(({ item }) => item?.id)).to.deep.equal(
      Array.from({ length: 120 }, (_, n) => `page-${119 - n}`),
    );
    const after = listed[59]?.cursor;
    const rest = await Array.fromAsync(listAttempts(store, { client: 'paged', after }));
    expect(rest).to.have.length(60);
  });
});

describe('An attempt in the API', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  it('TRY-03 has its address for the role operator, and not for viewers', async () => {
    await saveNotes(host.store, noted('seen', { address: '192.0.2.7' }), mayAdd);
    const addressFor = async (role: 'viewer' | 'auditor' | 'operator') => {
      const headers = { Authorization: `Bearer ${KEYS[role]}` };
      const { body } = await request(host, 'GET', '/api/v1/attempts/seen', { headers });
      return body['address'];
    };
    expect(await addressFor('viewer')).to.equal(undefined);
    expect(await addressFor('operator')).to.equal('192.0.2.7');
  });
});
