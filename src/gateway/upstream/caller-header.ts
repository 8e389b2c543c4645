// The headers that tell the upstream who calls: a JWT (RFC 7519), whose type makes it invalid as an access token, and plain ones.
import { importJWK, SignJWT } from 'jose';
import { type SigningKey, SIGNING_ALGORITHM } from '../../keys/signing-keys.ts';
import { lruCache } from '../../lru-cache.ts';
import type { CallerClaims } from '../../people/caller-claims.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import type { Caller, CallingPerson } from '../authenticate.ts';
import { plainHeaders } from './plain-headers.ts';

export const CALLER_HEADER = 'gatehouse-caller';
export const CALLER_TYPE = 'gatehouse-caller+jwt';

const LIFETIME_SECONDS = 60;
const REUSE_SECONDS = 30;
const MAX_CACHED = 1000;

/** More do not fit into the headers that servers accept. */
const MAX_GROUPS = 100;
/** Of the list as JSON. */
const MAX_GROUPS_BYTES = 4096;
/** Longer subjects are invalid (OpenID Connect Core section 2: 255 characters). */
const MAX_CLAIM_BYTES = 1024;

export type CallerHeaderOptions = {
  issuer: string;
  /** The upstream's address, exactly as in the settings. */
  audience: string;
  /** The plain headers. */
  headers: Upstream['caller']['headers'];
  /** Returns what the upstream may learn about a person. */
  claimsOf: (person: CallingPerson) => CallerClaims;
  /** The current signing key. */
  signingKey: () => SigningKey;
  /** Seconds since the epoch. */
  now: () => number;
};

/** Reuses a JWT for 30 s, so that it is valid for at least 30 s more, and returns it at once to the caller who had it last. */
export function callerHeaders(
  options: CallerHeaderOptions,
): (
  caller: Caller,
) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>> {
  const cache = lruCache<Signed>(MAX_CACHED);
  /** A caller is another object after its records were read again: its JWT is then still in the cache. */
  const ofCaller = new WeakMap<Caller, Validity & { headers: Record<string, string> }>();
  const signFor = async (caller: Caller, key: SigningKey, now: number) => {
    const { kid } = key.jwk;
    const claims = claimsOf(options, caller);
    const name = JSON.stringify([kid, claims]);
    const known = cache.get(name);
    const signed =
      known && isReusable(known, kid, now)
        ? known
        : { text: await sign(options, key, claims, Math.floor(now)), kid, signedAt: now };
    if (signed !== known) cache.set(name, signed);
    const headers = { ...plainHeaders(options.headers, claims), [CALLER_HEADER]: signed.text };
    ofCaller.set(caller, { kid, signedAt: signed.signedAt, headers });
    return headers;
  };
  return function headersOf(caller) {
    const now = options.now();
    const key = options.signingKey();
    const last = ofCaller.get(caller);
    return last && isReusable(last, key.jwk.kid, now) ? last.headers : signFor(caller, key, now);
  };
}

/** Which key signed a JWT, and when. */
type Validity = { kid: string; signedAt: number };
type Signed = Validity & { text: string };

function isReusable(signed: Validity, kid: string, now: number): boolean {
  const age = now - signed.signedAt;
  return signed.kid === kid && age >= 0 && age < REUSE_SECONDS;
}

/** The claims of the JWT besides those about the JWT itself. */
export type JwtClaims = PersonClaims & {
  sub: string;
  client_id: string;
  connector?: string;
  level: string;
};

type PersonClaims = {
  name?: string;
  email?: string;
  email_verified?: true;
  groups?: string[];
  groups_truncated?: true;
  idp?: string;
  idp_sub?: string;
  provider?: string;
};

/** A minted token has no connector, and its account and client are the same. */
function claimsOf(
  options: CallerHeaderOptions,
  { accountId, clientId, connector, level, person }: Caller,
): JwtClaims {
  return {
    sub: accountId,
    client_id: clientId,
    ...(connector === undefined ? {} : { connector }),
    level,
    ...(person ? personClaims(options.claimsOf(person)) : {}),
  };
}

function personClaims({
  name,
  email,
  groups,
  issuer,
  subject,
  provider,
}: CallerClaims): PersonClaims {
  return {
    ...(isUsable(name) ? { name } : {}),
    ...(isUsable(email) ? { email, email_verified: true } : {}),
    ...(groups ? groupClaims(groups) : {}),
    ...(isUsable(issuer) ? { idp: issuer } : {}),
    ...(isUsable(subject) ? { idp_sub: subject } : {}),
    ...(provider === undefined ? {} : { provider }),
  };
}

/** A lone surrogate has no UTF-8 form: replaced, it could become the claim of somebody else. */
function isUsable(text: string | undefined): text is string {
  return text !== undefined && text.isWellFormed() && Buffer.byteLength(text) <= MAX_CLAIM_BYTES;
}

function groupClaims(groups: readonly string[]): Pick<PersonClaims, 'groups' | 'groups_truncated'> {
  const kept: string[] = [];
  let bytes = '[]'.length;
  for (const group of groups) {
    const size = Buffer.byteLength(JSON.stringify(group)) + ','.length;
    if (kept.length === MAX_GROUPS || bytes + size > MAX_GROUPS_BYTES || !group.isWellFormed())
      continue;
    kept.push(group);
    bytes += size;
  }
  return { groups: kept, ...(kept.length < groups.length ? { groups_truncated: true } : {}) };
}

async function sign(
  { issuer, audience }: CallerHeaderOptions,
  { jwk }: SigningKey,
  claims: JwtClaims,
  issuedAt: number,
): Promise<string> {
  return new SignJWT(claims)
    .setProtectedHeader({ alg: SIGNING_ALGORITHM, typ: CALLER_TYPE, kid: jwk.kid })
    .setIssuer(issuer)
    .setAudience(audience)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + LIFETIME_SECONDS)
    .sign(await importJWK(jwk, SIGNING_ALGORITHM));
}
