// A number of people that is close to the total reveals the few others.
import { expect } from 'chai';
import { openDataset } from '../../../src/development/sample/dataset.ts';
import { redact } from '../../../src/development/sample/redact.ts';
import { suppressSmallGroups } from '../../../src/development/sample/group-suppression.ts';
import { SAMPLE_CALLS } from './sample-calls.ts';

type Row = Record<string, unknown>;

function countsIn(value: unknown): number[] {
  if (Array.isArray(value)) return value.flatMap(countsIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([field, inner]) =>
    field === 'people' && typeof inner === 'number' ? [inner] : countsIn(inner),
  );
}

describe('suppression of numbers close to the total', () => {
  const groups = (...sizes: number[]) => sizes.map((people) => ({ people, visits: people * 3 }));
  const peopleIn = (result: Row) => (result.groups as Row[]).map(({ people }) => people);

  it("a number close to the total is suppressed, and the group's other numbers are shown", () => {
    const shown = suppressSmallGroups({ groups: groups(599, 203), total: { people: 600 } });
    expect(shown.groups).to.deep.equal([
      { people: null, visits: 1797 },
      { people: 203, visits: 609 },
    ]);
    expect(shown.total).to.deep.equal({ people: 600 });
  });

  it('numbers one to four below the total are suppressed', () => {
    const shown = suppressSmallGroups({
      groups: groups(600, 599, 596, 595),
      total: { people: 600 },
    });
    expect(peopleIn(shown)).to.deep.equal([600, null, null, 595]);
  });

  it('a number close to the number of members is suppressed, in a list, a total or alone', () => {
    const shown = suppressSmallGroups({
      members: { people: 600 },
      visitors: { people: 597, visits: 9000 },
      groups: groups(596, 300),
      total: { people: 598 },
    });
    expect(shown).to.deep.equal({
      members: { people: 600 },
      visitors: { people: null, visits: 9000 },
      groups: [
        { people: null, visits: 1788 },
        { people: 300, visits: 900 },
      ],
      total: { people: null },
    });
  });

  it('a suppressed number counts as large and keeps small groups suppressed', () => {
    const shown = suppressSmallGroups({ groups: groups(40, 599, 3), total: { people: 600 } });
    expect(peopleIn(shown)).to.deep.equal([null, null, null]);
    expect((shown.groups as Row[]).map(({ visits }) => visits)).to.deep.equal([null, 1797, null]);
  });

  for (const seed of [2025, 1]) {
    it(`no result of the sample at analytics has such a number, with seed ${seed}`, () => {
      const dataset = openDataset(seed);
      const all = 600;
      for (const { tool, given } of SAMPLE_CALLS.filter(({ tool }) => tool.level === 'analytics')) {
        const result = tool.run(dataset, tool.input.parse(given));
        const shown = countsIn(redact(result, 'analytics'));
        expect(shown, tool.name).to.include(all);
        expect(
          shown.filter((people) => people < all && people > all - 5),
          `${tool.name} ${JSON.stringify(given)}`,
        ).to.deep.equal([]);
      }
      dataset.close();
    });
  }
});
