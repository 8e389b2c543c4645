// Runs the server scenarios of the MCP conformance suite against a server behind Gatehouse that has everything they ask for.
import { expect } from 'chai';
import { type Check, runServerSuite } from '../../support/conformance.ts';
import { connect } from '../../support/connection.ts';
import { createConnector } from '../../support/management-api.ts';
import { recordSoak, SOAK } from '../../support/soak.ts';
import { startSystem, type System } from '../../support/system.ts';
import { openTokenProxy, type TokenProxy } from '../../support/token-proxy.ts';
import {
  type EverythingServer,
  startEverythingServer,
} from '../../support/upstream/everything-server.ts';

/** `passes`: the checks that pass without Gatehouse, which the long run counts. */
const REVISIONS = [
  { revision: '2025-06-18', options: ['--spec-version', '2025-06-18'], passes: 56 },
  { revision: '2025-11-25', options: ['--requirements', '2025-11-25'], passes: 84 },
  { revision: '2026-07-28', options: ['--requirements', '2026-07-28'], passes: 164 },
] as const;

/** Scenarios of an extension that the server does not have, which no revision requires. */
const TASKS = /^tasks-/;

describe('A complete MCP server in the conformance suite', function () {
  this.timeout(60_000);
  let server: EverythingServer;
  let system: System;
  let proxy: TokenProxy;
  before(async () => {
    server = await startEverythingServer();
    const upstream = { url: server.url, defaultLevel: 'analytics' };
    system = await startSystem({ file: { resourceServer: { upstream } } });
    const connector = await createConnector(system, { level: 'analytics' });
    const { link, accessToken } = await connect(system, connector, { level: 'analytics' });
    proxy = await openTokenProxy(link, accessToken);
  });
  after(async () => {
    await proxy?.close();
    await system?.stop();
    await server?.close();
  });

  for (const { revision, options, passes } of REVISIONS) {
    it(`the server passes every check behind Gatehouse at revision ${revision}`, async () => {
      const found = await runServerSuite(proxy.url, options);
      expect(failed(found)).to.deep.equal([]);
      expect(passed(found)).to.have.lengthOf(passes);
    });

    if (SOAK)
      it(`the server passes the same checks without Gatehouse at revision ${revision}`, async () => {
        const [alone, behind] = [
          await runServerSuite(server.url, options),
          await runServerSuite(proxy.url, options),
        ];
        expect(failed(alone)).to.deep.equal([]);
        expect(passed(alone)).to.have.lengthOf(passes);
        expect(passed(behind)).to.deep.equal(passed(alone));
        recordSoak({
          what: `the conformance suite at ${revision}, with and without Gatehouse`,
          held: `${passes} of ${passes} checks pass`,
        });
      });
  }
});

function failed(checks: readonly Check[]): Check[] {
  return checks.filter(({ scenario, status }) => status === 'FAILURE' && !TASKS.test(scenario));
}

function passed(checks: readonly Check[]): string[] {
  return checks
    .filter(({ status }) => status === 'SUCCESS')
    .map(({ scenario, id }) => `${scenario}: ${id}`)
    .toSorted();
}
