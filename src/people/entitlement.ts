// Evaluates rules about people for an account: entitlements, audiences of connectors, administrators. Pure: no I/O.
import { isAtLeast, type Level } from '../permission-levels.ts';
import {
  type Administrator,
  type Entitlement,
  type IdentitySource,
  identitySourcesOf,
  type AudienceRule,
  type Match,
  resolveAudienceRule,
  type Via,
} from '../settings/entitlements.ts';
import { highestRole, type ManagementRole } from '../settings/management-roles.ts';
import type { Settings } from '../settings/settings.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import { type Account, type Claims, claimsVia, normalizeEmail } from './account.ts';

type LevelSettings = Pick<Settings, 'levels' | 'entitlements'>;

/**
 * Returns the highest level of the rules that match. Undefined if none matches or the account is disabled. `via` is how the person
 * authenticated: claims of a trusted issuer never satisfy a rule about a sign-in provider, even for the same account.
 */
export function entitledLevel(
  settings: LevelSettings,
  account: Account,
  via: Via,
): Level | undefined {
  return decidingRule(settings, account, via)?.level;
}

/** Returns the rules that match, with their places in the settings. None if the account is disabled. */
export function matchingRules(
  { entitlements }: Pick<Settings, 'entitlements'>,
  account: Account,
  via: Via,
): (Entitlement & { place: number })[] {
  if (account.disabledAt !== undefined) return [];
  return entitlements.flatMap((rule, place) =>
    matches(account, rule.match, via) ? [{ ...rule, place }] : [],
  );
}

/** The first of the rules that give the highest level, with its place in `entitlements`. */
function decidingRule(
  { levels, entitlements }: LevelSettings,
  account: Account,
  via: Via,
): { level: Level; place: number } | undefined {
  if (account.disabledAt !== undefined) return undefined;
  return entitlements.reduce<{ level: Level; place: number } | undefined>(
    (high, { match, level }, place) =>
      !matches(account, match, via) || (high && isAtLeast(levels, high.level, level))
        ? high
        : { level, place },
    undefined,
  );
}

export type ProviderSettings = Pick<Settings, 'identityProviders' | 'authorization'>;
export type AccessSettings = ProviderSettings & LevelSettings;
type WithAudience = { audience?: readonly AudienceRule[] };

/** What an account may have through a connector: the highest level and the place of its rule in `entitlements`, or why it gets none. */
export type Access =
  | { level: Level; place: number; refusal?: never }
  | { refusal: 'not_entitled' | 'not_in_audience'; level?: never };

export function accessThrough(
  settings: AccessSettings,
  connector: WithAudience,
  account: Account,
  via: Via,
): Access {
  const decided = decidingRule(settings, account, via);
  if (!decided) return { refusal: 'not_entitled' };
  return isInAudience(settings, connector, account, via) ? decided : { refusal: 'not_in_audience' };
}

/** A connector without an audience is for everybody. */
export function isInAudience(
  settings: ProviderSettings,
  { audience }: WithAudience,
  account: Account,
  via: Via,
): boolean {
  if (audience === undefined) return true;
  const identitySources = identitySourcesOf(settings);
  return audience.some((rule) => audienceMiss(identitySources, rule, account, via) === undefined);
}

/** Why a rule of an audience does not match. Undefined if it does. */
function audienceMiss(
  identitySources: readonly IdentitySource[],
  rule: AudienceRule,
  account: Account,
  via: Via,
): RuleMiss | undefined {
  const match = resolveAudienceRule(rule, identitySources);
  return match ? ruleMiss(account, match, via) : 'unusable_rule';
}

/** A rule with its place in the settings or in the audience, and why it does not match, if so. */
export type JudgedRule = {
  /** `entitlements[2]` or `audience[0]` */
  rule: string;
  kind: RuleKind;
  value?: string;
  provider?: string;
  /** What an entitlement gives. */
  level?: Level;
  miss?: RuleMiss;
};

/** Judges every rule as `accessThrough` does. */
export function judgeRules(
  settings: AccessSettings,
  account: Account,
  via: Via,
  { audience = [] }: WithAudience = {},
): { entitlements: JudgedRule[]; audience: JudgedRule[] } {
  const identitySources = identitySourcesOf(settings);
  return {
    entitlements: settings.entitlements.map(({ match, level }, n) => ({
      ...judged(`entitlements[${n}]`, match, ruleMiss(account, match, via)),
      level,
    })),
    audience: audience.map((rule, n) =>
      judged(`audience[${n}]`, rule, audienceMiss(identitySources, rule, account, via)),
    ),
  };
}

