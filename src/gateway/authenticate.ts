// Authenticates a request by its access token (RFC 6750, RFC 9068, RFC 9449).
import type { IncomingMessage } from 'node:http';
import {
  errors,
  type JWTHeaderParameters,
  type JWTPayload,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose';
import type Koa from 'koa';
import { type Account, isGrantValid } from '../people/account.ts';
import { type AccessSettings, accessThrough, matchingRules } from '../people/entitlement.ts';
import { connectLink } from '../links/connect-link.ts';
import type { Connector } from '../links/connector.ts';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { type DpopSettings, levelWithoutDpop, requiresDpop } from '../dpop/required-levels.ts';
import { isMachineSubject } from '../connections/machine-subject.ts';
import { allowsLevel, grantedLevel, type GrantRecord, viaOf } from '../connections/grant-record.ts';
import { HttpError, tooManyRequests, unavailable } from '../http/errors.ts';
import type { RateLimit } from '../http/rate-limits.ts';
import { requestContext } from '../http/request-context.ts';
import { isKeySetError } from '../keys/remote-keys.ts';
import { SIGNING_ALGORITHM, type VerificationKeys } from '../keys/signing-keys.ts';
import { lruCache } from '../lru-cache.ts';
import { type MintedToken, mintedAudience } from '../links/minted-tokens.ts';
import { isAtLeast, isLevel, type Level, lowest } from '../permission-levels.ts';
import type { Via } from '../settings/entitlements.ts';
import type { CallerClaim } from '../settings/schema.ts';
import type { Rate } from '../settings/limits.ts';
import type { Settings } from '../settings/settings.ts';
import { isWorkloadSubject, ruleInForce, type WorkloadRule } from '../settings/workloads.ts';
import { isServed } from '../settings/upstreams.ts';
import { membersOf } from '../json-values.ts';
import { type Rights, selectionOf } from '../upstreams/tool-access.ts';
import { type Addresses, metadataUrl } from './metadata.ts';
import type { RecordCache } from './record-cache.ts';

/** Who sends a request, read from a valid access token. */
export type Caller = Readonly<Rights> & {
  accountId: string;
  clientId: string;
  connector?: string;
  grantId?: string;
  tokenId: string;
  /** The limit on the calls of a machine or a workload. */
  calls?: string | Rate;
  /** Thumbprint (RFC 7638) of the key that the token is bound to. Each request needs a proof of this key. */
  keyThumbprint?: string;
  /** Of a workload: who it is at its platform. */
  subject?: string;
  /** Absent for machines and minted tokens, and if the connection gives the server no claims. */
  person?: CallingPerson;
};

/** What has a session, lists and limits of its own: the connection, or the token of a caller without one. */
export function connectionOf({ grantId, tokenId }: Pick<Caller, 'grantId' | 'tokenId'>): string {
  return grantId ?? tokenId;
}

/** `shown` are the claims of which the person was told that the server learns them. */
export type CallingPerson = { account: Account; via: Via; shown: readonly CallerClaim[] };

/** Who shares the limits on calls: all apps of a person, and each minted token by itself, because no person is behind it. */
export function limitOwner(caller: Caller): string {
  const known = owners.get(caller);
  if (known !== undefined) return known;
  const { minted, tokenId, accountId } = caller;
  const owner = minted ? `token ${tokenId}` : `account ${accountId}`;
  owners.set(caller, owner);
  return owner;
}

/** The same text each time is found faster in a Map than an equal one. */
const owners = new WeakMap<Caller, string>();

/** `record` is the minted token's record, whose last use is noted. */
export type MintedCaller = Caller & { record: MintedToken };

/** What authentication reads. Records are at most 9 s old, or 45 s when the store is unavailable. */
export type Authentication = {
  addresses: Addresses;
  /** Who may have which level, and the MCP servers that minted tokens may lead to: always the settings in force, also for older streams. */
  settings: AccessSettings &
    DpopSettings &
    Pick<Settings, 'limits' | 'upstreams'> & {
      authorization: Pick<Settings['authorization'], 'trustedIssuers'>;
    };
  records: Pick<RecordCache, 'readGrant' | 'readAccount' | 'readMintedToken'>;
  verifyToken: VerifyToken;
  /** Seconds since the epoch. */
  now: () => number;
  /** Counts tokens that we did not sign. Expired and revoked tokens do not count. */
  wrongTokens: RateLimit;
};

/** `DPoP` tokens come with a proof of the key that they are bound to (RFC 9449 section 7.1). */
export type Scheme = 'Bearer' | 'DPoP';

/**
 * Authenticates with an access token for a connect link. Throws 401 with a challenge (RFC 6750 section 3, RFC 9728 section 5.1), 429 after too
 * many forged tokens, or 503 if the token cannot be checked.
 */
export async function authenticate(
  authentication: Authentication,
  ctx: Koa.Context,
  connector: Connector,
): Promise<Caller> {
  const presented = presentedToken(ctx.req);
  if (!presented.isPresent) throw tokenRequired(authentication.addresses, connector);
  const { scheme } = presented;
  const caller = await callerOf(authentication, connector, presented);
  if (typeof caller !== 'string') return caller;
  if (caller === 'unknown') await limitForgeries(authentication, ctx);
  const error = { error: 'invalid_token', scope: connector.level, scheme } as const;
  const header =
    challenge(authentication.addresses, connector, error) +
    (caller === 'bound' || caller === 'key-required' ? ALSO_DPOP : '');
  throw new HttpError(401, 'invalid_token', REFUSALS[caller], {
    headers: { 'WWW-Authenticate': header },
  });
}

/** The error for a request without a token: 401 with a challenge. */
export function tokenRequired(addresses: Addresses, connector: Connector): HttpError {
  const header = challenge(addresses, connector, { scope: connector.level, scheme: 'Bearer' });
  return new HttpError(401, 'token_required', 'an access token is required: sign in first', {
    headers: { 'WWW-Authenticate': header },
  });
}

/** Authenticates with a minted token. The challenge has no `resource_metadata`, because nobody can sign in here. */
export async function authenticateMintedToken(
  authentication: Authentication,
  ctx: Koa.Context,
): Promise<MintedCaller> {
  const presented = presentedToken(ctx.req);
  const caller = await mintedCallerOf(authentication, presented);
  if (typeof caller !== 'string') return caller;
  if (presented.isPresent && caller === 'unknown') await limitForgeries(authentication, ctx);
  const message = `${MINTED_REFUSALS[caller]}${MINTED_ONLY}`;
  throw new HttpError(401, 'invalid_token', message, {
    about: 'programs_only',
    headers: { 'WWW-Authenticate': 'Bearer' },
  });
}

/**
 * `bound` and `unbound` tokens were presented with the scheme of the other kind. The settings do not have the level or the MCP
 * server of an `unconfigured` token. `key-required`: an unbound token of a level that requires DPoP.
 */
type Refusal = TokenFault | 'ended' | 'unconfigured' | 'bound' | 'unbound' | 'key-required';

/** `unknown` tokens, which we did not sign, get no details. */
const REFUSALS: Record<Refusal, string> = {
  unknown: 'the access token is not valid for this connect link',
  expired: 'the access token has expired: refresh it, or sign in again',
  'wrong-audience': 'the access token is for another address: sign in through this connect link',
  ended: 'this access token or its connection was ended: refresh it, or sign in again',
  unconfigured: 'the level or the MCP server of this connect link is no longer configured',
  bound: 'this access token is bound to a key: send it as DPoP, with a proof signed with that key',
  unbound: 'this access token is not bound to a key: send it as Bearer',
  'key-required':
    'access tokens of this level must be bound to a key: refresh this token for a lower level, or sign in again with an app that uses DPoP',
};

const MINTED_REFUSALS: Record<Refusal, string> = {
  unknown: '',
  expired: 'this minted token has expired; ',
  'wrong-audience': 'this token is for another address; ',
  ended: 'this minted token was revoked; ',
  unconfigured: 'the level or the MCP server of this minted token is no longer configured; ',
  bound: '',
  unbound: 'minted tokens are sent as Bearer; ',
  'key-required': '',
};

const MINTED_ONLY =
  'this address accepts minted tokens only: use a connect link (…/connect/<connector>/mcp) to sign in, or ask an administrator for a minted token';

async function limitForgeries({ wrongTokens }: Authentication, ctx: Koa.Context): Promise<void> {
  const wait = await wrongTokens.consume(requestContext(ctx).address, 'access token');
  if (wait !== undefined) throw tooManyRequests(wait);
}

const MAX_TOKEN_LENGTH = 8192;

type PresentedToken = { token?: string; isPresent: boolean; scheme: Scheme };

/** The token of the `Authorization` header (RFC 6750 section 2.1). `isPresent` is false for any other scheme. */
export function presentedToken({ headers }: Pick<IncomingMessage, 'headers'>): PresentedToken {
  const { authorization = '' } = headers;
  const space = authorization.indexOf(' ');
  const name = space < 0 ? authorization : authorization.slice(0, space);
  const scheme = SCHEMES.get(name.toLowerCase());
  if (!scheme) return { isPresent: false, scheme: 'Bearer' };
  const token = space < 0 ? '' : authorization.slice(space).trim();
  if (token === '' || token.length > MAX_TOKEN_LENGTH) return { isPresent: true, scheme };
  return { isPresent: true, scheme, token };
}

/** By their names in lower case (RFC 9110 section 11.1). */
const SCHEMES: ReadonlyMap<string, Scheme> = new Map([
  ['bearer', 'Bearer'],
  ['dpop', 'DPoP'],
]);

async function callerOf(
  { addresses, settings, records, verifyToken, now }: Authentication,
  connector: Connector,
  { token, scheme }: PresentedToken,
): Promise<Caller | Refusal> {
  if (token === undefined) return 'unknown';
  const verifying = verifyToken(token, connectLink(addresses.resourceUrl, connector.id));
  const verified = verifying instanceof Promise ? await verifying : verifying;
  if (typeof verified === 'string') return verified;
  const claims = readClaims(verified);
  const wrongScheme = claims && refuseScheme(settings, scheme, claims);
  if (!claims || wrongScheme) return wrongScheme ?? 'unknown';
  const isMachine = isMachineSubject(claims.accountId);
  const foundGrant = records.readGrant(claims.grantId);
  const foundAccount = isMachine ? undefined : records.readAccount(claims.accountId);
  const [grant, account] =
    foundGrant instanceof Promise || foundAccount instanceof Promise
      ? await Promise.all([foundGrant, foundAccount])
      : [foundGrant, foundAccount];
  // What depends on the time is decided at each call. An administrator may have changed when the machine expires.
  if (grant?.machine && grant.grant.exp <= now()) return 'ended';
  const workload = workloadOf(settings, claims, connector, now());
  if (workload === 'ended') return 'ended';
  const last = grant && decided.get(grant);
  if (
    last?.verified === verified &&
    last.settings === settings &&
    last.connector === connector &&
    last.account === account &&
    last.workload === workload
  )
    return last.caller;
  const caller = decide(settings, connector, claims, { grant, account, workload });
  if (grant && typeof caller !== 'string')
    decided.set(grant, { verified, settings, connector, account, workload, caller });
  return caller;
}

type Decided = {
  verified: JWTPayload;
  settings: Authentication['settings'];
  connector: Connector;
  account: Account | undefined;
  workload: WorkloadRule | undefined;
  caller: Caller;
};

/**
 * By grant record, because the cache of records bounds them: the last caller, and the token, records and settings from which it was decided. It
 * holds as long as these are the same objects, so nothing may change them in place.
 */
const decided = new WeakMap<GrantRecord, Decided>();

/** Of the payloads in the cache of tokens. */
const claimsOfPayload = new WeakMap<JWTPayload, Claims>();

/** What a verified token says. */
type Claims = Pick<Caller, 'accountId' | 'clientId' | 'tokenId' | 'keyThumbprint' | 'subject'> & {
  grantId: string;
  scope: string;
};

/** Returns undefined for a token that is not one of a connect link. */
function readClaims(verified: JWTPayload): Claims | undefined {
  const known = claimsOfPayload.get(verified);
  if (known) return known;
  const { sub, jti, scope, client_id: clientId, grant_id: grantId } = verified;
  const { platform_sub: subject } = verified;
  const keyThumbprint = boundKey(verified);
  if (!sub || !jti || keyThumbprint === 'unsupported') return undefined;
  if (typeof clientId !== 'string' || typeof grantId !== 'string' || typeof scope !== 'string')
    return undefined;
  const claims = {
    accountId: sub,
    clientId,
    tokenId: jti,
    grantId,
    scope,
    ...(keyThumbprint === undefined ? {} : { keyThumbprint }),
    ...(typeof subject === 'string' ? { subject } : {}),
  };
  claimsOfPayload.set(verified, claims);
  return claims;
}

function refuseScheme(
  settings: DpopSettings,
  scheme: Scheme,
  { keyThumbprint, scope }: Claims,
): Refusal | undefined {
  if (scheme === 'Bearer' && keyThumbprint !== undefined) return 'bound';
  if (scheme === 'DPoP' && keyThumbprint === undefined) return 'unbound';
  return keyThumbprint === undefined && requiresDpop(settings, scope) ? 'key-required' : undefined;
}

type CallerRecords = {
  grant: GrantRecord | undefined;
  account: Account | undefined;
  workload?: WorkloadRule | undefined;
};

/** The rule of a workload, which the settings in force must have for this connector. Undefined for other callers. */
function workloadOf(
  { authorization }: Authentication['settings'],
  { accountId }: Claims,
  connector: Connector,
  now: number,
): WorkloadRule | 'ended' | undefined {
  if (!isWorkloadSubject(accountId)) return undefined;
  return ruleInForce(authorization.trustedIssuers, accountId, { connector, now }) ?? 'ended';
}

/** Decides by the current records and settings what the bearer of a verified token may do. Pure: no I/O, and no clock, because the answer is remembered. */
export function decide(
  settings: Authentication['settings'],
  connector: Connector,
  { scope, ...claims }: Claims,
  { grant, account, workload }: CallerRecords,
): Caller | Refusal {
  const { accountId, clientId, tokenId, keyThumbprint } = claims;
  const isActive =
    grant !== undefined &&
    grant.revoked?.[tokenId] === undefined &&
    grant.connector === connector.id &&
    grant.grant.accountId === accountId &&
    grant.grant.clientId === clientId;
  if (!isActive) return 'ended';
  const { levels } = settings;
  const level = lowest(levels, scope, connector.level);
  // A machine can get no higher level than it was created with.
  const entitled = isMachineSubject(accountId)
    ? (workload?.level ?? grantedLevel(grant) ?? level)
    : entitledNow(settings, connector, grant, account);
  if (entitled === undefined || !isAtLeast(levels, entitled, level)) return 'ended';
  if (!allowsLevel(levels, grant, scope)) return 'ended';
  const highest = lowest(levels, connector.level, entitled);
  const ceiling = keyThumbprint === undefined ? levelWithoutDpop(settings, highest) : highest;
  const { callerClaims: shown = [] } = grant;
  const calls = workload?.calls ?? grant.machine?.calls;
  return {
    ...claims,
    connector: connector.id,
    level,
    ceiling: ceiling ?? level,
    ...(ceiling === highest ? {} : { ceilingWithDpop: highest }),
    minted: false,
    ...selectionOf(
      { connector, machine: workload ?? grant.machine },
      account && matchingRules(settings, account, viaOf(grant)),
    ),
    ...(calls === undefined ? {} : { calls }),
    ...(account && shown.length > 0 ? { person: { account, via: viaOf(grant), shown } } : {}),
  };
}

/** The level that the person may have. Undefined if the person was disabled or lost it after the token was issued. The client refreshes it. */
function entitledNow(
  settings: Authentication['settings'],
  connector: Connector,
  grant: GrantRecord,
  account: Account | undefined,
): Level | undefined {
  if (!account || !isGrantValid(account, grant.createdAt)) return undefined;
  return accessThrough(settings, connector, account, viaOf(grant)).level;
}

/** The thumbprint of the key that a token is bound to (RFC 9449 section 6.1); `unsupported` for other confirmation methods. */
function boundKey({ cnf }: JWTPayload): string | undefined {
  if (cnf === undefined) return undefined;
  const { jkt, ...others } = membersOf(cnf);
  return typeof jkt === 'string' && Object.keys(others).length === 0 ? jkt : 'unsupported';
}

async function mintedCallerOf(
  { addresses, settings: { levels, upstreams }, records, verifyToken, now }: Authentication,
  { token, scheme }: PresentedToken,
): Promise<MintedCaller | Refusal> {
  if (token === undefined) return 'unknown';
  const claims = await verifyToken(token, mintedAudience(addresses.resourceUrl));
  if (typeof claims === 'string') return claims;
  if (!claims.sub || !claims.jti || typeof claims.scope !== 'string') return 'unknown';
  if (scheme === 'DPoP') return 'unbound';
  const record = await records.readMintedToken(claims.jti);
  if (!record) return 'ended';
  // An administrator may have made it expire before the JWT does.
  if (record.expiresAt <= now()) return 'expired';
  const level = lowest(levels, claims.scope, record.level);
  if (!isServed(upstreams, record) || !isLevel(levels, level)) return 'unconfigured';
  return {
    accountId: claims.sub,
    clientId: claims.sub,
    tokenId: record.id,
    level,
    ceiling: level,
    minted: true,
    ...selectionOf({ token: record }),
    record,
  };
}

/** Why a token is invalid. Tokens that we did not sign are always `unknown`. */
export type TokenFault = 'unknown' | 'expired' | 'wrong-audience';

/** Answers at once about a token that is known to be valid. */
export type VerifyToken = (
  token: string,
  audience: string,
) => JWTPayload | TokenFault | Promise<JWTPayload | TokenFault>;

export type VerifyOptions = {
  issuer: string;
  verificationKeys: VerificationKeys;
  /** Seconds since the epoch. */
  now: () => number;
};

type Key = Awaited<ReturnType<JWTVerifyGetKey>>;
/** `version` of the keys with which it was last found valid. */
type Verified = {
  claims: JWTPayload;
  header: JWTHeaderParameters;
  key: Key;
  version?: object | undefined;
};

/** About 2 kB each. Looked up by the token itself, because a digest takes longer than the other checks. */
const MAX_CACHED_TOKENS = 10_000;

/**
 * Verifies JWT access tokens (RFC 9068 section 4). Valid tokens are cached until they expire or their key is no longer published. Rejects with
 * 503 if the keys cannot be fetched.
 */
export function tokenVerifier(options: VerifyOptions): VerifyToken {
  const cached = lruCache<Verified>(MAX_CACHED_TOKENS);
  const verifyAgain = async (
    token: string,
    audience: string,
    found: Verified | undefined,
    version: object | undefined,
  ) => {
    try {
      const { verificationKeys } = options;
      if (found && isCurrent(options, found) && (await hasKey(verificationKeys, found, version)))
        return claimsFor(found, audience);
      const verified = { ...(await verify(options, token)), version };
      cached.set(token, verified);
      return claimsFor(verified, audience);
    } catch (error) {
      cached.delete(token);
      return faultOf(error);
    }
  };
  return function verifyToken(token, audience) {
    const found = cached.get(token);
    const version = options.verificationKeys.version?.();
    const isKnown = version !== undefined && found?.version === version;
    if (isKnown && isCurrent(options, found)) return claimsFor(found, audience);
    return verifyAgain(token, audience, found, version);
  };
}

function claimsFor({ claims }: Verified, audience: string): JWTPayload | 'wrong-audience' {
  return claims.aud === audience ? claims : 'wrong-audience';
}

async function verify(
  { issuer, verificationKeys, now }: VerifyOptions,
  token: string,
): Promise<Verified> {
  const { payload, protectedHeader, key } = await jwtVerify(token, verificationKeys, {
    issuer,
    typ: 'at+jwt',
    algorithms: [SIGNING_ALGORITHM],
    requiredClaims: ['aud', 'exp', 'iat', 'jti', 'sub'],
    currentDate: new Date(now() * 1000),
  });
  return { claims: payload, header: protectedHeader, key };
}

function isCurrent({ now }: VerifyOptions, { claims }: Verified): boolean {
  return (claims.exp ?? 0) > Math.floor(now());
}

/** Compares key objects: a removed key is not found, and a new key with the same id is another object. */
async function hasKey(
  verificationKeys: VerificationKeys,
  verified: Verified,
  version: object | undefined,
): Promise<boolean> {
  if ((await verificationKeys(verified.header, EMPTY_JWS)) !== verified.key) return false;
  verified.version = version;
  return true;
}

/** Key sets read the header only. */
const EMPTY_JWS = { payload: '', signature: '' };

/** Throws 503 if the keys of a remote authorization server cannot be fetched. */
function faultOf(error: unknown): TokenFault {
  // jose checks the signature, issuer and type before the expiry.
  if (error instanceof errors.JWTExpired) return 'expired';
  if (isKeySetError(error)) throw unavailable(error);
  return 'unknown';
}

export type Challenge = {
  error?: 'invalid_token' | 'insufficient_scope' | 'invalid_dpop_proof' | 'use_dpop_nonce';
  scope: Level;
  /** The scheme of the presented token. */
  scheme?: Scheme;
};

/**
 * The `WWW-Authenticate` header of a connect link (RFC 6750 section 3, RFC 9449 section 7.1). It names one scheme, because many clients read
 * only the first one.
 */
export function challenge(
  addresses: Addresses,
  connector: Connector,
  { error, scope, scheme = 'Bearer' }: Challenge,
): string {
  const parts = [
    ...(error ? [`error="${error}"`] : []),
    `resource_metadata="${metadataUrl(addresses, connector)}"`,
    `scope="${scope}"`,
    ...(scheme === 'DPoP' ? [ALGORITHMS] : []),
  ];
  return `${scheme} ${parts.join(', ')}`;
}

const ALGORITHMS = `algs="${DPOP_ALGORITHMS.join(' ')}"`;

/** Appended to the challenge if a token was sent as a bearer token that must be bound, or is. */
const ALSO_DPOP = `, DPoP ${ALGORITHMS}`;
