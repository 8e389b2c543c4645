// Runs clients through every step under production limits, and checks the table in README.md against the result.
import { readFile } from 'node:fs/promises';
import { expect } from 'chai';
import { restoreClock } from '../support/clock.ts';
import { useConformanceSuite } from '../support/conformance.ts';
import { conformanceRows } from './conformance-rows.ts';
import { mcpRemoteRow } from './mcp-remote-row.ts';
import { openidClientRow } from './openid-client-row.ts';
import { recordedRow } from './recorded-rows.ts';
import { RECORDED_CLIENTS } from './recorded-clients.ts';
import { sdkRows } from './sdk-rows.ts';
import { useTestSystems } from './systems.ts';
import { claimOf, DOCUMENT, resultsOf, type Row, STEPS, withTable, writeResults } from './table.ts';

/** Defines the tests of the clients of one kind. Another file runs those of the other kind. */
export function describeClients(kind: Row['kind']): void {
  // Its thread ends before the systems stop.
  const suite = useConformanceSuite();
  const systems = useTestSystems('sqlite');
  const rows: Row[] = [
    ...sdkRows(systems),
    mcpRemoteRow(systems),
    openidClientRow(systems),
    ...conformanceRows(systems, suite),
    ...RECORDED_CLIENTS.map((client) => recordedRow(client, systems)),
  ];
  const own = rows.filter((row) => row.kind === kind);
  const others = rows.filter((row) => row.kind !== kind);
  const proven = new Set<string>();

  for (const { client, steps, close } of own)
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

  describe('test/interoperability/README.md', () => {
    it(`the README has the table of this run (each ${kind})`, async () => {
      await writeResults(kind, resultsOf(own, proven));
      const elsewhere = others.flatMap(({ client }) => STEPS.map((step) => claimOf(client, step)));
      const results = resultsOf(rows, new Set([...proven, ...elsewhere]));
      const readme = await readFile(DOCUMENT, 'utf8');
      expect(readme, 'write it with npm run interoperability').to.equal(
        await withTable(readme, results),
      );
    });
  });
}
