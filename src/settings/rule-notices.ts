// Rules that are accepted and may not do what their author expects: those whose meaning changed, and organizations named by login.
import { type Asserter, assertersOf, domainOf, type Match, ownerOf } from './entitlements.ts';
import type { Settings } from './settings.ts';

/** In clauses without a full stop. Holds no address of a person, because it is logged. */
export type RuleNotice = {
  kind: 'changed-meaning' | 'organization-by-login';
  /** `entitlements[2]` */
  setting: string;
  what: string;
  why: string;
  remedy: string;
};

type RuleSettings = Pick<
  Settings,
  'identityProviders' | 'authorization' | 'entitlements' | 'management'
>;

/** Logged at startup, and reported by doctor. */
export function ruleNotices(settings: RuleSettings): RuleNotice[] {
  const asserters = assertersOf(settings);
  const { entitlements, management } = settings;
  return [
    ...entitlements.flatMap(({ match }, n) => [
      ...changedMeaning(`entitlements[${n}]`, match, asserters),
      ...organizationByLogin(`entitlements[${n}]`, match, asserters),
    ]),
    ...management.administrators.flatMap((match, n) =>
      organizationByLogin(`management.administrators[${n}]`, match, asserters),
    ),
  ];
}

function changedMeaning(
  setting: string,
  match: Match,
  asserters: readonly Asserter[],
): RuleNotice[] {
  if (match.provider !== undefined) return [];
  const signIn = asserters.filter(({ via }) => via === 'sign-in');
  const trusted = asserters.filter(({ via }) => via === 'id-jag');
  const owner = ownerOf(match, asserters);
  const isNarrowed = owner !== undefined && signIn.length > 1;
  if (trusted.length === 0 && !isNarrowed) return [];
  const meant = owner ? [owner] : signIn;
  const changes = [
    ...(isNarrowed
      ? [`only ${owner.id} counts for ${domainOf(match)}, which is in its emailDomains`]
      : []),
    ...(trusted.length > 0
      ? [`it does not apply to people whom a trusted issuer asserts (${idsOf(trusted)})`]
      : []),
  ];
  const others = owner
    ? `rules about ${domainOf(match)} cannot name another provider, so admit people of others by group or subject`
    : `to admit people of a trusted issuer as well, add the rule again with its id (provider: ${trusted[0]?.id})`;
  return [
    {
      kind: 'changed-meaning',
      setting,
      what: `the rule names no provider, and its meaning has changed: ${changes.join('; ')}`,
      why: 'before, it also accepted what the others assert; people who came in that way are refused now',
      remedy: `write ${meant.length > 1 ? 'a rule for each with ' : ''}provider: ${idsOf(meant, ' or ')} in match, which keeps this meaning and ends this message; ${others}`,
    },
  ];
}

/** For a rule about organizations of GitHub: the login, and the id if the rule names it. */
export function organizationIn(
  { organization, group, from }: Match,
  asserters: readonly Asserter[],
): { login: string; id?: string; issuer: string } | undefined {
  const provider = asserters.find(
    ({ via, issuer, hasOrganizations }) =>
      hasOrganizations && via === from.via && from.issuers.includes(issuer),
  );
  const [login, id] = (organization ?? group ?? '').split('#');
  if (!provider || !login) return undefined;
  const isById = organization !== undefined && id !== undefined;
  return { login, issuer: provider.issuer, ...(isById ? { id } : {}) };
}

export function organizationByLogin(
  setting: string,
  match: Match,
  asserters: readonly Asserter[],
): RuleNotice[] {
  const named = organizationIn(match, asserters);
  if (!named || named.id !== undefined) return [];
  const { login } = named;
  return [
    {
      kind: 'organization-by-login',
      setting,
      what: `the rule names the organization ${login} by its login`,
      why: 'whoever registers the login after the organization gave it up gets what the rule gives',
      remedy: `write organization: "${login}#<id>" in place of ${match.organization === undefined ? 'group' : 'organization'}: ${login}; gatehouse doctor looks up the id`,
    },
  ];
}

function idsOf(asserters: readonly Asserter[], separator = ', '): string {
  return asserters.map(({ id }) => id).join(separator);
}
