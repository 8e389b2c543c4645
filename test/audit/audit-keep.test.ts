import { expect } from 'chai';
import { type AuditItem, auditItem, storeAudit } from '../../src/audit/audit.ts';
import { allowedEach, type KeptAudit, trimAudit } from '../../src/audit/audit-keep.ts';
import { leapDetector, openClockGuard } from '../../src/audit/clock-leap.ts';
import { readAuditReach } from '../../src/audit/audit-reach.ts';
import { lastAuditNumber, readAuditAfter } from '../../src/audit/audit-log.ts';
import { searchAudit } from '../../src/audit/audit-search.ts';
import type { LogPart } from '../../src/store/store.ts';
import type { OpenedStore } from '../../src/store/open.ts';
import { createLogger } from '../../src/observability/logger.ts';
import { auditServices } from '../support/audit-services.ts';
import { openSystemStore } from '../support/system-store.ts';
import { onEachStore, STORES } from '../support/system.ts';
import { type ChainLog, openChainLog } from './chain/chain-log.ts';

const DAY = 86_400;
const START = 2_000_000_000;

onEachStore('What the audit log keeps', (system) => {
  let store: OpenedStore;
  before(async () => {
    ({ store } = await openSystemStore(system()));
  });
  after(() => store.close());

  const servicesAt = (now: number) => ({
    ...auditServices(store, now),
    logger: createLogger('silent'),
    metrics: { auditEvent: () => undefined, auditReach: () => undefined },
  });
  const kept = (more: Partial<KeptAudit> = {}): KeptAudit => ({
    keep: 400 * DAY,
    keepCalls: { time: 90 * DAY, items: 1000 },
    keepUndelivered: 2_000_000,
    delivered: async () => [],
    ...more,
  });
  async function record(part: LogPart, at: number, grantId: string, count = 1) {
    const services = servicesAt(at);
    const item = { event: part === 'bulk' ? 'call' : 'signed_in', grantId, outcome: 'answered' };
    const added = Array.from({ length: count }, () => ({ item: auditItem(services, item), part }));
    return storeAudit(services, added);
  }
  const numbersOf = async (grantId: string) => {
    const { items } = await searchAudit({ store }, { filters: { grant: grantId }, limit: 5000 });
    return items.map(({ number }) => number);
  };
  const trimmings = async () => {
    const { items } = await searchAudit(
      { store },
      { filters: { event: 'audit_trimmed' }, limit: 99 },
    );
    return items;
  };
  const numbersIn = ({ ranges = [] }: AuditItem) =>
    ranges.flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, n) => first + n),
    );

  it('calls are trimmed after their time, other items after theirs, and each trimming is an item with the numbers', async () => {
    const [old] = await record('bulk', START, 'times');
    const [other] = await record('lasting', START, 'times');
    const [recent] = await record('bulk', START + 2 * DAY, 'times');
    const later = START + 91 * DAY;
    await trimAudit(servicesAt(later), kept(), 'bulk');
    await trimAudit(servicesAt(later), kept(), 'lasting');
    expect(await numbersOf('times')).to.deep.equal([recent?.number, other?.number]);
    // A checkpoint of the running system is older than these items, and may be trimmed too.
    const [trimming, ...more] = (await trimmings()).filter((each) => each.class === 'bulk');
    expect(more).to.deep.equal([]);
    expect(trimming).to.deep.include({
      class: 'bulk',
      count: 1,
      ranges: [[old?.number, old?.number]],
    });
    await trimAudit(servicesAt(START + 401 * DAY), kept(), 'lasting');
    expect(await numbersOf('times')).to.deep.equal([recent?.number]);
    const left = (await readAuditAfter(store, 0, 5000)).map(({ number }) => number);
    expect(left).to.include(recent?.number).and.not.include(other?.number);
    await trimAudit(servicesAt(START + 401 * DAY), kept(), 'bulk');
  });

  it('LOG-14 of too many calls, the connection with the most loses first, and the reach says how far back calls are complete', async () => {
    const at = START + 500 * DAY;
    const quiet = await record('bulk', at, 'quiet', 20);
    const flood: AuditItem[] = [];
    for (let n = 0; n < 12; n += 1) {
      flood.push(...(await record('bulk', at + n, 'flood', 100)));
      quiet.push(...(await record('bulk', at + n, 'quiet')));
    }
    const trimmedBefore = new Set((await trimmings()).map(({ id }) => id));
    await trimAudit(servicesAt(at + 60), kept(), 'bulk');
    expect(await numbersOf('quiet')).to.have.lengthOf(quiet.length);
    const left = await numbersOf('flood');
    expect(left).to.have.lengthOf(980 - quiet.length);
    expect(left[0], 'the newest stay').to.equal(flood.at(-1)?.number);
    const found = (await trimmings()).filter(({ id }) => !trimmedBefore.has(id));
    const gone = flood.slice(0, -left.length).map(({ number }) => number);
    expect(found.flatMap(numbersIn)).to.deep.equal(gone);
    const reach = await readAuditReach(servicesAt(at + 60), 90 * DAY);
    expect(reach).to.be.within(49, 60);
    const read = (await readAuditAfter(store, 0, 5000)).map(({ number }) => number);
    expect(read).to.not.include.members(gone.slice(0, 1));
  });

  it('no item is trimmed before every target of the delivery has it, up to the number that is kept for them', async () => {
    const at = START + 1000 * DAY;
    const items = await record('bulk', at, 'undelivered', 30);
    const delivered = async () => [items[9]?.number ?? 0, Infinity];
    const later = servicesAt(at + 100 * DAY);
    await trimAudit(later, kept({ delivered }), 'bulk');
    expect(await numbersOf('undelivered')).to.have.lengthOf(20);
    const numbersAbove = (bound: number) =>
      items.flatMap(({ number = 0 }) => (number > bound ? [number] : []));
    // The system adds checkpoints.
    const before = await lastAuditNumber(store);
    await trimAudit(later, kept({ delivered, keepUndelivered: 20 }), 'bulk');
    const after = await lastAuditNumber(store);
    const left = await numbersOf('undelivered');
    expect(left).to.include.members(numbersAbove(after - 20));
    expect(numbersAbove(before - 20)).to.include.members(left);
    expect(left).to.have.lengthOf.below(20);
  });
});

