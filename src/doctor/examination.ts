// Runs every check of a deployment, side by side, within one time; a check that fails itself becomes a finding.
import { cookieFindings } from './cookies.ts';
import { certificateFindings } from './certificate.ts';
import { dateFinding } from './clocks.ts';
import type { Check, Deployment } from './deployment.ts';
import { discoveryFindings } from './discovery.ts';
import { guardFindings } from './document-guard.ts';
import { entitlementFindings } from './entitlements.ts';
import { exposureFindings } from './exposure.ts';
import { type Finding, OUTCOMES, wordsOf } from './finding.ts';
import { identityProviderFindings } from './identity-provider.ts';
import { pitfallFindings } from './pitfalls.ts';
import { preflightFindings } from './preflights.ts';
import { reach, type Reach, type Side } from './reach.ts';
import { storeFindings } from './store.ts';
import { collectorFindings } from './trace-collector.ts';
import { upstreamFindings } from './upstream.ts';

const BOTH = ['auth', 'resource'] as const;

const CHECKS: readonly Check[] = [
  { name: 'certificate', title: 'certificates', run: certificateFindings },
  { name: 'discovery', title: 'discovery documents', needs: BOTH, run: discoveryFindings },
  { name: 'cors', title: 'what web apps may ask', needs: BOTH, run: preflightFindings },
  { name: 'cookies', title: 'cookies', needs: ['auth'], run: cookieFindings },
  { name: 'management', title: 'the management API', needs: BOTH, run: exposureFindings },
  { name: 'store', title: 'the store', inside: true, run: storeFindings },
  {
    name: 'identity-provider',
    title: 'the identity provider',
    inside: true,
    run: identityProviderFindings,
  },
  { name: 'upstream', title: 'the MCP server', inside: true, run: upstreamFindings },
  { name: 'document-guard', title: 'the metadata-document guard', run: guardFindings },
  { name: 'traces', title: 'the collector of traces', inside: true, run: collectorFindings },
  { name: 'settings', title: 'settings', inside: true, run: pitfallFindings },
  { name: 'entitlements', title: 'who may assert what', inside: true, run: entitlementFindings },
];

/** `onStart` and `onEnd` are given the title of a check, for progress. */
export type Progress = { onStart: (title: string) => void; onEnd: (title: string) => void };

/** The worst come first. Resolves soon after the signal of the deployment aborts, with what was found until then. */
export async function examine(deployment: Deployment, progress: Progress): Promise<Finding[]> {
  const reached = { auth: reach(deployment, 'auth'), resource: reach(deployment, 'resource') };
  const sides = Object.keys(reached) as Side[];
  const addresses = sides.map((side) => reachCheck(deployment, side, reached[side]));
  const wanted = [...addresses, ...CHECKS].filter(
    ({ inside }) => !inside || deployment.settings !== undefined,
  );
  const found = await Promise.all(
    wanted.map((check) => runOne(deployment, check, progress, reached)),
  );
  return distinct(found.flat()).sort(
    (a, b) => OUTCOMES.indexOf(b.outcome) - OUTCOMES.indexOf(a.outcome),
  );
}

function reachCheck(
  { authUrl, resourceUrl }: Deployment,
  side: Side,
  reached: Promise<Reach>,
): Check {
  const url = side === 'auth' ? authUrl : resourceUrl;
  return {
    name: 'reach',
    title: url,
    run: async () => {
      const { findings, answer } = await reached;
      return [...findings, ...(answer ? [dateFinding(url, answer)] : [])];
    },
  };
}

async function runOne(
  deployment: Deployment,
  check: Check,
  progress: Progress,
  reached: Record<Side, Promise<Reach>>,
): Promise<Finding[]> {
  const { name, title } = check;
  progress.onStart(title);
  try {
    return await Promise.race([whenOpen(deployment, check, reached), outOfTime(deployment, check)]);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [
      wordsOf(name, title).warning({
        what: `it could not be looked at: ${reason}`,
        why: 'what may be wrong there is not known',
        remedy: 'run it again; if it stays, look at what this names by hand',
      }),
    ];
  } finally {
    progress.onEnd(title);
  }
}

/** An address that is closed is one finding, and not one of every check. */
async function whenOpen(
  deployment: Deployment,
  { name, title, needs = [], run }: Check,
  reached: Record<Side, Promise<Reach>>,
): Promise<Finding[]> {
  const sides = await Promise.all(needs.map((side) => reached[side]));
  if (sides.every(({ isOpen }) => isOpen)) return run(deployment);
  return [wordsOf(name, title).unknown('not looked at, because a public address is closed')];
}

function outOfTime({ signal }: Deployment, { name, title }: Check): Promise<Finding[]> {
  const late = wordsOf(name, title).warning({
    what: 'there was no time left for it',
    why: 'what may be wrong there is not known',
    remedy: 'see what else is slow, or give more time with --timeout',
  });
  return new Promise((resolve) => {
    if (signal.aborted) resolve([late]);
    signal.addEventListener('abort', () => resolve([late]), { once: true });
  });
}

/** On one origin, both addresses say the same. */
function distinct(findings: Finding[]): Finding[] {
  return [...new Map(findings.map((finding) => [JSON.stringify(finding), finding])).values()];
}
