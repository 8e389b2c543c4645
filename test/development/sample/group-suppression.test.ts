import { expect } from 'chai';
import { array, assert, nat, property } from 'fast-check';
import { suppressSmallGroups } from '../../../src/development/sample/group-suppression.ts';

type Shown = { group: string; people: number | null; visits: number | null; suppressed?: boolean };

function table(...sizes: number[]) {
  return sizes.map((people, index) => ({ group: `g${index}`, people, visits: people * 10 }));
}

function shownOf(groups: unknown): Shown[] {
  return suppressSmallGroups({ groups }).groups as Shown[];
}

function suppressedIn(...sizes: number[]): string[] {
  return shownOf(table(...sizes)).flatMap(({ group, suppressed }) => (suppressed ? [group] : []));
}

describe('suppression of small groups', () => {
  it('a suppressed group keeps its label and loses every number', () => {
    const [first] = shownOf(table(4, 50, 60));
    expect(first).to.deep.equal({ group: 'g0', people: null, visits: null, suppressed: true });
  });

  it('groups of fewer than five people are suppressed', () => {
    expect(suppressedIn(5, 6, 7)).to.deep.equal([]);
    expect(suppressedIn(4, 6, 7)).to.include('g0');
  });

  it('a single small group is suppressed with the first other group, so that the total does not reveal it', () => {
    expect(suppressedIn(30, 2, 9, 40)).to.deep.equal(['g0', 'g1']);
  });

  it('several small groups are suppressed with another group, because together they may be the same few people', () => {
    expect(suppressedIn(30, 1, 1, 40)).to.deep.equal(['g0', 'g1', 'g2']);
  });

  it('of several groups of the same size only one is suppressed in addition', () => {
    expect(suppressedIn(3, 8, 8, 8)).to.deep.equal(['g0', 'g1']);
  });

  it('the additional group is chosen by position and not by size, which would reveal it', () => {
    for (const sizes of [
      [3, 90, 20, 30],
      [3, 20, 90, 30],
    ])
      expect(suppressedIn(...sizes)).to.deep.equal(['g0', 'g1']);
  });

  it('empty groups and groups of unknown size are suppressed', () => {
    expect(suppressedIn(0, 20, 30)).to.deep.equal(['g0', 'g1']);
    const [unknown] = shownOf([{ group: 'x', visits: 3 }, ...table(20, 30)]);
    expect(unknown).to.deep.equal({ group: 'x', visits: null, suppressed: true });
  });

  it('groups outside lists are suppressed too, with everything inside them', () => {
    const result = {
      total: { people: 2, visits: 9, by: 'x', more: { people: 70 } },
      staff: { people: 6 },
    };
    expect(suppressSmallGroups(result)).to.deep.equal({
      total: {
        people: null,
        visits: null,
        by: 'x',
        more: { people: null, suppressed: true },
        suppressed: true,
      },
      staff: { people: 6 },
    });
  });

  it('a number without a group size is suppressed', () => {
    expect(suppressSmallGroups({ list: [3, 'a'], deep: [[7]] })).to.deep.equal({
      list: [null, 'a'],
      deep: [[null]],
    });
  });

  it('no shown size is below five, and no total leaves fewer than five people', () => {
    assert(
      property(array(nat({ max: 12 }), { minLength: 1, maxLength: 9 }), (sizes) => {
        const shown = shownOf(table(...sizes));
        const missing = sizes.filter((_, index) => shown[index]?.suppressed);
        for (const { people } of shown) if (people !== null) expect(people).to.be.at.least(5);
        if (missing.length > 0 && missing.length < sizes.length) {
          expect(missing.length).to.be.at.least(2);
          expect(Math.max(...missing)).to.be.at.least(5);
        }
        expect(missing.length > 0).to.equal(sizes.some((people) => people < 5));
      }),
    );
  });
});
