// Attempts to infer suppressed numbers from everything the sample shows at analytics.
import type { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { array, assert, integer, oneof, property } from 'fast-check';
import { openDataset, sharedDataset } from '../../../src/development/sample/dataset.ts';
import { redact } from '../../../src/development/sample/redact.ts';
import { suppressSmallGroups } from '../../../src/development/sample/group-suppression.ts';
import { TOOLS } from '../../../src/development/sample/tools.ts';
import { SAMPLE_CALLS } from './sample-calls.ts';

type Row = { group: string; people: number | null; suppressed?: boolean };
type Table = { groups: Row[]; total: { people: number | null } };

const SEEDS = [2025, 1, 2, 3, 4];
const SMALL = [1, 2, 3, 4];
const ANALYTICS = SAMPLE_CALLS.filter(({ tool }) => tool.level === 'analytics');
/** Queries whose groups do not overlap, so that the groups add up to the total. */
const PARTITIONS = ANALYTICS.filter(
  ({ tool, given }) => tool.name === 'membership_breakdown' || given.by === 'method',
);

function tableOf(sizes: readonly number[]) {
  const groups = sizes.map((people, index) => ({ group: `g${index}`, people }));
  return { groups, total: { people: sizes.reduce((sum, size) => sum + size, 0) } };
}

const shownOf = (sizes: readonly number[]) => JSON.stringify(suppressSmallGroups(tableOf(sizes)));

/** The sizes that group `index` may have given what is shown, if one other suppressed group makes up the difference. */
function possibleSizes(sizes: readonly number[], index: number): number[] {
  const seen = shownOf(sizes);
  return SMALL.filter((size) =>
    sizes.some((_, other) => {
      const changed = [...sizes];
      changed[index] = size;
      if (other !== index) changed[other] = (sizes[other] ?? 0) + (sizes[index] ?? 0) - size;
      const isSameTotal = other !== index || size === sizes[index];
      return isSameTotal && shownOf(changed) === seen;
    }),
  );
}

describe('Suppressed numbers at analytics', () => {
  let datasets: DatabaseSync[] = [];
  before(() => {
    datasets = SEEDS.map((seed) => openDataset(seed));
  });
  after(() => datasets.forEach((dataset) => dataset.close()));

  const withDataset = (claim: (dataset: DatabaseSync) => void) => datasets.forEach(claim);

  it('subtracting the shown groups from the total leaves at least five people', () => {
    withDataset((dataset) => {
      for (const { tool, given } of PARTITIONS) {
        const { groups, total } = tool.run(dataset, tool.input.parse(given)) as Table;
        const shown = redact({ groups, total }, 'analytics') as Table;
        const seen = shown.groups.reduce((sum, { people }) => sum + (people ?? 0), 0);
        const missing = Number(total.people) - seen;
        if (missing > 0) expect(missing, `${tool.name} ${given.by}`).to.be.at.least(5);
      }
    });
  });

  it('the shown numbers allow any size below five for a suppressed group', () => {
    withDataset((dataset) => {
      let tried = 0;
      for (const { tool, given } of PARTITIONS) {
        const { groups } = tool.run(dataset, tool.input.parse(given)) as Table;
        const sizes = groups.map(({ people }) => Number(people));
        for (const [index, size] of sizes.entries()) {
          if (size > 4) continue;
          tried += 1;
          expect(possibleSizes(sizes, index), `${tool.name} ${given.by}`).to.deep.equal(SMALL);
        }
      }
      expect(tried).to.equal(3);
    });
  });

  it('any size below five is possible in every table whose other groups have at least ten people', () => {
    const size = oneof(integer({ min: 1, max: 4 }), integer({ min: 10, max: 60 }));
    assert(
      property(array(size, { minLength: 2, maxLength: 7 }), (sizes) => {
        if (!sizes.some((people) => people > 4)) return;
        for (const [index, people] of sizes.entries())
          if (people < 5) expect(possibleSizes(sizes, index)).to.deep.equal(SMALL);
      }),
    );
  });

  it('repeated queries give the same result, so that their difference reveals nothing', () => {
    const dataset = sharedDataset();
    for (const { tool, given } of ANALYTICS) {
      const ask = () =>
        JSON.stringify(redact(tool.run(dataset, tool.input.parse(given)), 'analytics'));
      expect(ask(), tool.name).to.equal(ask());
    }
  });

  it('no tool has a filter, period, order, page or second dimension that would isolate a group', () => {
    for (const tool of TOOLS.filter(({ level }) => level === 'analytics')) {
      expect(Object.keys(tool.input.shape), tool.name).to.have.members(
        tool.name === 'club_overview' ? [] : ['by'],
      );
      for (const more of [
        { site: 'Riverside' },
        { from: '2025-01-01', to: '2025-01-02' },
        { sort: 'people' },
        { limit: 1 },
        { page: 2 },
        { by: ['plan', 'site'] },
        { by: 'plan,site' },
        { by: 'name' },
      ])
        expect(tool.input.safeParse({ by: 'site', ...more }).success, tool.name).to.equal(false);
    }
  });

  it('sums are suppressed with the group, so that no average reveals them', () => {
    withDataset((dataset) => {
      for (const { tool, given } of ANALYTICS.filter(({ given: asked }) => 'by' in asked)) {
        const shown = redact(tool.run(dataset, tool.input.parse(given)), 'analytics') as Table;
        for (const { suppressed, group, ...numbers } of shown.groups)
          if (suppressed)
            expect(Object.values(numbers), `${tool.name} ${group}`).to.deep.equal(
              Object.keys(numbers).map(() => null),
            );
      }
    });
  });

  it('the order of groups does not depend on the numbers', () => {
    const dataset = sharedDataset();
    for (const { tool, given } of ANALYTICS.filter(({ given: asked }) => 'by' in asked)) {
      if (given.by === 'weekday') continue;
      const { groups } = tool.run(dataset, tool.input.parse(given)) as Table;
      const labels = groups.map(({ group }) => group);
      expect(labels, tool.name).to.deep.equal(labels.toSorted());
    }
  });
});
