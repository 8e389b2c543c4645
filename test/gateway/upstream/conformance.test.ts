// Runs the server scenarios of the MCP conformance suite against a server behind Gatehouse that has everything they ask for.
import { expect } from 'chai';
import { type Check, useConformanceSuite } from '../../support/conformance.ts';
import { connect } from '../../support/connection.ts';
import { createConnector } from '../../support/management-api.ts';
import { recordSoak, SOAK } from '../../support/soak.ts';
import { startSystem, type System } from '../../support/system.ts';
import { openTokenProxy, type TokenProxy } from '../../support/token-proxy.ts';
import {
  type EverythingServer,
  startEverythingServer,
} from '../../support/upstream/everything-server.ts';

/** `passes`: the checks that pass without Gatehouse, apart from tasks. The long run counts them. */
const REVISIONS = [
  { revision: '2025-06-18', options: ['--spec-version', '2025-06-18'], passes: 56 },
  { revision: '2025-11-25', options: ['--requirements', '2025-11-25'], passes: 84 },
  { revision: '2026-07-28', options: ['--requirements', '2026-07-28'], passes: 152 },
] as const;

/** Scenarios of an extension that the server does not have. */
const TASKS = /^tasks-/;
/** What the server passes of them all the same. */
const WITHOUT_TASKS = [
  'tasks-capability-negotiation: sep-2663-tasks-methods-non-declaring',
  'tasks-dispatch-and-envelope: sep-2663-tasks-result-removed-method-not-found',
  'tasks-dispatch-and-envelope: tasks-removed-tasks-list',
  'tasks-request-headers: tasks-headers-reject-mismatched-method',
];

describe('A complete MCP server in the conformance suite', () => {
  const { runServer } = useConformanceSuite();
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
      const found = await runServer(proxy.url, options);
      expect(failed(found)).to.deep.equal([]);
      expect(passed(found).filter(isRequired)).to.have.lengthOf(passes);
      if (found.some(({ scenario }) => TASKS.test(scenario)))
        expect(passed(found)).to.include.members(WITHOUT_TASKS);
    });

    if (SOAK)
      it(`the server passes the same checks without Gatehouse at revision ${revision}`, async () => {
        const [alone, behind] = [
          await runServer(server.url, options),
          await runServer(proxy.url, options),
        ];
        expect(failed(alone)).to.deep.equal([]);
        expect(passed(alone).filter(isRequired)).to.have.lengthOf(passes);
        expect(missing(passed(alone), passed(behind))).to.deep.equal([]);
        recordSoak({
          what: `the conformance suite at ${revision}, with and without Gatehouse`,
          held: `${passes} of ${passes} checks pass`,
        });
      });
  }
});

function isRequired(scenario: string): boolean {
  return !TASKS.test(scenario);
}

function failed(checks: readonly Check[]): Check[] {
  return checks.filter(({ scenario, status }) => status === 'FAILURE' && isRequired(scenario));
}

function passed(checks: readonly Check[]): string[] {
  return checks
    .filter(({ status }) => status === 'SUCCESS')
    .map(({ scenario, id }) => `${scenario}: ${id}`)
    .toSorted();
}

/** A check runs several times in one scenario. */
function missing(wanted: readonly string[], found: readonly string[]): string[] {
  const left = [...found];
  return wanted.filter((check) => {
    const index = left.indexOf(check);
    if (index >= 0) left.splice(index, 1);
    return index < 0;
  });
}
