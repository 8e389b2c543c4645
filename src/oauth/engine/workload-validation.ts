// Validates the JWT of a workload (RFC 7523 section 3, MCP extension workload-identity-federation), and finds its rule. Pure: no I/O, no clock.
import { errors } from 'oidc-provider';
import { isObject } from '../../json-values.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import { issuerSpellings } from '../../settings/value-types.ts';
import type { WorkloadRule } from '../../settings/workloads.ts';
import { globMatcher } from '../../upstreams/pattern-levels.ts';
import { ALGORITHMS, type Claims, ID_JAG_TYPE } from './id-jag-validation.ts';

/** The engine's client of all workloads. No registered client can have this id. */
export const WORKLOAD_CLIENT = 'workload:any';

const TYPES: readonly string[] = ['jwt', 'jose', 'authorization-grant+jwt'];
export const MAX_CLOCK_SKEW_SECONDS = 60;
const MAX_SUBJECT_LENGTH = 2048;

export function typeOf({ typ }: { typ?: unknown }): string | undefined {
  if (typ === undefined) return undefined;
  return String(typ)
    .toLowerCase()
    .replace(/^application\//, '');
}

export function isIdJagType(type: string | undefined): boolean {
  return type === ID_JAG_TYPE;
}

/** Checks the header before a key is looked up. */
export function checkWorkloadHeader(header: {
  typ?: unknown;
  alg?: unknown;
}): WorkloadErrorCode | undefined {
  const type = typeOf(header);
  if (type !== undefined && !TYPES.includes(type)) return 'wrong_type';
  return ALGORITHMS.includes(String(header.alg)) ? undefined : 'wrong_algorithm';
}

export type ExpectedWorkload = {
  issuer: TrustedIssuer;
  authUrl: string;
  tokenEndpoint: string;
  /** Seconds since the epoch. */
  now: number;
};

/** Checks all claims that do not depend on a rule. */
export function checkWorkloadClaims(
  { sub, aud, iat, exp, nbf = 0, cnf }: Claims,
  { issuer, authUrl, tokenEndpoint, now }: ExpectedWorkload,
): WorkloadErrorCode | undefined {
  if (typeof sub !== 'string' || sub === '' || sub.length > MAX_SUBJECT_LENGTH)
    return 'missing_subject';
  const audiences = [aud].flat();
  const own = [...issuerSpellings(authUrl), `${authUrl}/`, tokenEndpoint, ...issuer.audiences];
  if (audiences.length !== 1 || !own.includes(String(audiences[0]))) return 'wrong_audience';
  if (![iat, exp, nbf].every(Number.isFinite)) return 'missing_time';
  if (Number(exp) + MAX_CLOCK_SKEW_SECONDS <= now) return 'expired';
  if (Math.max(Number(nbf), Number(iat)) - MAX_CLOCK_SKEW_SECONDS > now) return 'not_yet_valid';
  if (Number(exp) - Number(iat) > issuer.maxLifetime) return 'too_long_lived';
  return cnf === undefined ? undefined : 'unsupported_restriction';
}

/** Returns the one rule that matches, or why there is none. */
export function matchingRule(
  rules: readonly WorkloadRule[],
  claims: Claims,
): WorkloadRule | 'no_rule' | 'several_rules' {
  const [rule, ...others] = rules.filter((each) => unmatchedClaim(each, claims) === undefined);
  if (!rule) return 'no_rule';
  return others.length > 0 ? 'several_rules' : rule;
}

/** The name of the first claim that does not match. */
export function unmatchedClaim({ match }: WorkloadRule, claims: Claims): string | undefined {
  const patterns = Object.entries(match.claims ?? {});
  if (match.subject !== undefined) patterns.unshift(['sub', match.subject]);
  return patterns.find(([name, pattern]) => !isMatch(pattern, claimNamed(claims, name)))?.[0];
}

function isMatch(pattern: string, value: unknown): boolean {
  const matches = globMatcher(pattern, (part) => part);
  return [value]
    .flat()
    .filter((each) => ['string', 'number', 'boolean'].includes(typeof each))
    .some((each) => matches(String(each)));
}

/** A member of this name, or the value at a JSON pointer (RFC 6901). */
function claimNamed(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name];
  if (!name.startsWith('/')) return undefined;
  let value: unknown = claims;
  for (const part of name.slice(1).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  }
  return value;
}

const invalidGrant = (description: string) => ({ error: 'invalid_grant' as const, description });
const invalidTarget = (description: string) => ({ error: 'invalid_target' as const, description });

/** Reason codes for the log, with the OAuth error (RFC 7521 section 4.1.1) and the description for the program. */
export const WORKLOAD_ERRORS = {
  malformed: invalidGrant('the assertion is not a signed JWT'),
  wrong_type: invalidGrant(
    'the typ of the assertion must be absent, JWT, JOSE or authorization-grant+jwt',
  ),
  wrong_algorithm: invalidGrant(
    'the assertion is not signed with a public-key algorithm that its issuer announces',
  ),
  unknown_issuer: invalidGrant('the issuer of the assertion is not trusted for workloads'),
  bad_signature: invalidGrant('the assertion is not signed with a published key of its issuer'),
  missing_subject: invalidGrant('the assertion must have a sub'),
  missing_time: invalidGrant('the assertion must have iat and exp'),
  wrong_audience: invalidGrant(
    'the assertion is not for this authorization server: its only aud must be the issuer or the token endpoint',
  ),
  expired: invalidGrant('the assertion has expired; get a new one from the platform'),
  not_yet_valid: invalidGrant('the assertion is not valid yet; check the clocks'),
  too_long_lived: invalidGrant('the assertion is valid for longer than maxLifetime of its issuer'),
  unsupported_restriction: invalidGrant('the assertion is bound to a key (cnf), not a bearer one'),
  no_resource: invalidTarget('resource is required: one connect link'),
  unknown_resource: invalidTarget('no rule of this issuer is about the connect link in resource'),
  no_rule: invalidGrant('no rule about this connect link matches the assertion'),
  several_rules: invalidGrant('several rules about this connect link match the assertion'),
  rule_paused: invalidGrant('an administrator paused the rule of this workload; try again later'),
  rule_expired: invalidGrant('the rule of this workload has expired'),
  connector_ended: invalidGrant('the connect link was revoked, has expired or is not configured'),
  connector_paused: invalidGrant('the connect link is paused; try again when it was resumed'),
  used_up: invalidGrant('this connect link was used up'),
  level_gone: invalidGrant('the level of this workload no longer exists'),
  replayed: invalidGrant('the assertion was already used; get a new one'),
  grant_ended: invalidGrant('the connection of this workload was ended; try again'),
} as const;

export type WorkloadErrorCode = keyof typeof WORKLOAD_ERRORS;

const ERRORS = {
  invalid_grant: (description: string) => new errors.InvalidGrant(description),
  invalid_target: (description: string) => new errors.InvalidTarget(description),
};

/** `about` is the rule and the claim that failed. */
export function workloadError(reason: WorkloadErrorCode, about = ''): Error {
  const { error, description } = WORKLOAD_ERRORS[reason];
  const members = {
    error_description: description + about,
    error_detail: reason,
    scope: undefined,
  };
  return Object.assign(ERRORS[error](description), members);
}