for (const kind of STORES)
  describe(`A clock that leapt before a process started, on ${kind}`, () => {
    // Of its own: a running system adds checkpoints with the real time.
    let log: ChainLog;
    before(async () => {
      log = await openChainLog(kind);
    });
    after(() => log.close());

    it('LOG-16 a clock that leapt before the process started, or just before it started again, is not believed for an hour', async () => {
      const { store } = log;
      const at = log.now();
      await log.append(1);
      let elapsed = 0;
      const guard = () => openClockGuard(() => elapsed);
      const hasLeapt = (clock: number, by = guard()) => by.hasLeapt({ store, now: () => clock });
      expect(await hasLeapt(at + DAY)).to.equal(false);
      const leapt = at + 400 * DAY;
      log.advance(400 * DAY);
      await log.append(1);
      const process = guard();
      expect(await hasLeapt(leapt + 600, process)).to.equal(true);
      elapsed += 3000;
      expect(await hasLeapt(leapt + 3600, process)).to.equal(true);
      elapsed += 700;
      expect(await hasLeapt(leapt + 4300, process)).to.equal(false);
    });
  });

describe('A clock that leaps ahead', () => {
  it('LOG-16 nothing is trimmed for an hour after the clock leapt ahead, and then it is believed', () => {
    const hasLeapt = leapDetector();
    const steps: [clock: number, elapsed: number, expected: boolean][] = [
      [START, 0, false],
      [START + 10, 10, false],
      [START + 400 * DAY, 20, true],
      [START + 400 * DAY + 3000, 3020, true],
      [START + 400 * DAY + 3700, 3720, false],
      [START, 3730, false],
    ];
    for (const [clock, elapsed, expected] of steps)
      expect(hasLeapt(clock, elapsed), String(elapsed)).to.equal(expected);
  });
});

describe('The share of a connection', () => {
  it('the connections with the most lose down to the same number', () => {
    for (const [counts, total, expected] of [
      [[10, 20, 1000], 530, 500],
      [[10, 20, 30], 60, Infinity],
      [[100, 100, 10], 110, 50],
      [[7], 3, 3],
    ] as const)
      expect(allowedEach(counts, total), String(counts)).to.equal(expected);
  });
});
