import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { cachedReader } from '../../src/store/cached-reader.ts';
import { StoreUnavailable } from '../../src/store/store.ts';
import { until } from '../support/until.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const MEGABYTE = 1024 * 1024;

type Version = { version: number };

/** A reader of one record, at a time and with a store that the test controls. */
function controlled() {
  const loads: PromiseWithResolvers<Version | undefined>[] = [];
  const clock = { now: 1000 };
  const load = () => {
    const loading = Promise.withResolvers<Version | undefined>();
    loads.push(loading);
    return loading.promise;
  };
  const reader = cachedReader(load, { freshFor: 10, staleIfErrorFor: 45, now: () => clock.now });
  const answer = (version: number | undefined, at = loads.length - 1) =>
    loads[at]?.resolve(version === undefined ? undefined : { version });
  const fail = (error: Error = new StoreUnavailable('test')) => loads.at(-1)?.reject(error);
  const readNow = async (version?: number) => {
    const reading = reader.read('a');
    answer(version);
    return (await reading)?.version;
  };
  return { ...reader, clock, loads, answer, fail, readNow };
}

async function errorOf(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    () => undefined,
    (error: unknown) => error,
  );
}

describe('The cached reader', () => {
  it('a record is returned for ten seconds without reading the store again', async () => {
    const { readNow, clock, loads, read } = controlled();
    expect(await readNow(1)).to.equal(1);
    clock.now += 9.9;
    expect(await read('a')).to.deep.equal({ version: 1 });
    expect(loads).to.have.lengthOf(1);
    clock.now += 0.1;
    expect(await readNow(2)).to.equal(2);
    expect(loads).to.have.lengthOf(2);
  });

  it('the age of a record counts from the start of its load', async () => {
    const { read, answer, clock, readNow } = controlled();
    const slow = read('a');
    clock.now += 10;
    answer(1);
    await slow;
    expect(await readNow(2)).to.equal(2);
  });

  it('concurrent readers share one load', async () => {
    const { read, answer, loads } = controlled();
    const readers = [read('a'), read('a'), read('a')];
    answer(1);
    expect(await Promise.all(readers)).to.deep.equal([1, 1, 1].map((version) => ({ version })));
    expect(loads).to.have.lengthOf(1);
  });

  it('a record is returned for 45 seconds while the store is unavailable', async () => {
    const { readNow, read, fail, clock } = controlled();
    await readNow(1);
    clock.now += 44.9;
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const reading = read('a');
      fail();
      expect(await reading).to.deep.equal({ version: 1 });
    }
    clock.now += 0.1;
    const late = read('a');
    fail();
    expect(await errorOf(late)).to.be.instanceOf(StoreUnavailable);
    expect(await readNow(2)).to.equal(2);
  });

  it('an error other than an unavailable store rejects the read and keeps the record', async () => {
    const { readNow, read, fail, clock } = controlled();
    await readNow(1);
    clock.now += 20;
    const broken = read('a');
    fail(new TypeError('broken'));
    expect(await errorOf(broken)).to.be.instanceOf(TypeError);
    const reading = read('a');
    fail();
    expect(await reading).to.deep.equal({ version: 1 });
  });

  it('a read rejects when the store is unavailable and the record was never read', async () => {
    const { read, fail } = controlled();
    const reading = read('a');
    fail();
    expect(await errorOf(reading)).to.be.instanceOf(StoreUnavailable);
  });

  it('a dropped record is loaded again', async () => {
    const { readNow, drop } = controlled();
    await readNow(1);
    drop('a');
    expect(await readNow(2)).to.equal(2);
  });

  it('a record that is dropped while it is loaded is not cached', async () => {
    for (const before of [1, undefined]) {
      const { read, drop, answer, readNow } = controlled();
      const reading = read('a');
      drop('a');
      const second = read('a');
      answer(before, 0);
      answer(2, 1);
      expect((await reading)?.version).to.equal(before);
      expect(await second).to.deep.equal({ version: 2 });
      expect(await readNow(3)).to.equal(2);
    }
  });

  it('a record that is dropped while a load fails is not returned', async () => {
    const { readNow, read, drop, fail, clock } = controlled();
    await readNow(1);
    clock.now += 20;
    const reading = read('a');
    drop('a');
    fail();
    expect(await errorOf(reading)).to.be.instanceOf(StoreUnavailable);
  });

  it('refresh loads a record although it is fresh or being loaded', async () => {
    const { read, refresh, answer, readNow, loads } = controlled();
    const reading = read('a');
    const refreshed = refresh('a');
    answer(2, 1);
    answer(1, 0);
    expect(await refreshed).to.deep.equal({ version: 2 });
    expect(await reading).to.deep.equal({ version: 1 });
    expect(await readNow(3)).to.equal(2);
    expect(loads).to.have.lengthOf(2);
  });

  it('a missing record is not cached', async () => {
    const { readNow, read, fail, clock } = controlled();
    expect(await readNow(undefined)).to.equal(undefined);
    expect(await readNow(1)).to.equal(1);
    clock.now += 20;
    expect(await readNow(undefined)).to.equal(undefined);
    const reading = read('a');
    fail();
    expect(await errorOf(reading)).to.be.instanceOf(StoreUnavailable);
  });

  it('an expired record is freed although no other record is read', async () => {
    const seen: WeakRef<object>[] = [];
    const load = async () => {
      const record = { level: 'operations' };
      seen.push(new WeakRef(record));
      return record;
    };
    const reader = cachedReader(load, { freshFor: 0.02, staleIfErrorFor: 0.05 });
    await reader.read('a');
    await until('the record to be freed', () => {
      collectGarbage();
      return seen.every((record) => record.deref() === undefined);
    });
    expect(seen).to.have.lengthOf(1);
    await reader.read('a');
    expect(seen).to.have.lengthOf(2);
  });

  it('the most recently read records stay cached when not all fit into memory', async () => {
    let loads = 0;
    const load = async () => ({ load: (loads += 1), text: 'x'.repeat(MEGABYTE) });
    const reader = cachedReader(load, { freshFor: 60, staleIfErrorFor: 60 });
    for (let id = 1; id <= 40; id += 1) await reader.read(String(id));
    expect(await reader.read('40')).to.include({ load: 40 });
    expect(await reader.read('1')).to.include({ load: 41 });
  });

  it('a record larger than the whole cache is not cached', async () => {
    let loads = 0;
    const load = async () => ({ load: (loads += 1), text: 'x'.repeat(40 * MEGABYTE) });
    const reader = cachedReader(load, { freshFor: 60, staleIfErrorFor: 60 });
    expect(await reader.read('1')).to.include({ load: 1 });
    expect(await reader.read('1')).to.include({ load: 2 });
  });
});
