// The rows of the MCP conformance suite.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import type { Suite } from '../support/conformance.ts';
import { connect } from '../support/connection.ts';
import type { System } from '../support/system.ts';
import { openTokenProxy } from '../support/token-proxy.ts';
import type { TestSystems } from './systems.ts';
import type { Row } from './table.ts';
import { expectAuthorization, expectToken } from './expected-traffic.ts';
import { type Traffic, watchTraffic } from './traffic.ts';

const NO_SCENARIO = { notOffered: 'the conformance suite has no scenario for it' };

export function conformanceRows(systems: () => TestSystems, suite: Suite): Row[] {
  return ['2025-11-25', '2026-07-28'].map((revision) =>
    conformanceRow(revision, suite, () => systems().system),
  );
}

function conformanceRow(revision: string, suite: Suite, system: () => System): Row {
  let output = '';
  let traffic: Traffic | undefined;
  const granted = async (check: (traffic: Traffic) => void) => {
    expect(output).to.include('✓ authorization-code-grant: 1 passed, 0 failed');
    expect(output).to.match(/^Total: [3-9] passed, 0 failed$/m);
    if (traffic) check(traffic);
  };
  return {
    client: `conformance suite, ${revision}`,
    kind: 'program',
    steps: {
      discover: {
        prove: async () => {
          traffic = watchTraffic(system().origins);
          const { link } = await createConnector(system());
          const more = ['--spec-version', revision, '--resource', link];
          const result = await suite.runAuthorization(system(), link, more);
          traffic.stop();
          ({ output } = result);
          expect(result.code).to.equal(0);
          expect(output).to.match(/✓ authorization-server-metadata-endpoint: \d+ passed, 0 failed/);
        },
      },
      register: NO_SCENARIO,
      document: NO_SCENARIO,
      authorize: { prove: () => granted(expectAuthorization) },
      token: { prove: () => granted(expectToken) },
      call: { prove: () => listTools(system(), revision, suite) },
      refresh: NO_SCENARIO,
      'step-up': NO_SCENARIO,
      revoke: NO_SCENARIO,
      key: NO_SCENARIO,
      machine: NO_SCENARIO,
      device: NO_SCENARIO,
    },
  };
}

async function listTools(system: System, revision: string, suite: Suite): Promise<void> {
  const connector = await createConnector(system);
  const { link, accessToken } = await connect(system, connector);
  const proxy = await openTokenProxy(link, accessToken);
  try {
    const scenario = ['--scenario', 'tools-list', '--spec-version', revision];
    const found = await suite.runServer(proxy.url, scenario);
    expect(found.map(({ status }) => status))
      .to.include('SUCCESS')
      .and.not.include('FAILURE');
  } finally {
    await proxy.close();
  }
}
