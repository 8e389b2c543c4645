// Compares what the store has with the settings: connectors and minted tokens outlive a change of levels, MCP servers or identity providers.
import { loggableAudienceText } from '../links/audience.ts';
import { requiresDpop } from '../dpop/required-levels.ts';
import { levelTextMismatch } from '../pages/level-texts.ts';
import { type EndKind, endKinds } from '../observability/labels.ts';
import { ENDING_DAYS, findComingEnds } from '../management/coming-ends.ts';
import { DEFAULT_LEVELS, isLevel, levelIds, lowestLevel } from '../permission-levels.ts';
import { identitySourcesOf, resolveAudienceRule } from '../settings/entitlements.ts';
import type { Upstream } from '../management/resources/upstream.ts';
import { printable } from '../printable-text.ts';
import type { Settings } from '../settings/settings.ts';
import { TRIAL_LEVELS } from '../settings/upstream-option.ts';
import { DEFAULT_UPSTREAM, isServed } from '../settings/upstreams.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { counted, findingAbout, type Findings, okIfNone, someOf } from './report.ts';

const NO_ACCESS = 'they give no access';

/** Reports rules in audiences of connectors that match nobody, because the identity providers have changed since. */
export async function checkAudiences({
  settings,
  listRecords,
}: ConfiguredDeployment): Promise<Findings> {
  const finding = findingAbout('audiences', 'connectors');
  const records = await listRecords();
  if (!records)
    return finding.unknown('the audiences of connectors were not checked: no management API');
  const identitySources = identitySourcesOf(settings);
  const outdated = records.connectors.flatMap(({ name, audience = [] }) => {
    const rules = audience.filter((rule) => !resolveAudienceRule(rule, identitySources));
    return rules.length > 0 ? `"${name}" (${rules.map(loggableAudienceText).join(', ')})` : [];
  });
  if (outdated.length === 0) return finding.ok('every rule about who may use a connector fits');
  return finding.warning({
    what: `rules about who may use a connector match nobody: ${someOf(outdated)}`,
    why: 'the people whom these rules meant cannot use the link; the rules do not fit the identity providers in the settings',
    remedy: `change their rules (gatehouse connector update --for): they have to name one of ${identitySources.map(({ id }) => id).join(', ')}, or restore the id of the provider`,
  });
}

const REMEDIES: Readonly<Record<EndKind, string>> = {
  connector: 'to keep it: gatehouse connector update --expires',
  token: 'mint another one, and give it to the program before',
  machine: 'to keep it: gatehouse client update --expires',
  signing_key: 'nothing, if the programs have newer tokens',
  client_secret:
    'create a new secret where the client is registered, replace it and clientSecretExpires, and run gatehouse reload',
};

/** Reports connectors, minted tokens, machines and secrets that end soon. */
export async function checkEnds({
  settings,
  listRecords,
  now,
}: ConfiguredDeployment): Promise<Findings> {
  const finding = findingAbout('ends', `the next ${ENDING_DAYS} days`);
  const records = await listRecords();
  if (!records) return finding.unknown('what ends soon was not checked: no management API');
  const ends = await findComingEnds(records.listed, settings, now() / 1000);
  return okIfNone(
    endKinds.map((kind) => {
      const found = ends.filter((end) => end.kind === kind);
      if (found.length === 0) return undefined;
      const names = found.map(({ name, endsAt }) => `"${name}" (${endsAt.slice(0, 10)})`);
      const text = {
        what: `${counted(found.length, kind.replace('_', ' '))} ${found.length === 1 ? 'ends' : 'end'} soon: ${someOf(names)}`,
        why: 'people and programs that need it lose access then',
        remedy: REMEDIES[kind],
      };
      // The last tokens of a key that was replaced end with it, as intended.
      return kind === 'signing_key' ? finding.note(text) : finding.warning(text);
    }),
    finding.ok('nothing with a known end ends soon'),
  );
}

