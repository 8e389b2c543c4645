import { expect } from 'chai';
import { LEVELS } from '../../support/levels.ts';
import { sharedDataset } from '../../../src/development/sample/dataset.ts';
import { FIELDS, redact } from '../../../src/development/sample/redact.ts';
import { ToolError, TOOLS } from '../../../src/development/sample/tools.ts';
import { SAMPLE_CALLS } from './sample-calls.ts';

type Row = Record<string, unknown>;

function fieldsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(fieldsIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([field, inner]) => [field, ...fieldsIn(inner)]);
}

describe('the tools of the sample', () => {
  const dataset = sharedDataset();
  const run = (name: string, given: Row): Row => {
    const tool = TOOLS.find((candidate) => candidate.name === name);
    if (!tool) throw new Error(`no tool ${name}`);
    return tool.run(dataset, tool.input.parse(given));
  };

  it('the tools return exactly the fields of the level table', () => {
    const returned = SAMPLE_CALLS.flatMap(({ tool, given }) => fieldsIn(run(tool.name, given)));
    expect([...new Set(returned)].sort()).to.deep.equal(
      LEVELS.flatMap((level) => FIELDS[level]).sort(),
    );
  });

  it('every tool returns something at its own level', () => {
    for (const { tool, given } of SAMPLE_CALLS) {
      const shown = redact(run(tool.name, given), tool.level);
      expect(JSON.stringify(shown).length, tool.name).to.be.above(60);
    }
  });

  it('at least six tools exist, and four of them show people, from operations on', () => {
    expect(TOOLS.length).to.be.at.least(6);
    expect(TOOLS.filter(({ level }) => level === 'operations')).to.have.lengthOf(4);
  });

  it('unknown arguments are refused, including a search by contact details', () => {
    for (const { tool, given } of SAMPLE_CALLS) {
      expect(tool.input.safeParse(given).success, tool.name).to.equal(true);
      for (const field of ['email', 'phone', 'iban', 'card']) {
        const parsed = tool.input.safeParse({ ...given, [field]: 'x' });
        expect(parsed.success, `${tool.name} ${field}`).to.equal(false);
      }
    }
  });

  it('groups add up to the total', () => {
    for (const { tool, given } of SAMPLE_CALLS.filter(({ given }) => 'by' in given)) {
      const { groups, total } = run(tool.name, given) as { groups: Row[]; total: Row };
      const summed = Object.keys(total).filter((field) => field !== 'people');
      for (const field of summed) {
        const sum = groups.reduce((so, group) => so + Number(group[field]), 0);
        expect(sum, `${tool.name} ${given.by} ${field}`).to.be.closeTo(Number(total[field]), 0.001);
      }
    }
  });

  it('groups are ordered by label, so that the position of a suppressed group reveals nothing', () => {
    const { groups } = run('membership_breakdown', { by: 'plan' }) as { groups: Row[] };
    const labels = groups.map(({ group }) => group);
    expect(labels).to.deep.equal(labels.toSorted());
  });

  it('the three founders and one more plan are suppressed at analytics', () => {
    const result = run('membership_breakdown', { by: 'plan' });
    const { groups, total } = redact(result, 'analytics') as { groups: Row[]; total: Row };
    const suppressed = groups.filter((group) => group.suppressed);
    expect(suppressed.map(({ group }) => group))
      .to.include('founder')
      .and.have.lengthOf(2);
    expect(suppressed.map(({ people }) => people)).to.deep.equal([null, null]);
    expect(total).to.deep.equal({ people: 600 });
  });

  it('paging returns each member once', () => {
    const seen: unknown[] = [];
    for (let page: unknown = 1; page !== undefined;) {
      const { found, nextPage } = run('find_members', { page }) as {
        found: Row[];
        nextPage?: unknown;
      };
      seen.push(...found.map(({ memberId }) => memberId));
      page = nextPage;
    }
    expect(new Set(seen).size).to.equal(600);
    expect(seen).to.have.lengthOf(600);
  });

  it('a search finds members by any part of the name, literally and case-insensitively', () => {
    const { found, matches } = run('find_members', { name: 'rOSS' }) as {
      found: Row[];
      matches: number;
    };
    expect(matches).to.be.above(0);
    for (const { name } of found) expect(String(name)).to.match(/ross/i);
    expect(run('find_members', { name: '%' }).matches).to.equal(0);
    expect(run('find_members', { name: "' OR 1=1 --" }).matches).to.equal(0);
  });

  it('a search returns only members that match every condition', () => {
    const given = { plan: 'basic', site: 'Station', status: 'active' };
    const { found } = run('find_members', given) as { found: Row[] };
    expect(found).to.not.have.lengthOf(0);
    for (const row of found) expect(row).to.include(given);
  });

  it('the tools agree on the amount owed', () => {
    const { debtors } = run('club_overview', {}) as { debtors: { outstanding: number } };
    const pages = [1, 2, 3].flatMap(
      (page) => run('outstanding_payments', { page }).unpaid as Row[],
    );
    const owed = pages.reduce((sum, { amount }) => sum + Number(amount), 0);
    expect(owed).to.equal(debtors.outstanding);
  });

  it('an unknown member number is refused', () => {
    for (const name of ['member_visits', 'member_contact', 'payment_details']) {
      expect(() => run(name, { memberId: 'M9999' })).to.throw(ToolError, /find_members/);
    }
  });
});
