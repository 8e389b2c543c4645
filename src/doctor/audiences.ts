import { loggableAudienceText } from '../connectors/audience.ts';
import type { ConnectorResource } from '../management/api/resources.ts';
import {
  type IdentitySource,
  identitySourcesOf,
  resolveAudienceRule,
} from '../settings/entitlements.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { type Finding, findingAbout, someOf } from './report.ts';

/** Reports rules in audiences of connectors that match nobody, because the identity providers have changed since. */
export async function checkAudiences({
  settings,
  listRecords,
}: ConfiguredDeployment): Promise<Finding[]> {
  const finding = findingAbout('audiences', 'connectors');
  const records = await listRecords();
  if (!records)
    return [finding.unknown('the audiences of connectors were not checked: no management API')];
  const identitySources = identitySourcesOf(settings);
  const outdated = records.connectors
    .map(({ name, audience = [] }) => ({ name, rules: rulesForNobody(audience, identitySources) }))
    .filter(({ rules }) => rules.length > 0);
  if (outdated.length === 0) return [finding.ok('every rule about who may use a connector fits')];
  const named = someOf(outdated.map(({ name, rules }) => `"${name}" (${rules.join(', ')})`));
  return [
    finding.warning({
      what: `rules about who may use a connector match nobody: ${named}`,
      why: 'the people whom these rules meant cannot use the link; the rules do not fit the identity providers in the settings',
      remedy: `create the connectors again with rules that name one of ${identitySources.map(({ id }) => id).join(', ')}, or restore the id of the provider`,
    }),
  ];
}

function rulesForNobody(
  audience: NonNullable<ConnectorResource['audience']>,
  identitySources: readonly IdentitySource[],
): string[] {
  return audience
    .filter((rule) => !resolveAudienceRule(rule, identitySources))
    .map(loggableAudienceText);
}
