// Rules about people (entitlements and console administrators): which providers each rule accepts, its checks and warnings.
import { type IdentityProvider, embeddedProvider, providersIn } from './identity-provider.ts';
import type { SettingsIssue } from './issues.ts';
import type { ManagementRole } from './management-roles.ts';
import type { RuleInFile, SettingsFile } from './schema.ts';
import type { Settings } from './settings.ts';
import { type Path, type Source, issueAt, pathName } from './source.ts';
import { isSameIssuer } from './value-types.ts';

type MatchInFile = RuleInFile['match'];

/** A person signs in at a provider, or a trusted issuer asserts the person in an ID-JAG. */
export type Via = 'sign-in' | 'id-jag';

/** The issuers whose assertions a rule accepts, and the only way in which it accepts them. */
export type AcceptedFrom = { via: Via; issuers: readonly string[] };

/** The people that a rule matches. */
export type Match = MatchInFile & { from: AcceptedFrom };
/** One rule of a connector's audience. Exactly one of `email`, `emailDomain` and `group` is present. */
export type AudienceRule = Pick<MatchInFile, 'email' | 'emailDomain' | 'group' | 'provider'>;
/** A rule of console administrators. */
export type Administrator = Match & { role: ManagementRole };
export type Entitlement = Omit<RuleInFile, 'match'> & { match: Match };

/** A sign-in provider or a trusted issuer. */
export type IdentitySource = {
  id: string;
  issuer: string;
  via: Via;
  emailDomains: readonly string[];
  hasOrganizations: boolean;
};

type Placed = IdentitySource & { path: Path };
type IdentitySettings = Pick<SettingsFile, 'authorization'> & {
  identityProviders: readonly IdentityProvider[];
};

/** Returns the sign-in providers, followed by the trusted issuers. */
export function identitySourcesOf({
  identityProviders,
  authorization,
}: IdentitySettings): IdentitySource[] {
  return [
    ...identityProviders.map(signInProvider),
    ...authorization.trustedIssuers.map(trustedIssuer),
  ];
}

function signInProvider({
  id,
  issuer,
  emailDomains,
  organizations,
}: Pick<IdentityProvider, 'id' | 'issuer' | 'emailDomains' | 'organizations'>): IdentitySource {
  return { id, issuer, emailDomains, hasOrganizations: organizations, via: 'sign-in' };
}

function trustedIssuer({ id, issuer }: { id: string; issuer: string }): IdentitySource {
  return { id, issuer, emailDomains: [], hasOrganizations: false, via: 'id-jag' };
}

/** Like `identitySourcesOf`, for settings that are not validated yet, with the path of each in the file. */
function identitySourcesIn(file: Partial<SettingsFile>): Placed[] {
  const { developmentIdp, authorization } = file;
  const embedded = developmentIdp ? [embeddedProvider(developmentIdp)] : [];
  return [
    ...providersIn(file).map(([path, provider]) => ({ path, ...signInProvider(provider) })),
    ...embedded.map((provider) => ({ path: ['developmentIdp'], ...signInProvider(provider) })),
    ...(authorization?.trustedIssuers ?? []).map((issuer, n) => ({
      path: ['authorization', 'trustedIssuers', n],
      ...trustedIssuer(issuer),
    })),
  ];
}

/** Adds to each rule the issuers that it accepts. */
export function resolveRules(
  { entitlements, management, authorization }: SettingsFile,
  identityProviders: readonly IdentityProvider[],
): { entitlements: Entitlement[]; management: { administrators: Administrator[] } } {
  const identitySources = identitySourcesOf({ identityProviders, authorization });
  const resolved = <Rule extends MatchInFile>(match: Rule) => ({
    ...match,
    from: acceptedFrom(match, identitySources),
  });
  return {
    entitlements: entitlements.map((rule) => ({ ...rule, match: resolved(rule.match) })),
    management: { administrators: management.administrators.map(resolved) },
  };
}

