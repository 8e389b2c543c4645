import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';

const TESTS = join(import.meta.dirname, '..');
const TABLE = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8');

type Row = { id: string; promise: string; shown: string };

/** `## Redirect addresses (RED-01 to RED-12)` with the table under it. */
const groups = TABLE.split(/^## /m)
  .slice(1)
  .map((text) => {
    const [, prefix = '', first, last] = /\(([A-Z]+)-(\d+) to [A-Z]+-(\d+)\)/.exec(text) ?? [];
    return { text, prefix, first: Number(first), last: Number(last), rows: rowsIn(text) };
  })
  .filter(({ prefix }) => prefix !== '');

function rowsIn(text: string): Row[] {
  return [...text.matchAll(/^\| ([A-Z]+-\d\d) +\| +(.+?) +\| +(.+?) +\|$/gm)].map(
    ([, id = '', promise = '', shown = '']) => ({ id, promise, shown }),
  );
}

function titlesIn(file: string): string[] {
  const text = readFileSync(join(TESTS, file), 'utf8');
  const calls = text.matchAll(/\b(?:it|describe|onEachStore)\(\s*(['"`])((?:\\.|(?!\1).)*)\1/g);
  return [...calls].map(([, , title = '']) => title);
}

const filesOf = ({ shown }: Row) =>
  [...shown.matchAll(/`([\w/.-]+\.test\.ts)`/g)].map(([, f = '']) => f);

describe('The threat table', () => {
  it('the threat table has every row of its groups, once and in order', () => {
    expect(groups).to.not.deep.equal([]);
    for (const { prefix, first, last, rows } of groups) {
      const expected = Array.from(
        { length: last - first + 1 },
        (_, n) => `${prefix}-${String(first + n).padStart(2, '0')}`,
      );
      expect(rows.map(({ id }) => id)).to.deep.equal(expected);
    }
  });

  for (const row of groups.flatMap(({ rows }) => rows)) {
    it(`the threat table names tests of ${row.id}, or says why there is none`, () => {
      const files = filesOf(row);
      if (files.length === 0) expect(row.shown).to.match(/^none: .{20}/);
      for (const file of files) {
        expect(existsSync(join(TESTS, file)), file).to.equal(true);
        const titles = titlesIn(file).filter((title) => title.split(' ').includes(row.id));
        expect(titles, `${file} has no test called ${row.id}`).to.not.deep.equal([]);
      }
    });
  }
});

/** Tables whose last column names tests by file and title, and the least number of rows. */
const TABLES_OF_TITLES = { 'assertions.md': 51, 'clauses.md': 70, 'checklists.md': 70 };

/** A title as the tables write it: without threat ids, and with `…` for values. */
function titleInTables(title: string): string {
  return title
    .replace(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '…')
    .replace(/\\'/g, "'")
    .replace(/^(?:[A-Z]{3}-\d\d )+/, '');
}

function rowsNamingTests(table: string) {
  return readFileSync(join(import.meta.dirname, table), 'utf8')
    .split('\n')
    .filter((line) => /^\| (?!---)/.test(line) && !line.endsWith('| test |'))
    .map((row) => ({
      row,
      named: (row.split(' | ').at(-1) ?? '').replace(/ \|$/, '').split('<br>'),
    }));
}

describe('The tables that name tests by their titles', () => {
  for (const [table, least] of Object.entries(TABLES_OF_TITLES))
    it(`each row of ${table} names tests that exist, or says why there is none`, () => {
      const rows = rowsNamingTests(table);
      expect(rows.length).to.be.at.least(least);
      const titles = new Map<string, string[]>();
      for (const { row, named } of rows)
        for (const test of named) {
          if (/^none: .{20}/.test(test)) continue;
          const [, file = '', title = ''] = /^`([\w/.-]+\.test\.ts)`: (.+)$/.exec(test) ?? [];
          const known = titles.get(file) ?? titlesIn(file).map(titleInTables);
          titles.set(file, known);
          expect(known, row).to.include(title);
        }
    });
});
