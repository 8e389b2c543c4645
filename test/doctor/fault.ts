import { type DeploymentOptions, openDeployment } from '../../src/doctor/deployment.ts';
import { examine } from '../../src/doctor/examination.ts';
import type { Finding } from '../../src/doctor/report.ts';
import { upstreamSchema } from '../../src/settings/schema.ts';
import type { Settings } from '../../src/settings/settings.ts';
import type { Upstream } from '../../src/settings/upstreams.ts';
import type { GoodDeployment } from './good-deployment.ts';

/** The options of an examination that a fault changes. */
export type ExaminedOptions = Partial<DeploymentOptions> & { settings: Settings };

/** A fault of a deployment, and how doctor reports it. */
export type Fault = {
  fault: string;
  inject: (good: GoodDeployment) => unknown;
  /** The checks that report it, sorted. */
  found: string[];
  /** Match all that these checks report; each matches something. */
  says: RegExp | RegExp[];
  /** Other checks that cannot find their faults beside this one. */
  hides?: string[];
  changed?: (options: ExaminedOptions) => ExaminedOptions;
};

/** Each group fits into one deployment: no two of its faults are reported by the same check, and none hides another. */
export function groupFaults(faults: readonly Fault[]): Fault[][] {
  const groups: Fault[][] = [];
  for (const fault of faults) {
    const group = groups.find((each) => each.every((other) => fitTogether(fault, other)));
    if (group) group.push(fault);
    else groups.push([fault]);
  }
  return groups;
}

function fitTogether(one: Fault, other: Fault): boolean {
  const affects = ({ found, hides = [] }: Fault, checks: string[]) =>
    [...found, ...hides].some((check) => checks.includes(check));
  return !affects(one, other.found) && !affects(other, one.found);
}

/** Runs the named checks of settings, in front of no deployment unless `options` has one. */
export async function examineSettings(
  settings: Settings,
  names: readonly string[],
  options: Partial<DeploymentOptions> = {},
): Promise<Finding[]> {
  const { authUrl, resourceUrl } = settings;
  const signal = AbortSignal.timeout(60_000);
  const deployment = openDeployment({ authUrl, resourceUrl, settings, signal, ...options });
  try {
    return await examine(deployment, { onStart: () => {}, onEnd: () => {} }, names);
  } finally {
    deployment.close();
  }
}

/** An MCP server in validated settings. */
export function upstreamAt(
  url: string,
  { id = 'default', setting = 'resourceServer.upstream', ...more }: Partial<Upstream> = {},
): Upstream {
  const {
    defaultLevel: _level,
    credential: _credential,
    ...parsed
  } = upstreamSchema.parse({
    url,
    ...more,
  });
  return { ...parsed, id, name: id, isNamed: true, headers: {}, defaultLevel: 'full', setting };
}