/** Without `provider`, a rule accepts the owner of its email domain, otherwise every sign-in provider, and never a trusted issuer. */
function acceptedFrom(
  match: MatchInFile,
  identitySources: readonly IdentitySource[],
): AcceptedFrom {
  if (match.provider === undefined) {
    const owner = ownerOf(match, identitySources);
    const providers = owner ? [owner] : signInProviders(identitySources);
    return { via: 'sign-in', issuers: providers.map(({ issuer }) => issuer) };
  }
  const named = identitySources.find(({ id }) => id === match.provider);
  if (named) return { via: named.via, issuers: [named.issuer] };
  throw new Error(`a rule names the provider ${match.provider}, which does not exist`);
}

function signInProviders(identitySources: readonly IdentitySource[]): IdentitySource[] {
  return identitySources.filter(({ via }) => via === 'sign-in');
}

/** Returns the email domain of a rule, in lower case. */
export function domainOf({ email, emailDomain }: MatchInFile): string | undefined {
  return (emailDomain ?? email?.slice(email.lastIndexOf('@') + 1))?.toLowerCase();
}

/** Returns the provider whose `emailDomains` contains the domain of a rule. Subdomains are separate domains. */
export function ownerOf<Of extends Pick<IdentitySource, 'emailDomains'>>(
  match: MatchInFile,
  identitySources: readonly Of[],
): Of | undefined {
  const domain = domainOf(match);
  return domain === undefined
    ? undefined
    : identitySources.find(({ emailDomains }) => emailDomains.includes(domain));
}

/** Ids are unique, because rules name a provider or trusted issuer by id. */
export function checkProviderIds(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const identitySources = identitySourcesIn(file);
  return identitySources.flatMap(({ path, id }, n) => {
    const first = identitySources.findIndex((other) => other.id === id);
    const expected = `a different id, because ${pathName(identitySources[first]?.path ?? [])} has the id ${id}`;
    return first === n ? [] : [issueAt(source, [...path, 'id'], expected)];
  });
}

/** Reports rules that cannot match, and rules that an unintended provider could satisfy. */
export function checkRules(source: Source, file: Partial<SettingsFile>): SettingsIssue[] {
  const identitySources = identitySourcesIn(file);
  const isAmbiguous = file.developmentIdp !== undefined && providersIn(file).length > 0;
  // Report issues of the providers first.
  if (signInProviders(identitySources).length === 0 || isAmbiguous || !file.authorization)
    return [];
  return matchesIn(file).flatMap(([path, match, forConsole]) => {
    const eligible = forConsole ? signInProviders(identitySources) : identitySources;
    const [key, expected] =
      providerIssue(match, eligible, forConsole) ?? organizationIssue(match, identitySources) ?? [];
    return key === undefined || expected === undefined
      ? []
      : [issueAt(source, [...path, key], expected)];
  });
}

type Expected = [key: keyof MatchInFile, expected: string];

/** Returns the member of an audience rule that is wrong with these providers, and what is expected there. */
export function audienceIssue(
  rule: AudienceRule,
  identitySources: readonly IdentitySource[],
): Expected | undefined {
  return providerIssue(rule, identitySources, false);
}

/** Undefined if the rule does not fit the providers, which may have changed since it was stored: it then matches nobody. */
export function resolveAudienceRule(
  rule: AudienceRule,
  identitySources: readonly IdentitySource[],
): Match | undefined {
  if (audienceIssue(rule, identitySources)) return undefined;
  return { ...rule, from: acceptedFrom(rule, identitySources) };
}

/** Adds the only provider to a rule about a group, so that a provider that is added later does not match it. */
export function withProviderOfGroup(
  rule: AudienceRule,
  identitySources: readonly IdentitySource[],
): AudienceRule {
  const [only, ...others] = signInProviders(identitySources);
  if (rule.group === undefined || rule.provider !== undefined || !only || others.length > 0)
    return rule;
  return { ...rule, provider: only.id };
}

