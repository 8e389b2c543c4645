import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type Activity, openActivity, readActivity } from '../../src/audit/activity.ts';
import { DEFAULT_LEVELS } from '../../src/permission-levels.ts';
import { type OpenedStore, openStore } from '../../src/store/open.ts';
import { StoreUnavailable } from '../../src/store/store.ts';

const HOUR = 3600;
const NOON = 20_000 * 24 * HOUR + 12 * HOUR;

describe('The counts of the overview', () => {
  let directory: string;
  let store: OpenedStore;
  let time = NOON;
  const errors: unknown[] = [];
  before(async () => {
    directory = await mkdtemp(join(tmpdir(), 'activity-'));
  });
  beforeEach(async () => {
    time = NOON;
    const file = join(directory, `${Math.random()}.sqlite`);
    store = await openStore(
      { kind: 'sqlite', file },
      { secret: 's'.repeat(32), dataDir: directory },
    );
  });
  afterEach(() => store.close());
  after(() => rm(directory, { recursive: true }));

  function open(update: OpenedStore['update'] = (...args) => store.update(...args)): Activity {
    return openActivity({
      store: { ...store, update } as OpenedStore,
      levels: () => DEFAULT_LEVELS,
      now: () => time,
      onError: (error) => void errors.push(error),
    });
  }

  it('those of all processes are added up, by hour and day', async () => {
    const [one, other] = [open(), open()];
    one.calls('analytics', 'done', 2);
    other.calls('analytics', 'done', 1);
    other.event('consent_approved');
    await Promise.all([one.close(), other.close()]);
    time += 13 * HOUR;
    const later = open();
    later.calls('full', 'failed', 1);
    await later.close();
    const { hours, days } = await readActivity(store, 30, time);
    expect(days).to.have.length(30);
    expect(days.slice(-2).map(({ counts }) => counts)).to.deep.equal([
      { 'call analytics done': 3, 'event consent_approved': 1 },
      { 'call full failed': 1 },
    ]);
    expect(hours).to.have.length(24);
    expect(hours.at(-1)).to.deep.equal({ at: time, counts: { 'call full failed': 1 } });
    expect(hours.at(-14)?.counts).to.include({ 'call analytics done': 3 });
  });

  it('names that are not in a closed list are counted as other, and scans not at all', async () => {
    const activity = open();
    activity.calls('x'.repeat(1000), 'refused', 1);
    activity.refused('made up');
    activity.refused('not_found');
    activity.event('made up');
    await activity.close();
    const { days } = await readActivity(store, 1, time);
    expect(days[0]?.counts).to.deep.equal({
      'call other refused': 1,
      'refused other': 1,
      'event other': 1,
    });
  });

  it('counts wait while the store is unavailable, for at most 48 hours', async () => {
    let isDown = true;
    const activity = open((...args) => {
      if (isDown) throw new StoreUnavailable(new Error('down'));
      return store.update(...args);
    });
    for (let hour = 0; hour < 60; hour += 1) {
      time += HOUR;
      activity.refused('invalid_token');
    }
    await activity.close();
    expect(errors).not.to.deep.equal([]);
    isDown = false;
    await activity.close();
    const { days } = await readActivity(store, 30, time);
    const total = days.reduce((sum, { counts }) => sum + (counts['refused invalid_token'] ?? 0), 0);
    expect(total).to.equal(48);
  });
});
