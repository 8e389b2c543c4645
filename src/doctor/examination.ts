import { rootMessage } from '../error-causes.ts';
import { checkAudiences } from './audiences.ts';
import { checkCookies, checkPreflights } from './browsers.ts';
import type { ConfiguredDeployment, Deployment } from './deployment.ts';
import { checkDiscovery } from './discovery.ts';
import { checkIdentityProviders } from './identity-providers.ts';
import { checkClientKeys, checkDocumentGuard, checkTraceCollector } from './outbound.ts';
import {
  checkCertificates,
  checkManagementExposure,
  checkReachability,
  type Reachability,
  type Side,
} from './public-addresses.ts';
import { type Finding, findingAbout, OUTCOMES } from './report.ts';
import { checkRules, checkSettings } from './settings.ts';
import { checkStore } from './store.ts';
import { checkLevels } from './levels.ts';
import { checkUpstreams } from './upstream.ts';

type Check<Subject = Deployment> = {
  name: string;
  /** Shown as progress. */
  title: string;
  /** The check is skipped unless these addresses are reachable. */
  requires?: readonly Side[];
  run: (deployment: Subject) => Promise<Finding[]>;
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
  { name: 'document-guard', title: 'client metadata documents', run: checkDocumentGuard },
];

/** Require the settings. */
const INSIDE_CHECKS: readonly Check<ConfiguredDeployment>[] = [
  { name: 'store', title: 'the store', run: checkStore },
  { name: 'identity-provider', title: 'the identity provider', run: checkIdentityProviders },
  { name: 'client-keys', title: 'keys of apps', run: checkClientKeys },
  { name: 'upstream', title: 'the MCP server', run: checkUpstreams },
  { name: 'traces', title: 'the trace collector', run: checkTraceCollector },
  { name: 'settings', title: 'settings', run: checkSettings },
  { name: 'levels', title: 'permission levels', run: checkLevels },
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
  const { settings } = deployment;
  const reachability = new Map<Side, Promise<Reachability>>();
  const readReachability: ReadReachability = (side) => {
    const known = reachability.get(side) ?? checkReachability(deployment, side);
    reachability.set(side, known);
    return known;
  };
  const checks = [
    ...SIDES.map((side) => reachabilityCheck(deployment, side, readReachability)),
    ...OUTSIDE_CHECKS.map((check) => ({ ...check, run: () => check.run(deployment) })),
    ...(settings
      ? INSIDE_CHECKS.map((check) => ({
          ...check,
          run: () => check.run({ ...deployment, settings }),
        }))
      : []),
  ].filter(({ name }) => only?.includes(name) ?? true);
  const found = await Promise.all(
    checks.map((check) => runCheck(deployment, check, progress, readReachability)),
  );
  return unique(found.flat()).sort(
    (a, b) => OUTCOMES.indexOf(b.outcome) - OUTCOMES.indexOf(a.outcome),
  );
}

function reachabilityCheck(
  { authUrl, resourceUrl }: Deployment,
  side: Side,
  readReachability: ReadReachability,
): Check {
  return {
    name: 'reach',
    title: side === 'auth' ? authUrl : resourceUrl,
    run: async () => (await readReachability(side)).findings,
  };
}

async function runCheck(
  deployment: Deployment,
  check: Check,
  progress: Progress,
  readReachability: ReadReachability,
): Promise<Finding[]> {
  const { name, title } = check;
  progress.onStart(title);
  try {
    return await Promise.race([
      runIfReachable(deployment, check, readReachability),
      timeout(deployment, check),
    ]);
  } catch (error) {
    return [
      findingAbout(name, title).warning({
        what: `the check failed: ${rootMessage(error)}`,
        why: 'there may be problems that it would have found',
        remedy: 'run doctor again; if the check fails again, check this part yourself',
      }),
    ];
  } finally {
    progress.onEnd(title);
  }
}

/** Reports an unreachable address once, not once per check. */
async function runIfReachable(
  deployment: Deployment,
  { name, title, requires = [], run }: Check,
  readReachability: ReadReachability,
): Promise<Finding[]> {
  const sides = await Promise.all(requires.map(readReachability));
  if (sides.every(({ isReachable }) => isReachable)) return run(deployment);
  return [
    findingAbout(name, title).unknown('skipped, because a public address does not reach Gatehouse'),
  ];
}

function timeout({ signal }: Deployment, { name, title }: Check): Promise<Finding[]> {
  const finding = findingAbout(name, title).warning({
    what: 'the check did not finish in time',
    why: 'there may be problems that it would have found',
    remedy: 'see which other findings explain the delay, or allow more time with --timeout',
  });
  return new Promise((resolve) => {
    if (signal.aborted) resolve([finding]);
    signal.addEventListener('abort', () => resolve([finding]), { once: true });
  });
}

/** If both addresses are the same, their findings are equal. */
function unique(findings: Finding[]): Finding[] {
  return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
}
