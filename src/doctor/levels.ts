import { requiresDpop } from '../dpop/required-levels.ts';
import { isLevel, levelIds, lowestLevel } from '../permission-levels.ts';
import { levelTextMismatch } from '../pages/level-texts.ts';
import type { Settings } from '../settings/settings.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { type Finding, findingAbout, okIfNone, someOf } from './report.ts';

/** Checks that stored connectors and minted tokens have a level of the settings, and that the texts about the levels fit. */
export async function checkLevels(deployment: ConfiguredDeployment): Promise<Finding[]> {
  const { settings } = deployment;
  return [
    ...(await recordFindings(deployment)),
    ...textFindings(settings),
    ...(await dpopFindings(deployment)),
  ];
}

/** Minted tokens are sent as bearer tokens, also at levels that require DPoP of apps. */
async function dpopFindings({ settings, listRecords }: ConfiguredDeployment): Promise<Finding[]> {
  const { requireDpop } = settings.authorization;
  if (requireDpop === undefined) return [];
  const finding = findingAbout('levels', 'authorization.requireDpop');
  const everyLevel =
    requireDpop === lowestLevel(settings.levels)
      ? [
          finding.note({
            what: 'every level requires DPoP',
            why: 'apps that do not support DPoP, which are most of them, cannot connect',
            remedy: 'if this is not intended, name a higher level',
          }),
        ]
      : [];
  const records = await listRecords();
  const exempt = records?.tokens.filter(({ level }) => requiresDpop(settings, level)) ?? [];
  if (exempt.length === 0)
    return [...everyLevel, finding.ok(`levels from ${requireDpop} require DPoP`)];
  const names = someOf(exempt.map(({ name, level }) => `"${name}" (${level})`));
  return [
    ...everyLevel,
    finding.note({
      what: `${exempt.length} minted token${exempt.length === 1 ? ' has' : 's have'} a level that requires DPoP: ${names}`,
      why: 'minted tokens are exempt: anybody who copies one can use it',
      remedy: `where a lower level is enough, revoke the token and mint one below ${requireDpop}`,
    }),
  ];
}

async function recordFindings({
  settings: { levels },
  listRecords,
}: ConfiguredDeployment): Promise<Finding[]> {
  const finding = findingAbout('levels', 'levels');
  const records = await listRecords();
  if (!records)
    return [finding.unknown('the levels of stored records were not checked: no management API')];
  const running = new Set(
    records.upstreams.flatMap((upstream) => upstream.levels.map(({ level }) => level)),
  );
  const isStale = ({ level }: { level: string }) => !isLevel(levels, level) && !running.has(level);
  const found = [
    ['connector', records.connectors.filter(isStale)],
    ['minted token', records.tokens.filter(isStale)],
  ] as const;
  return okIfNone(
    found.flatMap(([kind, stale]) => {
      if (stale.length === 0) return [];
      const names = someOf(stale.map(({ name, level }) => `"${name}" (${level})`));
      return [
        finding.warning({
          what: `${stale.length} ${kind}${stale.length === 1 ? ' has' : 's have'} a level that is not in the settings: ${names}`,
          why: 'they give no access',
          remedy: `revoke them, or add their level to levels again (it has ${levelIds(levels).join(', ')})`,
        }),
      ];
    }),
    finding.ok('every connector and minted token has a level of the settings'),
  );
}

function textFindings(settings: Settings): Finding[] {
  const { levels, theme } = settings;
  const finding = findingAbout('levels', theme ?? 'levels');
  const { unknown, untitled, partial } = levelTextMismatch(settings);
  return [
    ...(unknown.length > 0
      ? [
          finding.warning({
            what: `the theme has texts about levels that are not in the settings: ${unknown.join(', ')}`,
            why: 'nobody sees them',
            remedy: `name the levels of the settings (${levelIds(levels).join(', ')}) below levels in the message files`,
          }),
        ]
      : []),
    ...partial.map(({ keys, languages, instead }) =>
      finding.warning({
        what: `the theme has these texts in some languages only: ${keys.join(', ')}`,
        why: `in ${languages.join(', ')}, people read the text of ${instead}`,
        remedy: 'add them to the message file of each of these languages',
      }),
    ),
    ...(untitled.length > 0
      ? [
          findingAbout('levels', 'levels').note({
            what: `these levels have no title: ${untitled.join(', ')}`,
            why: 'the consent page shows their ids and the titles of their tools, but does not say what they mean',
            remedy: 'write title and sees for each level in the settings',
          }),
        ]
      : []),
  ];
}
