import { expect } from 'chai';
import { claimOf, type Proof, resultsOf, type Row, type Step, STEPS, withTable } from './table.ts';

const PLACE = [
  '# Title',
  '<!-- interoperability: npm run interoperability writes what the tests proved -->',
  'what was here before',
  '<!-- end of interoperability -->',
  'The rest.',
].join('\n\n');
const REASON = 'it has never heard of it';

const proven: Proof = { prove: async () => {} };

function rowOf(changes: Partial<Record<Step, Proof>>): Row {
  const steps = Object.fromEntries(STEPS.map((step) => [step, proven])) as Row['steps'];
  return { client: 'Some client', kind: 'recording', steps: { ...steps, ...changes } };
}

function cellsOf(text: string): string[] {
  const [line = ''] = /^\| Some client.*$/m.exec(text) ?? [];
  return line
    .split('|')
    .slice(2, -1)
    .map((cell) => cell.trim());
}

describe('The interoperability table', () => {
  const all = new Set(STEPS.map((step) => claimOf('Some client', step)));

  it('the table has a tick only where this run proved the step', async () => {
    const some = new Set([...all].filter((claim) => claim !== claimOf('Some client', 'refresh')));
    const cells = cellsOf(await withTable(PLACE, resultsOf([rowOf({})], some)));
    expect(cells).to.deep.equal(STEPS.map((step) => (step === 'refresh' ? '✗' : '✓')));
  });

  it('the table gives the reason for each missing step once', async () => {
    const row = rowOf({ document: { notOffered: REASON }, revoke: { notOffered: REASON } });
    const text = await withTable(PLACE, resultsOf([row], all));
    expect(cellsOf(text).filter((cell) => cell === '– 1')).to.have.lengthOf(2);
    expect(text.split(`1. ${REASON}`)).to.have.lengthOf(2);
  });

  it('the table replaces the previous one and nothing else', async () => {
    const once = await withTable(PLACE, resultsOf([rowOf({})], all));
    expect(once).to.include('# Title').and.include('The rest.').and.not.include('before');
    expect(await withTable(once, resultsOf([rowOf({})], all))).to.equal(once);
    const failure = await withTable('# Title', []).catch(String);
    expect(failure).to.include('the document has no place for the table');
  });
});
