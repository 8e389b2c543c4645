import { expect } from 'chai';
import { openStoredDigests } from '../../../src/audit/chain/stored-digests.ts';

describe('The digests of items that this process stored', () => {
  const write = (name: string, first: number, count: number) => {
    const each = Array.from({ length: count }, (_, index) => `${name}${first + index}`);
    return { first, epoch: name, ids: each, digests: each };
  };
  const known = (digests: ReturnType<typeof openStoredDigests>, last = 12) =>
    Array.from({ length: last }, (_, index) => digests.get(index + 1)?.id ?? '-').join(' ');

  it('are found by number, with the newest item of their write, whatever the order of the writes', () => {
    const digests = openStoredDigests();
    for (const [first, count] of [
      [6, 2],
      [1, 3],
      [9, 1],
      [4, 1],
    ] as const)
      digests.add(write('a', first, count));
    expect(known(digests)).to.equal('a1 a2 a3 a4 - a6 a7 - a9 - - -');
    const newest = { number: 3, epoch: 'a', id: 'a3' };
    expect(digests.get(2)).to.deep.equal({ id: 'a2', epoch: 'a', digest: 'a2', newest });
    digests.dropUpTo(4);
    expect(known(digests)).to.equal('- - - - - a6 a7 - a9 - - -');
  });

  it('are those of the latest write that got a number: a log that lost its end gives numbers again', () => {
    for (const [first, count, expected] of [
      [2, 1, 'a1 b2 - a4 a5 a6 a7 a8 - - - -'],
      [3, 3, 'a1 a2 b3 b4 b5 - - a8 - - - -'],
      [5, 1, 'a1 a2 - - b5 - - a8 - - - -'],
      [1, 9, 'b1 b2 b3 b4 b5 b6 b7 b8 b9 - - -'],
      [8, 3, 'a1 a2 - a4 a5 a6 a7 b8 b9 b10 - -'],
      [10, 1, 'a1 a2 - a4 a5 a6 a7 a8 - b10 - -'],
    ] as const) {
      const digests = openStoredDigests();
      for (const [from, items] of [
        [1, 1],
        [2, 1],
        [4, 4],
        [8, 1],
      ] as const)
        digests.add(write('a', from, items));
      digests.add(write('b', first, count));
      expect(known(digests), `${first} ${count}`).to.equal(expected);
    }
  });
});