/** Reports connectors and minted tokens whose MCP server is not in the settings. */
export async function checkUpstreamsOfRecords({
  settings: { upstreams },
  listRecords,
}: ConfiguredDeployment): Promise<Findings> {
  const records = await listRecords();
  if (!records) return undefined;
  const isRunning = ({ upstream = DEFAULT_UPSTREAM }: { upstream?: string | undefined }) =>
    records.upstreams.some(({ id }) => id === upstream);
  const lost = [...records.connectors, ...records.tokens].filter(
    (record) => !isServed(upstreams, record) && !isRunning(record),
  );
  const ids = upstreams.map(({ id }) => id).join(', ') || 'none: the sample serves calls';
  const names = lost.map(({ name, upstream = DEFAULT_UPSTREAM }) => `"${name}" (${upstream})`);
  return [
    lost.length > 0 &&
      findingAbout('upstream', 'resourceServer.upstreams').warning({
        what: `${lost.length} connectors or minted tokens lead to an MCP server that is not in the settings: ${someOf(names)}`,
        why: NO_ACCESS,
        remedy: `revoke them, or add their server to the settings again (it has ${ids})`,
      }),
    records.upstreams.map(toolsOfUpstream),
  ];
}

/** Connectors that show no tool, tools that wait for an operator, and tools that make apps drop all of them. */
function toolsOfUpstream({ id, emptyConnectors, tools }: Upstream): Findings {
  const finding = findingAbout('upstream', id);
  const namesOf = (found: Upstream['tools']) => found.map(({ name }) => printable(name));
  const held = namesOf(tools.filter((tool) => tool.held !== undefined && !tool.isMissed));
  const missed = namesOf(tools.filter(({ isMissed }) => isMissed));
  const dropped = namesOf(tools.filter(({ isNoObject }) => isNoObject));
  return [
    emptyConnectors.length > 0 &&
      finding.warning({
        what: `${counted(emptyConnectors.length, 'connector')} ${emptyConnectors.length === 1 ? 'opens' : 'open'} no tool of the MCP server: ${someOf(emptyConnectors.map(({ name }) => `"${name}"`))}`,
        why: 'apps that connect through them have nothing to call',
        remedy: `compare their level and tools with gatehouse upstream show ${id}`,
      }),
    missed.length > 0 &&
      finding.warning({
        what: `${counted(missed.length, 'tool')} of the MCP server that ${missed.length === 1 ? 'was' : 'were'} called in the last week ${missed.length === 1 ? 'waits' : 'wait'} for an operator: ${someOf(missed)}`,
        why: 'people and programs that need them are refused',
        remedy: `read gatehouse upstream review ${id}, then gatehouse upstream approve`,
      }),
    held.length > 0 &&
      finding.warning({
        what: `${counted(held.length, 'tool')} of the MCP server ${held.length === 1 ? 'waits' : 'wait'} for an operator: ${someOf(held)}`,
        why: 'callers do not see them, and calls of them are refused',
        remedy: `read gatehouse upstream review ${id}, then gatehouse upstream approve`,
      }),
    dropped.length > 0 &&
      finding.warning({
        what: `the input schema of ${counted(dropped.length, 'tool')} of the MCP server is not of an object: ${someOf(dropped)}`,
        why: 'some apps then drop all tools of the server',
        remedy: `give them an inputSchema with "type": "object" at the MCP server`,
      }),
  ];
}

/** Checks that stored connectors and minted tokens have a level of the settings, and that the texts about the levels fit. */
export async function checkLevels(deployment: ConfiguredDeployment): Promise<Findings> {
  const { settings } = deployment;
  return [
    await checkLevelsOfRecords(deployment),
    textFindings(settings),
    await dpopFindings(deployment),
  ];
}

type Leveled = { name: string; level: string };

const withLevels = (records: readonly Leveled[]) =>
  someOf(records.map(({ name, level }) => `"${name}" (${level})`));

