// Validates the claims of an ID-JAG (draft-ietf-oauth-identity-assertion-authz-grant section 4.4.1, RFC 7523 section 3). Pure: no I/O, no clock.
import { errors } from 'oidc-provider';
import { SIGNATURE_ALGORITHMS } from '../../keys/assertion-keys.ts';
import { ID_JAG_TYPE } from '../../workloads/validation.ts';
import { type AssertedIdentity, emailIn, personNameIn } from '../../people/account.ts';
import { claimAt, groupsIn } from '../../people/group-claims.ts';
import { type Authentication, authenticationIn } from '../../people/step-up.ts';
import { canonicalResource, connectorIdOf } from '../../links/connect-link.ts';
import { highestLevelIn, type Level, type Levels } from '../../permission-levels.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';

const MAX_CLOCK_SKEW_SECONDS = 60;
const MAX_LIFETIME_SECONDS = 3600;
const MAX_ID_LENGTH = 512;

export type Claims = Record<string, unknown>;

export type Expected = {
  issuer: TrustedIssuer;
  authUrl: string;
  resourceUrl: string;
  levels: Levels;
  /** The client that authenticated. */
  clientId: string;
  /** The request parameter, as sent. */
  resource: unknown;
  /** Seconds since the epoch. */
  now: number;
};

/** Times are seconds since the epoch. */
export type IdJag = {
  id: string;
  issuedAt: number;
  /** When it is rejected, including the clock skew. */
  expiresAt: number;
  resource: string;
  connectorId: string;
  /** The request named the resource, because the assertion does not. */
  isParameter: boolean;
  /** The highest level that the issuer allows. Undefined without a limit. */
  level?: Level;
  person: AssertedIdentity;
  authentication: Authentication;
};

/** Checks the header before a key is looked up. */
export function checkHeader({
  typ,
  alg,
}: {
  typ?: unknown;
  alg?: unknown;
}): IdJagErrorCode | undefined {
  const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : '';
  if (type !== ID_JAG_TYPE) return 'wrong_type';
  return SIGNATURE_ALGORITHMS.includes(String(alg)) ? undefined : 'wrong_algorithm';
}

/** Validates the claims of an assertion whose signature is verified. */
export function validateClaims(claims: Claims, expected: Expected): IdJag | IdJagErrorCode {
  const refusal =
    checkForm(claims, expected.issuer) ??
    checkAudience(claims, expected) ??
    checkTimes(claims, expected.now);
  if (refusal) return refusal;
  const resource = chosenResource(claims, expected);
  if (typeof resource === 'string') return resource;
  const level = highestLevelIn(expected.levels, claims.scope as string | undefined);
  if (claims.scope !== undefined && !level) return 'scope_without_level';
  return {
    id: String(claims.jti),
    issuedAt: Number(claims.iat),
    expiresAt: Number(claims.exp) + MAX_CLOCK_SKEW_SECONDS,
    ...resource,
    ...(level ? { level } : {}),
    person: identityIn(claims, expected.issuer),
    authentication: authenticationIn(claims),
  };
}

function checkForm(claims: Claims, issuer: TrustedIssuer): IdJagErrorCode | undefined {
  const ids = [claims[issuer.claims.subject], claims.jti, claims.client_id];
  const times = [claims.exp, claims.iat, claims.nbf ?? 0];
  const isFormed =
    ids.every(isId) &&
    times.every(Number.isFinite) &&
    claims.aud !== undefined &&
    claims.resource !== null &&
    ['string', 'undefined'].includes(typeof claims.scope);
  return isFormed ? undefined : 'missing_claim';
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH;
}

function checkAudience(
  claims: Claims,
  { issuer, authUrl, clientId }: Expected,
): IdJagErrorCode | undefined {
  const audience = [claims.aud].flat();
  if (audience.length !== 1 || audience[0] !== authUrl) return 'wrong_audience';
  if (claims.client_id !== clientId) return 'wrong_client';
  if (!issuer.clients.includes(clientId)) return 'client_not_trusted';
  // A multi-tenant issuer names the tenant; subjects are unique only within a tenant.
  if (claims.tenant !== issuer.tenant) return 'wrong_tenant';
  const isRestricted = claims.cnf !== undefined || claims.authorization_details !== undefined;
  return isRestricted ? 'unsupported_restriction' : undefined;
}

function checkTimes({ exp, iat, nbf = 0 }: Claims, now: number): IdJagErrorCode | undefined {
  if (Number(exp) + MAX_CLOCK_SKEW_SECONDS <= now) return 'expired';
  if (Math.max(Number(nbf), Number(iat)) - MAX_CLOCK_SKEW_SECONDS > now) return 'not_yet_valid';
  return Number(exp) - Number(iat) > MAX_LIFETIME_SECONDS ? 'too_long_lived' : undefined;
}

/** The parameter selects one of the granted resources (RFC 8707 section 2.2). An assertion without resources takes the parameter. */
function chosenResource(
  { resource: granted }: Claims,
  { resource: sent, resourceUrl }: Expected,
): Pick<IdJag, 'resource' | 'connectorId' | 'isParameter'> | IdJagErrorCode {
  const asked = sent === undefined ? undefined : canonicalResources(sent);
  const named = granted === undefined ? (asked ?? []) : canonicalResources(granted);
  if (asked && (asked.length !== 1 || !named.includes(asked[0]))) return 'other_resource';
  const candidates = asked ?? named;
  if (candidates.length > 1) return 'several_resources';
  if (candidates.length === 0) return granted === undefined ? 'no_resource' : 'unknown_resource';
  const [resource] = candidates;
  const connectorId = resource === undefined ? undefined : connectorIdOf(resourceUrl, resource);
  const isParameter = granted === undefined;
  if (resource === undefined || connectorId === undefined)
    return isParameter ? 'unknown_parameter' : 'unknown_resource';
  return { resource, connectorId, isParameter };
}