/** Describes an entitlement by its place in the settings. */
export function describeEntitlement(
  place: number,
  { match, level }: Pick<Entitlement, 'match' | 'level'>,
): Omit<JudgedRule, 'miss' | 'level'> & { level: Level } {
  return { ...judged(`entitlements[${place}]`, match, undefined), level };
}

function judged(
  rule: string,
  criteria: Omit<Match, 'from'>,
  miss: RuleMiss | undefined,
): JudgedRule {
  const kind = ruleKind(criteria);
  const value = criteria[kind];
  const { provider } = criteria;
  return {
    rule,
    kind,
    ...(typeof value === 'string' ? { value } : {}),
    ...(provider === undefined ? {} : { provider }),
    ...(miss === undefined ? {} : { miss }),
  };
}

/** Returns the highest role in the console of the rules that match. Undefined if none matches. */
export function consoleRole(
  account: Account,
  administrators: readonly Administrator[],
): ManagementRole | undefined {
  const rules = administrators.filter((match) => matches(account, match, 'sign-in'));
  return highestRole(rules.map(({ role }) => role));
}

/** Whether a person who signed in has any level or role. */
export function hasAnyAccess(
  settings: Pick<Settings, 'levels' | 'entitlements' | 'management'>,
  account: Account,
): boolean {
  const { administrators } = settings.management;
  return (
    entitledLevel(settings, account, 'sign-in') !== undefined ||
    consoleRole(account, administrators) !== undefined
  );
}

/** What a rule is about. */
export const RULE_KINDS = [
  'anyone',
  'subject',
  'group',
  'organization',
  'email',
  'emailDomain',
] as const;
export type RuleKind = (typeof RULE_KINDS)[number];

export function ruleKind(match: Omit<Match, 'from'>): RuleKind {
  const kind = RULE_KINDS.find((each) => match[each] !== undefined);
  if (kind === undefined) throw new Error('a rule has no criterion');
  return kind;
}

/** Why a rule does not match a person. */
export const RULE_MISSES = [
  'other_provider',
  'other_subject',
  'no_groups',
  'groups_omitted',
  'not_in_group',
  'not_in_organization',
  'no_email',
  'email_not_verified',
  'other_email',
  'other_email_domain',
  'unusable_rule',
] as const;
export type RuleMiss = (typeof RULE_MISSES)[number];

function matches(account: Account, match: Match, via: Via): boolean {
  return ruleMiss(account, match, via) === undefined;
}

/** Decides whether a rule matches: undefined if it does, else why not. */
export function ruleMiss(account: Account, match: Match, via: Via): RuleMiss | undefined {
  const claims = claimsVia(account, via);
  const issuer = via === 'sign-in' ? (account.providerIssuer ?? account.issuer) : account.issuer;
  const isAccepted =
    match.from.via === via && match.from.issuers.some((other) => isSameIssuer(issuer, other));
  if (!claims || !isAccepted) return 'other_provider';
  if (match.anyone) return undefined;
  if (match.subject !== undefined)
    return match.subject === account.subject ? undefined : 'other_subject';
  if (match.group !== undefined) return groupMiss(claims, match.group);
  if (match.organization !== undefined)
    return isMember(claims, match.organization) ? undefined : 'not_in_organization';
  return emailMiss(claims, match);
}

function groupMiss({ groups, groupsOmitted }: Claims, wanted: string): RuleMiss | undefined {
  if (groups.includes(wanted)) return undefined;
  if (groups.length > 0) return 'not_in_group';
  return groupsOmitted ? 'groups_omitted' : 'no_groups';
}

/** Compares `login#id` by id, because an old login can be registered by others. */
function isMember({ organizations = [] }: Claims, wanted: string): boolean {
  const [login, id] = wanted.toLowerCase().split('#');
  return organizations.some((organization) =>
    id === undefined ? organization.login.toLowerCase() === login : String(organization.id) === id,
  );
}

function emailMiss({ email, emailVerified }: Claims, match: Match): RuleMiss | undefined {
  if (email === undefined) return 'no_email';
  if (!emailVerified) return 'email_not_verified';
  const address = normalizeEmail(email);
  if (match.email !== undefined)
    return address === normalizeEmail(match.email) ? undefined : 'other_email';
  return match.emailDomain !== undefined &&
    address.slice(address.lastIndexOf('@') + 1) === normalizeEmail(match.emailDomain)
    ? undefined
    : 'other_email_domain';
}
