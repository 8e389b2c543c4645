import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

const TESTS = join(import.meta.dirname, '..');
const TABLE = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8');

const rows = [...TABLE.matchAll(/^\| ([A-Z]{3}-\d\d) \| (.+) \|$/gm)].map(
  ([, id = '', rest = '']) => ({ id, shown: rest.split('|').at(-1)?.trim() ?? '' }),
);

function idsOfTitles(file: string): Set<string> {
  const text = readFileSync(join(TESTS, file), 'utf8');
  const calls = text.matchAll(/\b(?:it|describe|onEachStore)\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g);
  return new Set([...calls].flatMap(([, , title = '']) => title.match(/\b[A-Z]{3}-\d\d\b/g) ?? []));
}

describe('The threat table', () => {
  it('the threat table counts the rows of each group from 01', () => {
    const counts = new Map<string, number>();
    for (const { id } of rows) {
      const [group = '', number] = id.split('-');
      counts.set(group, (counts.get(group) ?? 0) + 1);
      expect(counts.get(group), id).to.equal(Number(number));
    }
    expect(TABLE.match(/^\| [A-Z]{3}-\d\d .*$/gm)).to.have.length(rows.length);
  });

  it('the threat table has a row for every id of a test title', () => {
    const known = new Set(rows.map(({ id }) => id));
    for (const file of globSync('**/*.test.ts', { cwd: TESTS }))
      expect(
        [...idsOfTitles(file)].filter((id) => !known.has(id)),
        file,
      ).to.deep.equal([]);
  });

  it('the threat table names tests of each row, or says why there is none', () => {
    for (const { id, shown } of rows) {
      const files = [...shown.matchAll(/`([\w/.-]+)`/g)].map(([, file]) => `${file}.test.ts`);
      if (/^none: .{20}/.test(shown)) continue;
      expect(files, id).to.not.deep.equal([]);
      for (const file of files) {
        expect(existsSync(join(TESTS, file)), `${id}: ${file}`).to.equal(true);
        expect([...idsOfTitles(file)], `no test in ${file} is called ${id}`).to.include(id);
      }
    }
  });
});
