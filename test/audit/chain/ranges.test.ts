import { expect } from 'chai';
import { openRanges } from '../../../src/audit/chain/ranges.ts';

describe('Ranges of numbers', () => {
  it('know what is in them, whatever they overlap and in whatever order they came', () => {
    const ranges = openRanges();
    const members = new Set<number>();
    for (let round = 0; round < 300; round += 1) {
      const first = (round * 7919) % 2000;
      const last = first + (round % 9);
      ranges.add([[first, last]]);
      for (let number = first; number <= last; number += 1) members.add(number);
    }
    for (let number = 1; number < 2100; number += 1) {
      expect(ranges.has(number)).to.equal(members.has(number));
      let gap = number - 1;
      while (members.has(gap)) gap -= 1;
      expect(ranges.gapBelow(number)).to.equal(gap);
    }
  });

  it('are looked up while a hundred thousand of them arrive one by one', () => {
    const ranges = openRanges();
    for (let count = 0; count < 100_000; count += 1) {
      const first = ((count * 7919) % 100_000) * 10;
      ranges.add([[first, first + 5]]);
      expect(ranges.has(first + 3)).to.equal(true);
    }
    expect(ranges.has(7)).to.equal(false);
    expect(ranges.gapBelow(6)).to.equal(-1);
  });
});
