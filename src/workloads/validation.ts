// Validates the JWT of a workload (RFC 7523 section 3, MCP extension workload-identity-federation), and compares it with rules. Pure: no I/O,
// no clock.
import { isObject } from '../json-values.ts';
import { SIGNATURE_ALGORITHMS } from '../keys/assertion-keys.ts';
import { TOKEN_PATH } from '../settings/addresses.ts';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';
import { issuerSpellings } from '../settings/value-types.ts';
import type { WorkloadRule } from '../settings/workloads.ts';
import { globMatcher } from '../upstreams/pattern-levels.ts';

export type Claims = Readonly<Record<string, unknown>>;

/** Of an assertion about a person (enterprise-managed authorization), which is never one of a workload. */
export const ID_JAG_TYPE = 'oauth-id-jag+jwt';

const TYPES: readonly string[] = ['jwt', 'jose', 'authorization-grant+jwt'];
export const MAX_CLOCK_SKEW_SECONDS = 60;
const MAX_SUBJECT_LENGTH = 2048;

export function typeOf({ typ }: { typ?: unknown }): string | undefined {
  if (typ === undefined) return undefined;
  return String(typ)
    .toLowerCase()
    .replace(/^application\//, '');
}

/** One thing that a JWT must be, with what it is and the reason for its refusal. */
export type Check<Of> = {
  name: string;
  reason: WorkloadErrorCode;
  shown: (jwt: Of) => unknown;
  isPassed: (jwt: Of) => boolean;
};

export type Header = { typ?: unknown; alg?: unknown };

/** Before a key is looked up. */
export const HEADER_CHECKS: readonly Check<Header>[] = [
  {
    name: 'typ',
    reason: 'wrong_type',
    shown: ({ typ }) => typ,
    isPassed(header) {
      const type = typeOf(header);
      return type === undefined || TYPES.includes(type);
    },
  },
  {
    name: 'alg',
    reason: 'wrong_algorithm',
    shown: ({ alg }) => alg,
    isPassed: ({ alg }) => SIGNATURE_ALGORITHMS.includes(String(alg)),
  },
];

export type ExpectedWorkload = {
  issuer: TrustedIssuer;
  authUrl: string;
  /** Seconds since the epoch. */
  now: number;
};

/** In their order, all that do not depend on a rule. Those after the times count on numbers. */
export function claimChecks({ issuer, authUrl, now }: ExpectedWorkload): readonly Check<Claims>[] {
  const tokenEndpoint = authUrl + TOKEN_PATH;
  const own = [...issuerSpellings(authUrl), `${authUrl}/`, tokenEndpoint, ...issuer.audiences];
  return [
    {
      name: 'sub',
      reason: 'missing_subject',
      shown: ({ sub }) => sub,
      isPassed: ({ sub }) =>
        typeof sub === 'string' && sub !== '' && sub.length <= MAX_SUBJECT_LENGTH,
    },
    {
      name: 'aud',
      reason: 'wrong_audience',
      shown: ({ aud }) => aud,
      isPassed({ aud }) {
        const [audience, ...others] = [aud].flat();
        return others.length === 0 && typeof audience === 'string' && own.includes(audience);
      },
    },
    {
      name: 'iat and exp',
      reason: 'missing_time',
      shown: ({ iat, exp, nbf }) => ({ iat, exp, nbf }),
      isPassed: ({ iat, exp, nbf = 0 }) => [iat, exp, nbf].every(Number.isFinite),
    },
    {
      name: 'exp',
      reason: 'expired',
      shown: ({ exp }) => exp,
      isPassed: ({ exp }) => Number(exp) + MAX_CLOCK_SKEW_SECONDS > now,
    },
    {
      name: 'iat and nbf',
      reason: 'not_yet_valid',
      shown: ({ iat, nbf }) => ({ iat, nbf }),
      isPassed: ({ iat, nbf = 0 }) =>
        Math.max(Number(nbf), Number(iat)) - MAX_CLOCK_SKEW_SECONDS <= now,
    },
    {
      name: 'lifetime',
      reason: 'too_long_lived',
      shown: ({ iat, exp }) => Number(exp) - Number(iat),
      isPassed: ({ iat, exp }) => Number(exp) - Number(iat) <= issuer.maxLifetime,
    },
    {
      name: 'cnf',
      reason: 'unsupported_restriction',
      shown: ({ cnf }) => cnf,
      isPassed: ({ cnf }) => cnf === undefined,
    },
  ];
}

/** A claim that does not match, with what the rule wants. */
export type UnmatchedClaim = { claim: string; pattern: string; value: unknown };

/** The claims that do not match, in the order of the rule. */
export function unmatchedClaims({ match }: WorkloadRule, claims: Claims): UnmatchedClaim[] {
  const patterns = Object.entries(match.claims ?? {});
  if (match.subject !== undefined) patterns.unshift(['sub', match.subject]);
  return patterns
    .map(([claim, pattern]) => ({ claim, pattern, value: claimNamed(claims, claim) }))
    .filter(({ pattern, value }) => !isMatch(pattern, value));
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

/** `rules` are the ids of the rules that it is about, and `unmatched` the first claim of each that does not match. */
export type RefusalDetails = {
  rules?: readonly string[];
  unmatched?: readonly UnmatchedClaim[];
};

/** The JWT gives nothing. The message has no values of claims. */
export class WorkloadRefused extends Error {
  readonly reason: WorkloadErrorCode;
  readonly details: RefusalDetails;
  constructor(reason: WorkloadErrorCode, details: RefusalDetails = {}) {
    super(WORKLOAD_ERRORS[reason].description + aboutRules(details));
    this.reason = reason;
    this.details = details;
  }
}

const MAX_NAMED_RULES = 5;

function aboutRules({ rules = [], unmatched = [] }: RefusalDetails): string {
  if (rules.length === 0) return '';
  const named = rules.slice(0, MAX_NAMED_RULES);
  const parts = named.map((rule, n) => {
    const claim = unmatched[n]?.claim;
    return claim === undefined ? rule : `the claim ${claim} does not match the rule ${rule}`;
  });
  const more = rules.length > named.length ? ` and ${rules.length - named.length} more` : '';
  if (unmatched.length > 0) return `: ${parts.join('; ')}${more}`;
  return `: the ${rules.length === 1 ? 'rule is' : 'rules are'} ${parts.join(', ')}${more}`;
}
