// What a person gets through a connector when they connect an app, and by which rule, or why nothing.
import { type Account } from '../people/account.ts';
import { type AccessSettings, accessThrough } from '../people/entitlement.ts';
import {
  type Connector,
  connectorRefusal,
  type ConnectorSettings,
  connectorState,
} from '../links/connector.ts';
import type { AccessRefusal } from '../observability/labels.ts';
import { type Level, lowest } from '../permission-levels.ts';
import type { Via } from '../settings/entitlements.ts';

/** `rule` is the place in the settings: `entitlements[2]`. */
export type PersonAccess = { level: Level; rule: string } | { level: null; reason: AccessRefusal };

export type PersonAccessSettings = AccessSettings & ConnectorSettings;

/** The same decisions as those of the consent page, for an app that is allowed and that the person has not connected yet. */
export function personAccess(
  settings: PersonAccessSettings,
  connector: Connector,
  account: Account,
  { via, now }: { via: Via; now: number },
): PersonAccess {
  const refused = connectorRefusal(connector, now, settings);
  if (refused) return { level: null, reason: refused };
  const access = accessThrough(settings, connector, account, via);
  if (access.refusal) return { level: null, reason: refusalReason(access.refusal, account) };
  if (connectorState(connector, now, settings) === 'used-up')
    return { level: null, reason: 'used_up' };
  return {
    level: lowest(settings.levels, connector.level, access.level),
    rule: `entitlements[${access.place}]`,
  };
}

/** The reason as people are refused with it. */
export function refusalReason(
  refusal: 'not_entitled' | 'not_in_audience',
  { disabledAt }: Account,
): AccessRefusal {
  if (disabledAt !== undefined) return 'account_disabled';
  return refusal === 'not_in_audience' ? refusal : 'no_rule';
}
