// The interoperability table: every client gets through every step that it has, with the limits of production, and README.md says what this run proved.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { restoreClock } from '../support/clock.ts';
import { mcpRemoteRow } from './mcp-remote-row.ts';
import { openidClientRow } from './openid-client-row.ts';
import { recordedRow } from './recorded-rows.ts';
import { RECORDED_CLIENTS } from './recorded-clients.ts';
import { sdkRows } from './sdk-rows.ts';
import { useStage } from './stage.ts';
import { claimOf, resultsOf, type Row, STEPS, withTable } from './table.ts';

const ROOT = join(import.meta.dirname, '../..');

describe('Interoperability', function () {
  this.timeout(60_000);
  const stage = useStage('sqlite');
  const rows: Row[] = [
    ...sdkRows(stage),
    mcpRemoteRow(stage),
    openidClientRow(stage),
    ...RECORDED_CLIENTS.map((client) => recordedRow(client, stage)),
  ];
  const proven = new Set<string>();

  for (const { client, steps, close } of rows)
    describe(client, () => {
      after(restoreClock);
      after(() => close?.());
      for (const step of STEPS) {
        const proof = steps[step];
        if ('notOffered' in proof) continue;
        const claim = claimOf(client, step);
        it(claim, async () => {
          await proof.prove();
          proven.add(claim);
        });
      }
    });

  describe('README.md', () => {
    it('has the table of this very run', async () => {
      const results = resultsOf(rows, proven);
      await mkdir(join(ROOT, 'results'), { recursive: true });
      const file = join(ROOT, 'results/interoperability.json');
      await writeFile(file, `${JSON.stringify(results, null, 2)}\n`);
      const readme = await readFile(join(ROOT, 'README.md'), 'utf8');
      expect(readme, 'write it with npm run interoperability').to.equal(
        await withTable(readme, results),
      );
    });
  });
});
