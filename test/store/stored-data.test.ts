// config/stored-data.md has a row for every kind of record.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { openAccountPage } from '../support/account-page.ts';
import { connect } from '../support/connection.ts';
import { createConnector, revokeConnector } from '../support/management-api.ts';
import { callTool } from '../support/mcp.ts';
import { useSystem } from '../support/system.ts';
import { until } from '../support/until.ts';

const ROOT = join(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

/** The words in the second column of the tables. */
function kindsIn(document: string, column: number): Set<string> {
  const rows = document.split('\n').filter((line) => line.startsWith('| '));
  const cells = rows.map((row) => row.split(' | ')[column] ?? '');
  const names = cells.flatMap((cell) => [...cell.matchAll(/`([a-z-]+)(?::[^`]*)?`/g)]);
  return new Set(names.map(([, kind = '']) => kind));
}

const ROWS = kindsIn(read('config/stored-data.md'), 1);

/** Texts of the source that only look like the name of a record: channels, audiences, modules, digests, names of callers and of fields. */
const NOT_STORED = new Set(
  'address channel domain email group host key minted node owner probe read refused sha256 user'.split(
    ' ',
  ),
);

describe('The table of stored data', () => {
  const system = useSystem();

  it('the table has a row for every kind of record that the source names', () => {
    const files = globSync('src/**/*.ts', { cwd: ROOT });
    const named = files.flatMap((file) =>
      [...read(file).matchAll(/[`'"]([a-z][a-z-]*):(?:\$\{|[a-z-]+['"`])/g)].map(
        ([, kind = '']) => kind,
      ),
    );
    expect(named).to.have.length.above(80);
    const missing = [...new Set(named)].filter(
      (kind) => !ROWS.has(kind) && !NOT_STORED.has(kind) && !kind.startsWith('development-'),
    );
    expect(missing).to.deep.equal([]);
  });

  it('the table has the kinds of the map of the source', () => {
    const [, keys = ''] = read('src/README.md').split('## Stored keys');
    const known = kindsIn(keys.split('<!-- prettier-ignore-end -->')[0] ?? '', 0);
    const isWhole = (kind: string) => !kind.startsWith('-') && !kind.endsWith('-');
    expect([...known].filter((kind) => isWhole(kind) && !ROWS.has(kind))).to.deep.equal([]);
  });

  it('the table has the kinds of the records of a system that was used', async () => {
    const connector = await createConnector(system());
    const { browser, link, accessToken } = await connect(system(), connector);
    await openAccountPage(system(), browser);
    await callTool(link, accessToken, 'club_overview');
    await revokeConnector(system(), connector.id);
    const file = system().storeAddress.replace('sqlite:', '');
    const kinds = () => {
      const db = new DatabaseSync(file, { readOnly: true });
      const names = ['entry', 'member_set', 'log'].flatMap((table) =>
        db
          .prepare(`SELECT name FROM ${table}`)
          .all()
          .map(({ name }) => String(name)),
      );
      db.close();
      return new Set(names.map((name) => name.split(':')[0] ?? ''));
    };
    await until('the attempt to be stored', async () => kinds().has('attempt'));
    const stored = [...kinds()].filter((kind) => !kind.startsWith('development-'));
    expect(stored).to.have.length.above(20);
    expect(stored.filter((kind) => !ROWS.has(kind))).to.deep.equal([]);
  });
});
