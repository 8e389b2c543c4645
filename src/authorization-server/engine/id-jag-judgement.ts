// What the claims of an ID-JAG must say (draft-ietf-oauth-identity-assertion-authz-grant section 4.4.1, RFC 7523 section 3). Pure: no I/O, no clock.
import { MAX_EMAIL, type Testimony } from '../../accounts/account.ts';
import { personNameIn } from '../../accounts/person-name.ts';
import { canonicalResource, connectorIdOf } from '../../connectors/connect-link.ts';
import { highestLevelIn, type Level } from '../../permission-level.ts';
import type { TrustedIssuer } from '../../settings/identity-provider-schema.ts';
import type { IdJagRefusal } from './id-jag-refusals.ts';

export const ID_JAG_TYPE = 'oauth-id-jag+jwt';

/** Public-key signatures only: nobody shares a secret with us for this. */
export const ALGORITHMS =
  'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519'.split(' ');

/** Seconds by which clocks may differ. */
export const SKEW = 60;
const LONGEST_LIFE = 3600;
const LONGEST_ID = 512;
const LONGEST_NAME = 200;

export type Claims = Record<string, unknown>;

export type Expected = {
  issuer: TrustedIssuer;
  authUrl: string;
  resourceUrl: string;
  /** Of the client that authenticated. */
  clientId: string;
  /** The parameter of the request, as sent. */
  resource: unknown;
  /** Seconds since the epoch. */
  now: number;
};

/** Times are seconds since the epoch. */
export type IdJag = {
  id: string;
  issuedAt: number;
  /** From then on it is refused, also with clocks that differ. */
  overAt: number;
  resource: string;
  connectorId: string;
  /** The most that the issuer allows; undefined when it does not say. */
  level?: Level;
  person: Testimony;
};

/** Before a key is looked for: the header as sent, and the issuer that it claims to be from. */
export function judgeHeader({
  typ,
  alg,
}: {
  typ?: unknown;
  alg?: unknown;
}): IdJagRefusal | undefined {
  const type = typeof typ === 'string' ? typ.toLowerCase().replace(/^application\//, '') : '';
  if (type !== ID_JAG_TYPE) return 'wrong_type';
  return ALGORITHMS.includes(String(alg)) ? undefined : 'wrong_algorithm';
}

/** The claims of an assertion whose signature is good. */
export function judgeClaims(claims: Claims, expected: Expected): IdJag | IdJagRefusal {
  const refusal =
    judgeForm(claims, expected.issuer) ??
    judgeAddressee(claims, expected) ??
    judgeTimes(claims, expected.now);
  if (refusal) return refusal;
  const resource = chosenResource(claims, expected);
  if (typeof resource === 'string') return resource;
  const level = highestLevelIn(claims.scope as string | undefined);
  if (claims.scope !== undefined && !level) return 'scope_without_level';
  return {
    id: String(claims.jti),
    issuedAt: Number(claims.iat),
    overAt: Number(claims.exp) + SKEW,
    ...resource,
    ...(level ? { level } : {}),
    person: testimonyIn(claims, expected.issuer),
  };
}

function judgeForm(claims: Claims, issuer: TrustedIssuer): IdJagRefusal | undefined {
  const ids = [claims[issuer.claims.subject], claims.jti, claims.client_id];
  const times = [claims.exp, claims.iat, claims.nbf ?? 0];
  const isFormed =
    ids.every(isId) &&
    times.every(Number.isFinite) &&
    claims.aud !== undefined &&
    claims.resource !== undefined &&
    ['string', 'undefined'].includes(typeof claims.scope);
  return isFormed ? undefined : 'missing_claim';
}

function isId(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_ID;
}

function judgeAddressee(
  claims: Claims,
  { issuer, authUrl, clientId }: Expected,
): IdJagRefusal | undefined {
  const audience = [claims.aud].flat();
  if (audience.length !== 1 || audience[0] !== authUrl) return 'wrong_audience';
  if (claims.client_id !== clientId) return 'wrong_client';
  if (!issuer.clients.includes(clientId)) return 'client_not_vouched';
  // An issuer of many companies says which one; the subjects of two may be the same.
  if (claims.tenant !== issuer.tenant) return 'wrong_tenant';
  const isRestricted = claims.cnf !== undefined || claims.authorization_details !== undefined;
  return isRestricted ? 'unsupported_restriction' : undefined;
}

function judgeTimes({ exp, iat, nbf = 0 }: Claims, now: number): IdJagRefusal | undefined {
  if (Number(exp) + SKEW <= now) return 'expired';
  if (Math.max(Number(nbf), Number(iat)) - SKEW > now) return 'not_yet_valid';
  return Number(exp) - Number(iat) > LONGEST_LIFE ? 'too_long_lived' : undefined;
}

/** RFC 8707 section 2.2: the parameter chooses among what was granted. */
function chosenResource(
  { resource: granted }: Claims,
  { resource: sent, resourceUrl }: Expected,
): Pick<IdJag, 'resource' | 'connectorId'> | IdJagRefusal {
  const named = canonicalOnes(granted);
  const asked = sent === undefined ? undefined : canonicalOnes(sent);
  if (asked && (asked.length !== 1 || !named.includes(asked[0]))) return 'other_resource';
  const candidates = asked ?? named;
  if (candidates.length > 1) return 'several_resources';
  const [resource] = candidates;
  const connectorId = resource === undefined ? undefined : connectorIdOf(resourceUrl, resource);
  if (resource === undefined || connectorId === undefined) return 'unknown_resource';
  return { resource, connectorId };
}

function canonicalOnes(resource: unknown): (string | undefined)[] {
  return [...new Set([resource].flat().map((one) => canonicalResource(String(one))))];
}

/** What is not said, or not in its proper form, is left out: it changes nothing of what is known. */
function testimonyIn(
  claims: Claims,
  { issuer, claims: names, emailIsVerified }: TrustedIssuer,
): Testimony {
  const text = (claim: string) => {
    const value = claims[claim];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const address = text(names.email);
  const email = address !== undefined && address.length <= MAX_EMAIL ? address : undefined;
  const [groups, verified] = [claims[names.groups], claims[names.emailVerified]];
  const isVerified = emailIsVerified || (verified === undefined ? undefined : verified === true);
  const said = { email, emailVerified: isVerified };
  const name = personNameIn([text(names.name)], said)?.slice(0, LONGEST_NAME);
  return {
    issuer,
    subject: String(claims[names.subject]),
    ...(name === undefined ? {} : { name }),
    ...(email === undefined ? {} : { email }),
    ...(email === undefined || isVerified === undefined ? {} : { emailVerified: isVerified }),
    ...(Array.isArray(groups)
      ? { groups: groups.filter((group) => typeof group === 'string') }
      : {}),
  };
}
