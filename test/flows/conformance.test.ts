import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { useConformanceSuite } from '../support/conformance.ts';
import { useSystem } from '../support/system.ts';

/** The suite sends no resource parameter. */
const DEFAULT_CONNECTOR = 'for clients without a resource';

describe('The MCP conformance suite for authorization servers', () => {
  const { runAuthorization } = useConformanceSuite();
  const system = useSystem({ settings: { GATEHOUSE_DEFAULT_CONNECTOR: DEFAULT_CONNECTOR } });
  let link = '';
  before(async () => {
    ({ link } = await createConnector(system(), { name: DEFAULT_CONNECTOR }));
  });

  // With `--resource`, the suite runs for the table in test/interoperability/README.md.
  for (const revision of ['2025-03-26', '2025-06-18', '2025-11-25', '2026-07-28']) {
    it(`SUP-05 the authorization server passes every check of revision ${revision}`, async () => {
      const more = ['--spec-version', revision];
      const { code, output } = await runAuthorization(system(), link, more);
      expect(output).to.match(/^Total: [2-9] passed, 0 failed$/m);
      expect(output).to.include('✓ authorization-code-grant: 1 passed, 0 failed');
      expect(code).to.equal(0);
    });
  }
});
