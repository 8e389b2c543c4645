// Whether identity providers send groups: rules about groups match nobody if they do not, and people see only that they have no access.
import { createHash } from 'node:crypto';
import { identitySourcesOf, rulesOf } from '../settings/entitlements.ts';
import type { Settings } from '../settings/settings.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import type { Store } from '../store/store.ts';
import type { Account } from './account.ts';

/** The last sign-in through a provider, and the last one with groups. Seconds since the epoch. */
type Arrived = { signInAt: number; groupsAt?: number };

const WEEK_SECONDS = 7 * 86_400;
/** Not every sign-in writes. */
const STEP_SECONDS = 3600;

function arrivedKey(issuer: string): string {
  return `arrived-groups:${createHash('sha256').update(issuer).digest('base64url')}`;
}

/** Call after a sign-in. */
export async function noteGroups(
  store: Store,
  { groups, groupsOmitted, organizations = [] }: Account,
  { issuer, now }: { issuer: string; now: number },
): Promise<void> {
  const hasGroups = groups.length > 0 || organizations.length > 0 || groupsOmitted === true;
  const isDue = (at = 0) => at < now - STEP_SECONDS;
  const known = (await store.get<Arrived>(arrivedKey(issuer)))?.value;
  if (known && !isDue(known.signInAt) && !(hasGroups && isDue(known.groupsAt))) return;
  await store.update<Arrived>(arrivedKey(issuer), (current) => ({
    value: { ...current, signInAt: now, ...(hasGroups ? { groupsAt: now } : {}) },
    ttl: 2 * WEEK_SECONDS,
  }));
}

/** `provider` is the id, `rules` are those about its groups. */
export type MissingGroups = { provider: string; rules: string[]; remedy: string };

/** Returns the providers whose groups rules use, and through which people signed in within a week, but nobody with groups. */
export async function findMissingGroups(
  store: Store,
  settings: Pick<
    Settings,
    'identityProviders' | 'authorization' | 'entitlements' | 'management' | 'developmentIdp'
  >,
  now: number,
): Promise<MissingGroups[]> {
  const about = rulesOf(settings).filter(([, { group }]) => group !== undefined);
  const providers = identitySourcesOf(settings).filter(
    ({ via, issuer }) => via === 'sign-in' && issuer !== settings.developmentIdp?.url,
  );
  const missing: MissingGroups[] = [];
  for (const { id, issuer } of providers) {
    const rules = about
      .filter(([, { from }]) => from.issuers.some((other) => isSameIssuer(other, issuer)))
      .map(([setting]) => setting);
    if (rules.length === 0) continue;
    const arrived = (await store.get<Arrived>(arrivedKey(issuer)))?.value;
    const since = now - WEEK_SECONDS;
    if (!arrived || arrived.signInAt < since || (arrived.groupsAt ?? 0) >= since) continue;
    const { scopes = [], groupsClaim } =
      settings.identityProviders.find((provider) => provider.id === id) ?? {};
    missing.push({
      provider: id,
      rules,
      remedy: `check that the provider sends groups to this client: in scopes (${scopes.join(' ')}), often with the scope groups, and in the claim ${groupsClaim} (groupsClaim)`,
    });
  }
  return missing;
}

/** A clause. */
export function missingGroupsText({ provider, rules }: MissingGroups): string {
  return `nobody who signed in through ${provider} in the last week had groups, and these rules are about groups: ${rules.join(', ')}`;
}
