import { rootMessage } from '../error-causes.ts';
import { checkAuditDelivery } from './audit-delivery.ts';
import { checkAuditIntegrity } from './audit-integrity.ts';
import { checkAuditReach } from './audit-reach.ts';
import { checkCookies, checkPreflights } from './browsers.ts';
import { checkCertificates } from './certificates.ts';
import type { ConfiguredDeployment, Deployment } from './deployment.ts';
import { checkDiscovery } from './discovery.ts';
import { checkEdge } from './edge.ts';
import { checkIdentityProviders } from './identity-providers.ts';
import {
  checkAppDocuments,
  checkClientKeys,
  checkDocumentGuard,
  checkIssuerKeys,
  checkTraceCollector,
} from './outbound.ts';
import {
  checkManagementExposure,
  checkReachability,
  checkStreams,
  type Reachability,
  type Side,
} from './public-addresses.ts';
import { checkAudiences, checkEnds, checkLevels, checkUpstreamsOfRecords } from './records.ts';
import {
  type CheckName,
  type Finding,
  findingAbout,
  type Findings,
  flatten,
  OUTCOMES,
} from './report.ts';
import { checkRules } from './rules.ts';
import { checkSettings } from './settings.ts';
import { checkStore } from './store.ts';
import { checkCredentials } from './credentials.ts';
import { checkUpstreams } from './upstream.ts';

type Check<Subject = Deployment> = {
  name: CheckName;
  /** Shown as progress. */
  title: string;
  /** The check is skipped unless these addresses are reachable. */
  requires?: readonly Side[];
  run: (deployment: Subject) => Promise<Findings> | Findings;
};

const SIDES = ['auth', 'resource'] as const;

const OUTSIDE_CHECKS: readonly Check[] = [
  { name: 'certificate', title: 'certificates', run: checkCertificates },
  { name: 'discovery', title: 'discovery documents', requires: SIDES, run: checkDiscovery },
  { name: 'cors', title: 'requests of web apps', requires: SIDES, run: checkPreflights },
  { name: 'cookies', title: 'cookies', requires: ['auth'], run: checkCookies },
  {
    name: 'management',
    title: 'the management API',
    requires: SIDES,
    run: checkManagementExposure,
  },
  { name: 'edge', title: 'user agents of hosted apps', requires: SIDES, run: checkEdge },
  { name: 'streams', title: 'streams', requires: ['resource'], run: checkStreams },
  { name: 'document-guard', title: 'client metadata documents', run: checkDocumentGuard },
];

/** Require the settings. */
const INSIDE_CHECKS: readonly Check<ConfiguredDeployment>[] = [
  { name: 'store', title: 'the store', run: checkStore },
  { name: 'identity-provider', title: 'the identity provider', run: checkIdentityProviders },
  { name: 'app-documents', title: 'metadata documents of apps', run: checkAppDocuments },
  { name: 'client-keys', title: 'keys of apps', run: checkClientKeys },
  { name: 'issuer-keys', title: 'keys of trusted issuers', run: checkIssuerKeys },
  { name: 'upstream', title: 'the MCP server', run: checkUpstreams },
  { name: 'credential', title: 'own accounts at the MCP server', run: checkCredentials },
  { name: 'upstream', title: 'MCP servers of connectors', run: checkUpstreamsOfRecords },
  { name: 'traces', title: 'the trace collector', run: checkTraceCollector },
  { name: 'audit-delivery', title: 'receivers of the audit log', run: checkAuditDelivery },
  { name: 'audit-integrity', title: 'integrity of the audit log', run: checkAuditIntegrity },
  { name: 'audit-reach', title: 'calls in the audit log', run: checkAuditReach },
  { name: 'settings', title: 'settings', run: checkSettings },
  { name: 'levels', title: 'permission levels', run: checkLevels },
  { name: 'ends', title: 'what ends soon', run: checkEnds },
  { name: 'entitlements', title: 'entitlement rules', run: checkRules },
  { name: 'audiences', title: 'audiences of connectors', run: checkAudiences },
];

/** Both functions receive the title of a check. */
export type Progress = { onStart: (title: string) => void; onEnd: (title: string) => void };

type ReadReachability = (side: Side) => Promise<Reachability>;

/**
 * Returns the worst findings first. When the deployment's signal aborts, returns what was found until then. Runs all checks unless `only`
 * names some.
 */
export async function examine(
  deployment: Deployment,
  progress: Progress,
  only?: readonly string[],
): Promise<Finding[]> {
  const { authUrl, resourceUrl, settings } = deployment;
  const reachability = new Map<Side, Promise<Reachability>>();
  const readReachability: ReadReachability = (side) => {
    const known = reachability.get(side) ?? checkReachability(deployment, side);
    reachability.set(side, known);
    return known;
  };
  const reach = SIDES.map((side): Check => {
    const title = side === 'auth' ? authUrl : resourceUrl;
    return { name: 'reach', title, run: async () => (await readReachability(side)).findings };
  });
  const inside = settings
    ? INSIDE_CHECKS.map((check) => ({
        ...check,
        run: () => check.run({ ...deployment, settings }),
      }))
    : [];
  const checks: Check[] = [...reach, ...OUTSIDE_CHECKS, ...inside];
  const found = await Promise.all(
    checks
      .filter(({ name }) => only?.includes(name) ?? true)
      .map((check) => runCheck(deployment, check, progress, readReachability)),
  );
  return unique(flatten(found)).sort(
    (a, b) => OUTCOMES.indexOf(b.outcome) - OUTCOMES.indexOf(a.outcome),
  );
}

const INCOMPLETE = 'there may be problems that it would have found';

async function runCheck(
  deployment: Deployment,
  check: Check,
  progress: Progress,
  readReachability: ReadReachability,
): Promise<Findings> {
  const { name, title } = check;
  progress.onStart(title);
  try {
    return await Promise.race([
      runIfReachable(deployment, check, readReachability),
      timeout(deployment, check),
    ]);
  } catch (error) {
    return findingAbout(name, title).warning({
      what: `the check failed: ${rootMessage(error)}`,
      why: INCOMPLETE,
      remedy: 'run doctor again; if the check fails again, check this part yourself',
    });
  } finally {
    progress.onEnd(title);
  }
}

/** Reports an unreachable address once, not once per check. */
async function runIfReachable(
  deployment: Deployment,
  { name, title, requires = [], run }: Check,
  readReachability: ReadReachability,
): Promise<Findings> {
  const sides = await Promise.all(requires.map(readReachability));
  if (sides.every(({ isReachable }) => isReachable)) return run(deployment);
  return findingAbout(name, title).unknown(
    'skipped, because a public address does not reach Gatehouse',
  );
}

function timeout({ signal }: Deployment, { name, title }: Check): Promise<Finding> {
  const finding = findingAbout(name, title).warning({
    what: 'the check did not finish in time',
    why: INCOMPLETE,
    remedy: 'see which other findings explain the delay, or allow more time with --timeout',
  });
  return new Promise((resolve) => {
    if (signal.aborted) resolve(finding);
    signal.addEventListener('abort', () => resolve(finding), { once: true });
  });
}

/** If both addresses are the same, their findings are equal. */
function unique(findings: Finding[]): Finding[] {
  return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
}
