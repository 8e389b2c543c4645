// What is kept of records that were read a moment ago: as long as they are good for, and no more of them than fits.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect } from 'chai';
import { cachedReader } from '../../src/store/cached-reader.ts';
import { until } from './condition.ts';

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const MEGABYTE = 1024 * 1024;

describe('A cached reader', () => {
  it('lets go of a record that is good for nothing any more, although nobody asks for another', async () => {
    const seen: WeakRef<object>[] = [];
    const load = async () => {
      const record = { level: 'operations' };
      seen.push(new WeakRef(record));
      return record;
    };
    const reader = cachedReader(load, { freshFor: 0.02, usableFor: 0.05 });
    await reader.read('a');
    await until('the record is gone', () => {
      collectGarbage();
      return seen.every((record) => record.deref() === undefined);
    });
    expect(seen).to.have.lengthOf(1);
    await reader.read('a');
    expect(seen).to.have.lengthOf(2);
  });

  it('keeps what was read last of records that do not all fit', async () => {
    let loads = 0;
    const load = async () => ({ load: (loads += 1), text: 'x'.repeat(MEGABYTE) });
    const reader = cachedReader(load, { freshFor: 60, usableFor: 60 });
    for (let id = 1; id <= 40; id += 1) await reader.read(String(id));
    expect(await reader.read('40')).to.include({ load: 40 });
    expect(await reader.read('1')).to.include({ load: 41 });
  });

  it('reads a record that is larger than all it may keep, every time', async () => {
    let loads = 0;
    const load = async () => ({ load: (loads += 1), text: 'x'.repeat(40 * MEGABYTE) });
    const reader = cachedReader(load, { freshFor: 60, usableFor: 60 });
    expect(await reader.read('1')).to.include({ load: 1 });
    expect(await reader.read('1')).to.include({ load: 2 });
  });
});
