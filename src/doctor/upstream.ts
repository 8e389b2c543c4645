import { type SigningKey, signingKey, SIGNING_KEYS } from '../keys/signing-keys.ts';
import { discoverTools } from '../gateway/upstream/discovery.ts';
import { discoveryTarget } from '../gateway/upstream/discovery-connection.ts';
import { DiscoveryError, remedyFor } from '../gateway/upstream/discovery-faults.ts';
import { compareTools, listOf } from '../gateway/upstream/tool-comparison.ts';
import { shownUrl } from '../gateway/upstream/quoting.ts';
import type { Levels } from '../permission-levels.ts';
import type { Settings } from '../settings/settings.ts';
import type { Upstream } from '../settings/upstreams.ts';
import type { CatalogTool } from '../upstreams/tool-catalog.ts';
import { readEntry } from '../store/sqlite-database.ts';
import { readStored } from '../store/stored-keys.ts';
import { closeRedis, connectRedis } from '../store/redis-client.ts';
import { version } from '../version.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { findingAbout, type Findings } from './report.ts';

const TIMEOUT_MS = 10_000;

/** Checks that each of the operator's MCP servers answers and has the tools in the settings. */
export async function checkUpstreams(deployment: ConfiguredDeployment): Promise<Findings> {
  const { settings } = deployment;
  const { upstreams, roles } = settings;
  // Another process may lack the credentials, and the network, of the processes that send requests.
  if (!roles.includes('resource-server'))
    return upstreams.map(({ url }) =>
      findingAbout('upstream', shownUrl(url)).unknown(
        'the MCP server was not tried, because only processes with the role resource-server send requests to it: run doctor with the settings of one',
      ),
    );
  if (upstreams.length === 0) return undefined;
  const keys = await readSigningKeys(settings).catch(() => undefined);
  return Promise.all(upstreams.map((upstream) => checkUpstream(deployment, upstream, keys)));
}

async function checkUpstream(
  deployment: ConfiguredDeployment,
  upstream: Upstream,
  keys: readonly SigningKey[] | undefined,
): Promise<Findings> {
  const { settings } = deployment;
  const finding = findingAbout('upstream', shownUrl(upstream.url));
  const now = deployment.now() / 1000;
  const options = {
    ...discoveryTarget(settings, upstream),
    version,
    timeout: TIMEOUT_MS,
    signal: deployment.signal,
    now: () => now,
  };
  try {
    const { revision, tools } = await discoverTools({
      ...options,
      ...(keys ? { signingKey: () => signingKey(keys, now) } : {}),
    });
    return [
      finding.ok(`the MCP server responds (MCP ${revision}) and has ${tools.length} tools`),
      toolFindings(settings.levels, upstream, tools),
      plainHeaderFinding(upstream),
      keys && (await unsignedFinding(upstream, () => discoverTools(options))),
    ];
  } catch (error) {
    if (!(error instanceof DiscoveryError)) throw error;
    const isRejected = error.fault === 'rejected';
    if (isRejected && upstream.credential)
      return finding.note({
        what: 'the MCP server answers nobody without a credential',
        why: 'doctor has none, so its tools were not checked',
        remedy: `connect an account of the operator: gatehouse upstream connect ${upstream.id}`,
      });
    if (isRejected && !keys)
      return finding.warning({
        what: 'the MCP server requires the caller header, which doctor cannot sign, because it cannot read the signing keys',
        why: 'the tools of the MCP server were not checked',
        remedy:
          'see the findings about the store, and start Gatehouse once, which creates the signing keys',
      });
    return finding.problem({
      what: `the MCP server ${error.message}`,
      why: isRejected
        ? 'it does not accept the caller header, so every call fails'
        : 'every call through a connect link fails',
      remedy: remedyFor(error, upstream),
    });
  }
}

function toolFindings(levels: Levels, upstream: Upstream, tools: readonly CatalogTool[]): Findings {
  const { setting, defaultLevel, toolLevels } = upstream;
  const finding = findingAbout('tools', `${setting}.tools`);
  const { missing, undeclared, needed } = compareTools(levels, upstream, tools);
  if (tools.length === 0)
    return finding.warning({
      what: 'the MCP server lists no tools',
      why: 'connected apps have nothing to call',
      remedy:
        'check which tools the MCP server lists for the caller gatehouse with the highest level',
    });
  const counts = [...needed].map(([level, count]) => `${level} ${count}`).join(', ');
  const others = `${undeclared.length} tools that are not in the settings need`;
  return [
    missing.length > 0
      ? finding.warning({
          what: `the MCP server does not have ${listOf(missing)}`,
          why: 'the levels of these names have no effect, and a tool with another spelling needs defaultLevel',
          remedy: `correct the names; the MCP server has ${listOf(tools.map(({ name }) => name))}`,
        })
      : finding.ok(`the MCP server has every tool in the settings; needed levels: ${counts}`),
    undeclared.length > 0 &&
      (toolLevels === 'annotations'
        ? finding.note({
            what: `${others} the level of their annotations: ${listOf(undeclared)}`,
            why: 'the MCP server decides which level may call them',
            remedy: `to decide it yourself, add them to ${setting}.tools, or set toolLevels: declared`,
          })
        : finding.note({
            what: `${others} defaultLevel, ${defaultLevel}: ${listOf(undeclared)}`,
            why: 'calls with a lower level are refused, and a link that cannot grant it does not list them',
            remedy: 'add the tools that a lower level may call to the settings',
          })),
  ];
}

/** Whether the MCP server answers a request without the caller header. One that verifies the header does not. */
async function unsignedFinding(
  upstream: Upstream,
  discover: () => Promise<unknown>,
): Promise<Findings> {
  const isAnswered = await discover().then(
    () => true,
    (error: unknown) => {
      if (error instanceof DiscoveryError) return false;
      throw error;
    },
  );
  if (!isAnswered) return undefined;
  return findingAbout('caller-headers', shownUrl(upstream.url)).warning({
    what: 'the MCP server answers a request without the caller header',
    why: 'everybody who can reach it can call its tools without Gatehouse, and without a level or a record',
    remedy:
      'let it verify the header Gatehouse-Caller (see "Who calls" in src/gateway/upstream/README.md), or let nobody but Gatehouse reach it',
  });
}

/** Anybody can send plain headers. */
function plainHeaderFinding({ setting, caller, headers }: Upstream): Findings {
  if (Object.keys(caller.headers).length === 0 || Object.keys(headers).length > 0) return undefined;
  return findingAbout('caller-headers', `${setting}.caller.headers`).note({
    what: 'the MCP server gets plain headers about the caller, and no credential with which it could recognize Gatehouse',
    why: 'everybody who can reach the MCP server can call it in the name of any person',
    remedy: `let nobody but Gatehouse reach it, or set a credential in ${setting}.headers that it requires`,
  });
}

/** Does not open the store, because that writes to it. */
async function readSigningKeys(settings: Settings): Promise<readonly SigningKey[] | undefined> {
  const { store } = settings;
  if (store.kind === 'sqlite') {
    const read = async (name: string) => readEntry(store.file, name);
    return readStored<SigningKey[]>(read, SIGNING_KEYS, settings);
  }
  const client = await connectRedis(store, undefined);
  try {
    return await readStored<SigningKey[]>((name) => client.getBuffer(name), SIGNING_KEYS, settings);
  } finally {
    await closeRedis(client);
  }
}