function canonicalResources(resource: unknown): (string | undefined)[] {
  return [...new Set([resource].flat().map((one) => canonicalResource(String(one))))];
}

/** Omits missing and malformed claims: they do not change what is known of the account. */
function identityIn(
  claims: Claims,
  { issuer, claims: names, emailIsVerified }: TrustedIssuer,
): AssertedIdentity {
  const email = emailIn(claims[names.email]);
  const verified = claims[names.emailVerified];
  const isVerified = emailIsVerified || (verified === undefined ? undefined : verified === true);
  const said = { email, emailVerified: isVerified };
  const name = personNameIn([claims[names.name]], said);
  const { groups } = groupsIn(claimAt(claims, names.groups));
  return {
    issuer,
    subject: String(claims[names.subject]),
    ...(name === undefined ? {} : { name }),
    ...(email === undefined ? {} : { email }),
    ...(email === undefined || isVerified === undefined ? {} : { emailVerified: isVerified }),
    ...(groups ? { groups } : {}),
  };
}

type ErrorEntry = {
  error: 'invalid_grant' | 'invalid_target';
  description: string;
};

/** Reason codes for the log, with the OAuth error (RFC 7521 section 4.1.1) and description for the client, which the operator registered. */
export const ID_JAG_ERRORS = {
  malformed: invalidGrant('the assertion is not a signed JWT'),
  wrong_type: invalidGrant('the assertion is not an ID-JAG: its typ must be oauth-id-jag+jwt'),
  wrong_algorithm: invalidGrant(
    'the assertion is not signed with a supported public-key algorithm',
  ),
  unknown_issuer: invalidGrant('the issuer of the assertion is not trusted'),
  bad_signature: invalidGrant('the assertion is not signed with a published key of its issuer'),
  missing_claim: invalidGrant(
    'the assertion must have valid iss, sub, aud, client_id, jti, exp and iat',
  ),
  wrong_audience: invalidGrant(
    'the assertion is not for this authorization server: aud must be its issuer',
  ),
  expired: invalidGrant('the assertion has expired; get a new one'),
  not_yet_valid: invalidGrant('the assertion is not valid yet; check the clocks'),
  too_long_lived: invalidGrant('the assertion is valid for longer than an hour'),
  wrong_client: invalidGrant('the assertion was issued for another client'),
  client_not_trusted: invalidGrant('the issuer of the assertion is not trusted for this client'),
  client_blocked: invalidGrant('an administrator blocked this app'),
  client_revoked: invalidGrant('an administrator revoked this app'),
  kept_out: invalidGrant('an administrator keeps this app away from the person'),
  wrong_tenant: invalidGrant('the tenant of the assertion is not trusted'),
  unsupported_restriction: invalidGrant(
    'the assertion has an unsupported restriction (cnf or authorization_details)',
  ),
  unknown_resource: invalidGrant(
    'the resource of the assertion is not a connect link of this server',
  ),
  unknown_parameter: invalidTarget('the parameter resource is not a connect link of this server'),
  no_resource: invalidTarget(
    'neither the assertion nor the parameter resource names a connect link of this server',
  ),
  several_resources: invalidTarget(
    'the assertion names several resources: choose one of them with the parameter resource',
  ),
  other_resource: invalidTarget('the parameter resource is not a resource of the assertion'),
  connector_ended: invalidGrant('the connect link was revoked or has expired; ask for a fresh one'),
  connector_paused: invalidGrant('the connect link is paused; try again when it was resumed'),
  scope_without_level: invalidGrant(
    'the scope of the assertion names no permission level of this server',
  ),
  account_disabled: invalidGrant(
    'the account of the person was disabled after the assertion was made',
  ),
  not_entitled: invalidGrant('the person may not use this connect link'),
  step_up_required: invalidGrant(
    'every level of this connect link requires an auth_time or acr that the assertion lacks; sign in again, then get a new assertion',
  ),
  used_up: invalidGrant('this connect link was used up; ask for a fresh connect link'),
  replayed: invalidGrant('the assertion was already used; get a new one'),
  grant_ended: invalidGrant('the grant of this assertion has ended; get a new assertion'),
} as const satisfies Record<string, ErrorEntry>;

export type IdJagErrorCode = keyof typeof ID_JAG_ERRORS;

const ERRORS = {
  invalid_grant: (description: string) => new errors.InvalidGrant(description),
  invalid_target: (description: string) => new errors.InvalidTarget(description),
};

export function idJagError(reason: IdJagErrorCode): Error {
  const { error, description } = ID_JAG_ERRORS[reason];
  const members = { error_description: description, error_detail: reason, scope: undefined };
  return Object.assign(ERRORS[error](description), members);
}

function invalidGrant(description: string): ErrorEntry {
  return { error: 'invalid_grant', description };
}

function invalidTarget(description: string): ErrorEntry {
  return { error: 'invalid_target', description };
}
