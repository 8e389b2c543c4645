// Runs the MCP conformance suite for servers through a proxy that adds the access token.
import { expect } from 'chai';
import { createConnector } from '../support/management-api.ts';
import { type Check, useConformanceSuite } from '../support/conformance.ts';
import { connect } from '../support/connection.ts';
import { useSystem } from '../support/system.ts';
import { openTokenProxy, type TokenProxy } from '../support/token-proxy.ts';

/** Scenarios that must pass completely. */
const APPLY = {
  '2025-06-18': ['server-initialize', 'ping', 'tools-list'],
  '2025-11-25': ['server-initialize', 'ping', 'tools-list', 'dns-rebinding-protection'],
  '2026-07-28': [
    'tools-list',
    'dns-rebinding-protection',
    'http-header-validation',
    'server-sse-multiple-streams',
    'sep-2164-resource-not-found',
    'input-required-result-unsupported-methods',
    'input-required-result-validate-input',
  ],
} as const;

/** The suite's option that selects the scenarios of a revision. */
const SELECTION = {
  '2025-06-18': '--spec-version',
  '2025-11-25': '--requirements',
  '2026-07-28': '--requirements',
} as const;

/** Scenarios that fail, the reason, and a pattern for the suite's error message. */
const NOT_OFFERED = [
  {
    why: 'they call tools that a server has only to be tested; the sample has the tools of a club',
    scenarios:
      /^(tools-call-|elicitation-|json-schema-2020-12|server-stateless$|http-custom-header-server-validation$)/,
    says: /no tool of this name|diagnostic tool|no tool with x-mcp-header|not found\. Available tools/,
  },
  {
    why: 'none of its tools or prompts asks anything back in the middle of a call',
    scenarios: /^input-required-result-/,
    says: /no tool of this name|Method not found|InputRequiredResult/,
  },
  {
    why: 'the sample has tools, and neither resources, prompts, completion nor logging',
    scenarios:
      /^(resources-|prompts-|completion-complete$|logging-set-level$|tools-call-with-logging$|caching$)/,
    says: /Method not found/,
  },
  {
    why: 'tasks are an extension, which the sample does not declare',
    scenarios: /^tasks-/,
    says: /./,
  },
];

function reasonFor({ scenario, errorMessage }: Check): string | undefined {
  return NOT_OFFERED.find(
    ({ scenarios, says }) => scenarios.test(scenario) && says.test(errorMessage),
  )?.why;
}

describe('The MCP conformance suite for servers', () => {
  const { runServer } = useConformanceSuite();
  const system = useSystem();
  let proxy: TokenProxy;
  before(async () => {
    const connector = await createConnector(system(), { level: 'full' });
    const { link, accessToken } = await connect(system(), connector);
    proxy = await openTokenProxy(link, accessToken);
  });
  after(() => proxy?.close());

  /** Runs the suite once for each revision. */
  const runs = new Map<string, Promise<Check[]>>();
  const runSuite = (revision: keyof typeof APPLY): Promise<Check[]> => {
    const run = runs.get(revision) ?? runServer(proxy.url, [SELECTION[revision], revision]);
    runs.set(revision, run);
    return run;
  };

  for (const revision of ['2025-06-18', '2025-11-25', '2026-07-28'] as const) {
    it(`every applicable scenario passes at revision ${revision}`, async () => {
      const found = await runSuite(revision);
      for (const scenario of APPLY[revision]) {
        const own = found.filter((check) => check.scenario === scenario);
        expect(
          own.map(({ status }) => status),
          scenario,
        ).to.include('SUCCESS');
        expect(
          own.filter(({ status }) => status === 'FAILURE'),
          scenario,
        ).to.deep.equal([]);
      }
      const failures = found.filter(({ status }) => status === 'FAILURE');
      expect(failures.filter((check) => reasonFor(check) === undefined)).to.deep.equal([]);
      expect(failures).to.not.have.lengthOf(0);
    });
  }

  it('the server is stateless, except for checks that need test-only tools', async () => {
    const found = (await runSuite('2026-07-28')).filter(
      ({ scenario }) => scenario === 'server-stateless',
    );
    expect(found.filter(({ status }) => status === 'SUCCESS')).to.have.length.above(20);
    expect(found.flatMap(({ id, status }) => (status === 'FAILURE' ? [id] : []))).to.deep.equal([
      'sep-2575-server-rejects-undeclared-capability',
      'sep-2575-missing-capability-http-400',
      'sep-2575-http-server-no-independent-requests-on-stream',
      'sep-2575-server-no-log-without-loglevel',
    ]);
  });
});