function providerIssue(
  match: MatchInFile,
  eligible: readonly IdentitySource[],
  forConsole: boolean,
): Expected | undefined {
  const { provider: id } = match;
  if (id === undefined) return missingProvider(match, eligible, forConsole);
  const named = eligible.find((candidate) => candidate.id === id);
  const owner = ownerOf(match, eligible);
  if (!named) return ['provider', oneOf(eligible)];
  if (!owner || isSameIssuer(owner.issuer, named.issuer)) return undefined;
  return ['provider', `${owner.id}, because this domain is in its emailDomains`];
}

/** Subjects, groups and organizations are unique only within one provider. */
function missingProvider(
  match: MatchInFile,
  eligible: readonly IdentitySource[],
  forConsole: boolean,
): Expected | undefined {
  const providers = signInProviders(eligible);
  const isAboutAddress = domainOf(match) !== undefined;
  if (providers.length < 2 || (isAboutAddress && !forConsole)) return undefined;
  const owner = ownerOf(match, eligible);
  return ['provider', `${owner?.id ?? oneOf(eligible)}, because there are several`];
}

function oneOf(identitySources: readonly IdentitySource[]): string {
  const [first, ...others] = identitySources.map(({ id }) => id);
  return others.length === 0 ? String(first) : `one of ${[first, ...others].join(', ')}`;
}

function organizationIssue(
  { organization, provider: id }: MatchInFile,
  identitySources: readonly IdentitySource[],
): Expected | undefined {
  if (organization === undefined) return undefined;
  const meant =
    id === undefined
      ? signInProviders(identitySources)
      : identitySources.filter((a) => a.id === id);
  if (meant.every(({ hasOrganizations }) => hasOrganizations)) return undefined;
  return [
    'organization',
    'a group: only a provider of kind github with organizations: true has organizations',
  ];
}

/** Returns each rule with its path, and whether it applies to administrators of the console. */
function matchesIn({
  entitlements = [],
  management,
}: Partial<Pick<SettingsFile, 'entitlements' | 'management'>>): [
  Path,
  MatchInFile,
  forConsole: boolean,
][] {
  const administrators = management?.administrators ?? [];
  return [
    ...entitlements.map(({ match }, n): [Path, MatchInFile, boolean] => [
      ['entitlements', n, 'match'],
      match,
      false,
    ]),
    ...administrators.map((match, n): [Path, MatchInFile, boolean] => [
      ['management', 'administrators', n],
      match,
      true,
    ]),
  ];
}

/** Clauses without a full stop. Contains no email address, because it is logged. */
export type RuleNotice = {
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

/** Returns each rule of the settings with its path. */
export function rulesOf({
  entitlements,
  management,
}: Pick<Settings, 'entitlements' | 'management'>): [setting: string, match: Match][] {
  return [
    ...entitlements.map(({ match }, n): [string, Match] => [`entitlements[${n}]`, match]),
    ...management.administrators.map((match, n): [string, Match] => [
      `management.administrators[${n}]`,
      match,
    ]),
  ];
}

/** Logged at startup, and reported by doctor. */
export function ruleNotices(settings: RuleSettings): RuleNotice[] {
  const identitySources = identitySourcesOf(settings);
  return rulesOf(settings).flatMap(([setting, match]) =>
    organizationByLogin(setting, match, identitySources),
  );
}

/** Returns the login of the GitHub organization that a rule matches, and its numeric id if the rule contains it. */
export function organizationIn(
  { organization, group, from }: Match,
  identitySources: readonly IdentitySource[],
): { login: string; id?: string; issuer: string } | undefined {
  const provider = identitySources.find(
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
  identitySources: readonly IdentitySource[],
): RuleNotice[] {
  const named = organizationIn(match, identitySources);
  if (!named || named.id !== undefined) return [];
  const { login } = named;
  return [
    {
      setting,
      what: `the rule names the organization ${login} by its login`,
      why: 'if the organization gives up its login, the next account that registers it gets this access',
      remedy: `write organization: "${login}#<id>" in place of ${match.organization === undefined ? 'group' : 'organization'}: ${login}; gatehouse doctor looks up the id`,
    },
  ];
}
