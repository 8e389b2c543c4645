// Compares the tools of the operator's MCP server with the settings, and says in the log at start what is wrong.
import type { Logger } from 'pino';
import type { Level } from '../../permission-level.ts';
import type { UpstreamSettings } from '../../settings/schema.ts';
import {
  type DiscoveredTool,
  type DiscoveryFault,
  DiscoveryError,
  type DiscoveryOptions,
  discoverTools,
  printable,
} from './discovery.ts';
import { levelOfTool, levelRules } from './needed-level.ts';

export type ToolComparison = {
  /** Names in `resourceServer.upstream.tools` that the MCP server does not have. */
  missing: string[];
  /** Names of the MCP server that need `defaultLevel`, because the settings do not name them. */
  undeclared: string[];
  /** How many tools need each level. */
  needed: Map<Level, number>;
};

export function compareTools(
  upstream: UpstreamSettings,
  tools: readonly DiscoveredTool[],
): ToolComparison {
  const names = new Set(tools.map(({ name }) => name));
  const declared = new Set(upstream.tools.map(({ name }) => name));
  const rules = levelRules(upstream);
  const needed = new Map<Level, number>();
  for (const name of names) {
    const level = levelOfTool(rules, name);
    needed.set(level, (needed.get(level) ?? 0) + 1);
  }
  return {
    missing: [...declared].filter((name) => !names.has(name)),
    undeclared: [...names].filter((name) => !declared.has(name)),
    needed,
  };
}

const MAX_NAMES = 20;
const MAX_NAME_LENGTH = 64;

/** A few of them, for a log line or a finding. */
export function listOf(names: readonly string[]): string {
  const shown = names
    .slice(0, MAX_NAMES)
    .map((name) => printable(name, MAX_NAME_LENGTH))
    .join(', ');
  const more = names.length - MAX_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

const CALLER =
  'have the MCP server verify the header gatehouse-caller: keys at {authUrl}/oauth/jwks, issuer authUrl, audience resourceServer.upstream.url as it is written; sub may be gatehouse';

const REMEDIES: Record<DiscoveryFault, string> = {
  unreachable:
    'check resourceServer.upstream.url, that the MCP server runs, and that this machine may connect to it',
  timeout: 'check that the MCP server answers from this machine, and how long it takes',
  rejected: CALLER,
  redirected:
    'set resourceServer.upstream.url to the address that answers itself, path and slash included: redirects are not followed',
  'not-found': 'check the path of resourceServer.upstream.url (often /mcp)',
  failing: 'see the log of the MCP server',
  'too-large':
    'have the MCP server list fewer tools, or raise resourceServer.upstream.maxAnswerBytes',
  'not-mcp': 'check that resourceServer.upstream.url is an MCP server with Streamable HTTP',
};

/** What the operator can do about it. */
export function remedyFor(fault: DiscoveryFault): string {
  return REMEDIES[fault];
}

/** Nothing is logged after `signal` aborts. */
export type UpstreamCheck = Omit<DiscoveryOptions, 'url' | 'maxAnswerBytes' | 'timeout'> & {
  upstream: UpstreamSettings;
  logger: Logger;
};

/** Milliseconds. */
const TIMEOUT_MS = 15_000;

/** Logs at most one warning: that the tools cannot be read, or that some of the settings are not there. Does not reject. */
export async function checkUpstream({
  upstream,
  logger,
  ...options
}: UpstreamCheck): Promise<void> {
  const { url, maxAnswerBytes } = upstream;
  const { origin, pathname } = new URL(url);
  const what = origin + pathname;
  try {
    const { tools } = await discoverTools({ ...options, url, maxAnswerBytes, timeout: TIMEOUT_MS });
    if (options.signal?.aborted) return;
    const { missing } = compareTools(upstream, tools);
    if (missing.length === 0) return;
    const remedy = `correct the names in resourceServer.upstream.tools; the MCP server has ${listOf(tools.map(({ name }) => name))}`;
    logger.warn(
      { what, reason: `it has no tool ${listOf(missing)}`, remedy },
      'the MCP server lacks tools that the settings name',
    );
  } catch (error) {
    if (options.signal?.aborted) return;
    const fault = error instanceof DiscoveryError ? error.fault : 'not-mcp';
    const reason = error instanceof Error ? `it ${error.message}` : 'no reason is known';
    logger.warn(
      { what, reason, remedy: remedyFor(fault) },
      'the tools of the MCP server cannot be read',
    );
  }
}
