// Claims about the sample data set: repeatable, read-only, quick to build, and about nobody.
import type { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { openDataset } from '../../../src/resource-server/sample/dataset.ts';

const TABLES = ['member', 'staff', 'shift', 'visit', 'payment'];

function rowsOf(dataset: DatabaseSync, table: string): Record<string, unknown>[] {
  return dataset.prepare(`SELECT * FROM ${table} ORDER BY rowid`).all();
}

describe('the sample data set', () => {
  const opened: DatabaseSync[] = [];
  const open = (seed?: number) => {
    const dataset = openDataset(seed);
    opened.push(dataset);
    return dataset;
  };
  afterEach(() => {
    for (const dataset of opened.splice(0)) dataset.close();
  });

  it('has the same rows every time it is built', () => {
    const [first, second] = [open(), open()];
    for (const table of TABLES) {
      expect(rowsOf(first, table)).to.deep.equal(rowsOf(second, table));
    }
  });

  it('has other rows for another seed', () => {
    expect(rowsOf(open(1), 'visit')).to.not.deep.equal(rowsOf(open(2), 'visit'));
  });

  it('has more than ten thousand rows and takes less than 300 ms of processor time', () => {
    const start = process.cpuUsage();
    const dataset = open();
    const { user, system } = process.cpuUsage(start);
    const rows = TABLES.flatMap((table) => rowsOf(dataset, table)).length;
    expect(rows).to.be.within(10_000, 50_000);
    expect((user + system) / 1000).to.be.below(300);
  });

  it('cannot be written to', () => {
    expect(() => open().exec('DELETE FROM member')).to.throw(/readonly/);
  });

  it('gives everybody a name, address, number, account and card of their own', () => {
    const members = rowsOf(open(), 'member');
    for (const field of ['name', 'email', 'phone', 'iban', 'card']) {
      expect(new Set(members.map((member) => member[field])).size, field).to.equal(members.length);
    }
  });

  it('uses only addresses, numbers and accounts that belong to nobody', () => {
    for (const { email, phone, iban, card } of rowsOf(open(), 'member')) {
      expect(email).to.match(/@example\.com$/);
      expect(phone).to.match(/^\+44 7700 900\d{3}$/);
      expect(iban).to.match(/^GB00 /);
      expect(card).to.match(/^(\*{4} ){3}\d{4}$/);
    }
  });

  it('has no visit and no fee before a member joined', () => {
    const early = open()
      .prepare(
        `SELECT 1 FROM member JOIN visit ON member_id = id WHERE substr(at, 1, 10) < joined_on
          UNION ALL SELECT 1 FROM member JOIN payment ON member_id = member.id WHERE due_on < joined_on`,
      )
      .all();
    expect(early).to.deep.equal([]);
  });
});
