import type { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { openDataset } from '../../../src/development/sample/dataset.ts';

const TABLES = ['member', 'staff', 'shift', 'visit', 'payment'];

function rowsOf(dataset: DatabaseSync, table: string): Record<string, unknown>[] {
  return dataset.prepare(`SELECT * FROM ${table} ORDER BY rowid`).all();
}

describe('the sample data set', () => {
  let first: DatabaseSync;
  before(() => {
    first = openDataset();
  });
  after(() => first.close());

  const opened: DatabaseSync[] = [];
  const open = (seed?: number) => {
    const dataset = openDataset(seed);
    opened.push(dataset);
    return dataset;
  };
  afterEach(() => {
    for (const dataset of opened.splice(0)) dataset.close();
  });

  it('the data set has the same rows every time it is built', () => {
    const second = open();
    for (const table of TABLES) {
      expect(rowsOf(first, table)).to.deep.equal(rowsOf(second, table));
    }
  });

  it('the data set has other rows with another seed', () => {
    expect(rowsOf(open(1), 'visit')).to.not.deep.equal(rowsOf(first, 'visit'));
  });

  it('the data set has more than ten thousand rows', () => {
    const rows = TABLES.flatMap((table) => rowsOf(first, table)).length;
    expect(rows).to.be.within(10_000, 50_000);
  });

  it('the data set is read-only', () => {
    expect(() => first.exec('DELETE FROM member')).to.throw(/readonly/);
  });

  it('every member has a unique name, email address, phone number, account and card', () => {
    const members = rowsOf(first, 'member');
    for (const field of ['name', 'email', 'phone', 'iban', 'card']) {
      expect(new Set(members.map((member) => member[field])).size, field).to.equal(members.length);
    }
  });

  it('email addresses, phone numbers and accounts are from reserved ranges', () => {
    for (const { email, phone, iban, card } of rowsOf(first, 'member')) {
      expect(email).to.match(/@example\.com$/);
      expect(phone).to.match(/^\+44 7700 900\d{3}$/);
      expect(iban).to.match(/^GB00 /);
      expect(card).to.match(/^(\*{4} ){3}\d{4}$/);
    }
  });

  it('no member has a visit or a fee before joining', () => {
    const early = first
      .prepare(
        `SELECT 1 FROM member JOIN visit ON member_id = id WHERE substr(at, 1, 10) < joined_on
          UNION ALL SELECT 1 FROM member JOIN payment ON member_id = member.id WHERE due_on < joined_on`,
      )
      .all();
    expect(early).to.deep.equal([]);
  });
});
