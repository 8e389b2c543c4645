// The credential of one person at one upstream, and the rules of its tokens. Pure: no I/O, no clock. Times are in seconds since the epoch.
import type { CredentialSettings } from '../settings/credentials.ts';
import type { Upstream } from '../settings/upstreams.ts';

/** Our client at the service, and where it asks. A credential remembers it, because another client could not use its refresh token. */
export type ServiceClient = {
  /** Absent for a service without metadata. */
  issuer?: string;
  authorizationEndpoint: string;
  tokenEndpoint: string;
  revocationEndpoint?: string;
  clientId: string;
  /** Of a client that was registered dynamically. Others have theirs in the settings. */
  clientSecret?: string;
  auth: 'basic' | 'post' | 'none';
  /** RFC 8707; sent with the authorization request, the code and each refresh. */
  resource?: string;
  /** Hosts that the settings named then. The service may be in a private network, and must be reached when the settings have lost the upstream. */
  trustedHosts?: string[];
};

export type Tokens = {
  /** The access token, or the key. */
  token: string;
  /** Absent if it has no known end. */
  expiresAt?: number;
  refreshToken?: string;
  /** Granted, not asked for. */
  scopes: string[];
};

export type Credential = Tokens & {
  account: string;
  upstream: string;
  kind: CredentialSettings['kind'];
  /** Origin of the upstream then. It is sent to no other. Absent if an earlier version stored it. */
  server?: string;
  /** Another one after each consent of the person. Sessions, streams and tasks of the upstream are bound to it. */
  epoch: string;
  connectedAt: number;
  service?: ServiceClient;
  /** Of an exchanged token: for what it was issued. After a change of the settings, it is not used. */
  purpose?: string;
  /** The account at the service, as it names it. */
  name?: string;
  /** Identifies the account at the service, where it says so. Names are not unique. */
  subject?: string;
  /** A key that the upstream takes as it takes none, so that it could not be tried. */
  isUntried?: true;
  /** The one process that refreshes. Still set if it was killed. */
  refreshing?: { by: string; at: number };
  /** When a refresh last failed. */
  failedAt?: number;
  /** The refresh token that the service answered with `invalid_request` once. */
  doubted?: string;
  /** Scopes to ask for when the person connects the account again, because the upstream needs them. */
  wanted?: string[];
  /** Scopes that the person was asked for because the upstream needed them. They are not asked for in this way again. */
  askedAgain?: string[];
  /** Since when no connection of the person leads to the upstream, or the settings lack it. */
  unusedSince?: number;
};

/** Why a credential ended. */
export type CredentialEnd =
  | 'disconnected'
  | 'ended_by_administrator'
  | 'refused_by_service'
  | 'account_disabled'
  | 'account_forgotten'
  | 'identity_provider_ended'
  | 'unused'
  | 'upstream_removed';

/** Long, because an answer that comes too late may have the only valid refresh token. */
export const TOKEN_TIMEOUT_SECONDS = 25;

/** A token is renewed this long before it expires. */
const EARLY_SECONDS = 60;
/** After this time, the process that refreshes is taken for killed. Longer than a refresh lasts, which is sent twice at most. */
export const LEASE_SECONDS = 2 * TOKEN_TIMEOUT_SECONDS + 40;
/** Between two refreshes that failed, while the token is still valid. */
const RETRY_SECONDS = 10;

/** Members of ids are separated by it; upstream and account ids do not have it. */
const SEPARATOR = '.';

/** The id of the API: of the upstream and the account, because a person has at most one credential at an upstream. */
export function credentialId({ upstream, account }: Pick<Credential, 'upstream' | 'account'>) {
  return `${upstream}${SEPARATOR}${account}`;
}

/** Undefined if it is no id of a credential. */
export function credentialIdParts(
  id: string,
): Pick<Credential, 'upstream' | 'account'> | undefined {
  const [upstream = '', account = '', ...more] = id.split(SEPARATOR);
  return upstream && account && more.length === 0 ? { upstream, account } : undefined;
}

/** What is stored of a credential for this upstream. */
export function serverOf({ url }: Pick<Upstream, 'url'>): string {
  return new URL(url).origin;
}

/** Whether the credential was given for what the settings have under its id now, and not for a server at another address. */
export function isFor(
  { kind, server }: Credential,
  upstream: Pick<Upstream, 'url' | 'credential'> | undefined,
): boolean {
  const isSameServer = upstream && (server === undefined || server === serverOf(upstream));
  return isSameServer === true && upstream.credential?.kind === kind;
}

export function isExpired({ expiresAt }: Tokens, now: number): boolean {
  return expiresAt !== undefined && expiresAt <= now;
}

/** Whether the token can be replaced without the person. */
export function isRenewable({ kind, refreshToken }: Credential): boolean {
  return kind === 'exchange' || refreshToken !== undefined;
}

/** Whether the token should be replaced before it is used. */
export function isDue(credential: Credential, now: number): boolean {
  const { expiresAt, failedAt } = credential;
  if (expiresAt === undefined || !isRenewable(credential)) return false;
  if (isExpired(credential, now)) return true;
  const hasFailed = failedAt !== undefined && now - failedAt < RETRY_SECONDS;
  return expiresAt - EARLY_SECONDS <= now && !hasFailed;
}

/**
 * The record after the upstream refused it because it lacks `missing`; only those of `allowed` are asked for. Undefined if the person cannot give
 * more, or was asked for it before.
 */
export function withWanted(
  credential: Credential,
  { missing, allowed }: { missing: readonly string[] | undefined; allowed: readonly string[] },
): Credential | undefined {
  const { scopes, askedAgain = [] } = credential;
  const needed = (missing ?? allowed).filter((scope) => allowed.includes(scope));
  if (needed.every((scope) => scopes.includes(scope) || askedAgain.includes(scope)))
    return undefined;
  const together = new Set([...scopes, ...needed]);
  return { ...credential, wanted: allowed.filter((scope) => together.has(scope)) };
}

/** The record after the person was asked for the wanted scopes. */
export function withoutWanted({ wanted = [], askedAgain = [], ...credential }: Credential) {
  return { ...credential, askedAgain: [...new Set([...askedAgain, ...wanted])] };
}

/** The record while `by` refreshes. Undefined if another process does. */
export function withLease(credential: Credential, by: string, now: number): Credential | undefined {
  const { refreshing } = credential;
  const isFree =
    refreshing === undefined || refreshing.by === by || now - refreshing.at >= LEASE_SECONDS;
  return isFree ? { ...credential, refreshing: { by, at: now } } : undefined;
}

export function withoutLease(
  leased: Credential,
  failed?: { at: number; doubted?: string | undefined },
): Credential {
  const { refreshing: _, ...credential } = leased;
  if (!failed) return credential;
  const { at: failedAt, doubted } = failed;
  return { ...credential, failedAt, ...(doubted === undefined ? {} : { doubted }) };
}

/** The record with the tokens of a refresh. A service that sends no refresh token, or no scope, leaves the old one in force. */
export function withRefreshed(
  credential: Credential,
  { token, expiresAt, refreshToken, scopes }: Partial<Tokens> & Pick<Tokens, 'token'>,
): Credential {
  const {
    refreshing: _refreshing,
    failedAt: _failedAt,
    doubted: _doubted,
    expiresAt: _expiresAt,
    ...rest
  } = credential;
  return {
    ...rest,
    token,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(refreshToken === undefined ? {} : { refreshToken }),
    ...(scopes === undefined ? {} : { scopes }),
  };
}
