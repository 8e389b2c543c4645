// Whom a rule of the settings is about: its place alone says nothing to somebody who does not have the file open.
import type { ConsoleField } from '../../pages/console-values.ts';
import { describeEntitlement } from '../../people/entitlement.ts';
import type { Settings } from '../../settings/settings.ts';
import { codeField } from '../resources/fields.ts';

const PLACE = /^entitlements\[(\d+)\]$/;

/** Returns whom the entitlement at this place matches, such as `group:analysts@okta`. The settings may have none there any more. */
export function ruleFields(
  { entitlements }: Pick<Settings, 'entitlements'>,
  place: string,
): ConsoleField[] {
  const index = Number(PLACE.exec(place)?.[1]);
  const entitlement = entitlements[index];
  if (!entitlement) return [];
  const { kind, value, provider } = describeEntitlement(index, entitlement);
  const what = value === undefined ? kind : `${kind}:${value}`;
  return [codeField('appliesTo', provider === undefined ? what : `${what}@${provider}`)];
}