async function checkLevelsOfRecords({
  settings: { levels },
  listRecords,
}: ConfiguredDeployment): Promise<Findings> {
  const finding = findingAbout('levels', 'levels');
  const records = await listRecords();
  if (!records)
    return finding.unknown('the levels of stored records were not checked: no management API');
  const running = new Set(
    records.upstreams.flatMap((upstream) => upstream.levels.map(({ level }) => level)),
  );
  const stale = (kind: string, of: readonly Leveled[]): Findings => {
    const found = of.filter(({ level }) => !isLevel(levels, level) && !running.has(level));
    const verb = found.length === 1 ? 'has' : 'have';
    return (
      found.length > 0 &&
      finding.warning({
        what: `${counted(found.length, kind)} ${verb} a level that is not in the settings: ${withLevels(found)}`,
        why: NO_ACCESS,
        remedy: `revoke them, or add their level to levels again (it has ${levelIds(levels).join(', ')})`,
      })
    );
  };
  return okIfNone(
    [stale('connector', records.connectors), stale('minted token', records.tokens)],
    finding.ok('every connector and minted token has a level of the settings'),
  );
}

/** Minted tokens are sent as bearer tokens, also at levels that require DPoP of apps. */
async function dpopFindings({ settings, listRecords }: ConfiguredDeployment): Promise<Findings> {
  const { requireDpop } = settings.authorization;
  if (requireDpop === undefined) return undefined;
  const finding = findingAbout('levels', 'authorization.requireDpop');
  const records = await listRecords();
  const exempt = records?.tokens.filter(({ level }) => requiresDpop(settings, level)) ?? [];
  return [
    requireDpop === lowestLevel(settings.levels) &&
      finding.note({
        what: 'every level requires DPoP',
        why: 'apps that do not support DPoP, which are most of them, cannot connect',
        remedy: 'if this is not intended, name a higher level',
      }),
    exempt.length === 0
      ? finding.ok(`levels from ${requireDpop} require DPoP`)
      : finding.note({
          what: `${counted(exempt.length, 'minted token')} ${exempt.length === 1 ? 'has' : 'have'} a level that requires DPoP: ${withLevels(exempt)}`,
          why: 'minted tokens are exempt: anybody who copies one can use it',
          remedy: `where a lower level is enough, revoke the token and mint one below ${requireDpop}`,
        }),
  ];
}

function textFindings(settings: Settings): Findings {
  const { levels, theme } = settings;
  const finding = findingAbout('levels', theme ?? 'levels');
  const { unknown, untitled, partial } = levelTextMismatch(settings);
  const hasLevelsOfSample = untitled.join() === levelIds(DEFAULT_LEVELS).join();
  return [
    unknown.length > 0 &&
      finding.warning({
        what: `the theme has texts about levels that are not in the settings: ${unknown.join(', ')}`,
        why: 'nobody sees them',
        remedy: `name the levels of the settings (${levelIds(levels).join(', ')}) below levels in the message files`,
      }),
    partial.map(({ keys, languages, instead }) =>
      finding.warning({
        what: `the theme has these texts in some languages only: ${keys.join(', ')}`,
        why: `in ${languages.join(', ')}, people read the text of ${instead}`,
        remedy: 'add them to the message file of each of these languages',
      }),
    ),
    hasLevelsOfSample &&
      findingAbout('levels', 'levels').note({
        what: `the levels are those of the built-in sample: ${levelIds(levels).join(', ')}`,
        why: 'they say nothing about the tools of an MCP server, and the consent page has no texts for them',
        remedy: `set levels to ${TRIAL_LEVELS.map(({ id }) => id).join(', ')}, as gatehouse init does, or to your own, each with title and sees; connectors and minted tokens of the earlier levels give no access then`,
      }),
    !hasLevelsOfSample &&
      untitled.length > 0 &&
      findingAbout('levels', 'levels').note({
        what: `these levels have no title: ${untitled.join(', ')}`,
        why: 'the consent page shows their ids and the titles of their tools, but does not say what they mean',
        remedy: 'write title and sees for each level in the settings',
      }),
  ];
}
