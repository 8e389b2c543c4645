// Obtains a credential from the person: the authorization request, and the code (RFC 6749 section 4.1, RFC 7636, RFC 9207).
import { randomBytes } from 'node:crypto';
import * as openid from 'openid-client';
import { isAtLeast, type Level, type Levels } from '../permission-levels.ts';
import type { OAuthCredentialSettings } from '../settings/credentials.ts';
import type { Store } from '../store/store.ts';
import type { Credential, ServiceClient, Tokens } from './credential.ts';
import {
  impliedParameters,
  isClientRefused,
  isSameService,
  openidConfiguration,
  type OAuthUpstream,
  type Service,
  ServiceFault,
} from './service.ts';
import { membersOfAnswer, type ServiceNetwork } from './service-fetch.ts';
import { membersOf } from '../json-values.ts';

/** One authorization at a service, between leaving and coming back. */
export type PendingAuthorization = {
  account: string;
  /** The administrator, for the credential of the operator. */
  by?: string | undefined;
  upstream: string;
  /** Seconds since the epoch. */
  startedAt: number;
  /** Of the cookie in the browser that began it. */
  browser: string;
  verifier: string;
  service: ServiceClient;
  advertisesIss: boolean;
  /** Asked for. */
  scopes: string[];
  /** Where the browser goes on. */
  returnTo: string;
  /** The last end of a credential there, so that a later one counts for this authorization too. */
  lastEnd?: string | undefined;
};

const LIFETIME_SECONDS = 600;
const pendingKey = (state: string) => `credential-authorization:${state}`;

/** The scopes of a level and those below it. */
export function scopesFor(
  { scopes }: Pick<OAuthCredentialSettings, 'scopes'>,
  levels: Levels,
  level: Level,
): string[] {
  if (Array.isArray(scopes)) return scopes;
  const lists = Object.entries(scopes).filter(([each]) => isAtLeast(levels, level, each));
  return [...new Set(lists.flatMap(([, list]) => list))];
}

/** Returns the address of the service to which the browser goes, and stores what its way back needs. */
export async function startAuthorization(
  store: Store,
  upstream: OAuthUpstream,
  service: Service,
  pending: Omit<PendingAuthorization, 'verifier' | 'service' | 'advertisesIss' | 'upstream'> & {
    redirectUri: string;
  },
): Promise<string> {
  const { redirectUri, scopes: wanted, ...rest } = pending;
  const { scopesSupported, advertisesIss, ...client } = service;
  const isOffered = scopesSupported?.includes('offline_access') === true;
  const scopes = [...new Set([...wanted, ...(isOffered ? ['offline_access'] : [])])];
  const state = randomBytes(24).toString('base64url');
  const verifier = openid.randomPKCECodeVerifier();
  const record: PendingAuthorization = {
    ...rest,
    upstream: upstream.id,
    verifier,
    service: client,
    advertisesIss,
    scopes,
  };
  await store.set(pendingKey(state), record, LIFETIME_SECONDS);
  const url = new URL(service.authorizationEndpoint);
  const parameters = {
    ...impliedParameters(service),
    ...upstream.credential.authorizeParams,
    response_type: 'code',
    client_id: service.clientId,
    redirect_uri: redirectUri,
    ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
    state,
    code_challenge: await openid.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(service.resource === undefined ? {} : { resource: service.resource }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** Consumes nothing. */
export async function findPendingAuthorization(
  store: Store,
  state: string,
): Promise<PendingAuthorization | undefined> {
  return (await store.get<PendingAuthorization>(pendingKey(state)))?.value;
}

/** Gives it to exactly one caller. */
export async function takePendingAuthorization(
  store: Store,
  state: string,
): Promise<PendingAuthorization | undefined> {
  return store.take<PendingAuthorization>(pendingKey(state));
}

/** What the service answered in the browser, if it is a refusal. Codes as the service wrote them, at most 64 characters. */
export function refusalIn(query: URLSearchParams): string | undefined {
  const error = query.get('error');
  if (error === null) return undefined;
  return /^[\w.-]{1,64}$/.test(error) ? error : 'invalid_response';
}

/** The four cases of `iss` (MCP 2026-07-28): absent is an error only where it is advertised; a different one always is. */
export function isFromService(query: URLSearchParams, pending: PendingAuthorization): boolean {
  const iss = query.get('iss');
  if (iss === null) return !pending.advertisesIss;
  const { issuer, authorizationEndpoint } = pending.service;
  if (issuer !== undefined) return isSameService(iss, issuer);
  // Its name is not known without metadata. It is no other one if the browser was sent there.
  return URL.parse(iss)?.origin === new URL(authorizationEndpoint).origin;
}

/** Exchanges the code. Rejects with a ServiceFault. */
export async function exchangeServiceCode(
  { code, redirectUri }: { code: string; redirectUri: string },
  pending: PendingAuthorization,
  { secret, network, now }: { secret: string | undefined; network: ServiceNetwork; now: number },
): Promise<Tokens & Pick<Credential, 'name' | 'subject'>> {
  let answer: Record<string, unknown> = {};
  const config = openidConfiguration(pending.service, secret, network, async (response) => {
    answer = membersOfAnswer(await response.text()) ?? {};
  });
  const { resource } = pending.service;
  try {
    await openid.genericGrantRequest(config, 'authorization_code', {
      code,
      redirect_uri: redirectUri,
      code_verifier: pending.verifier,
      ...(resource === undefined ? {} : { resource }),
    });
  } catch (error) {
    throw asServiceFault(error);
  }
  return {
    ...tokensIn(answer, now),
    scopes: scopesIn(answer) ?? pending.scopes,
    ...accountIn(answer),
  };
}

/** Without the error's own text, which may contain the token. */
function asServiceFault(error: unknown): ServiceFault {
  if (error instanceof ServiceFault) return error;
  const code = errorCodeOf(error);
  if (code === undefined) return new ServiceFault('the service gave no valid answer');
  const isPermanent = isClientRefused(code) || code === 'invalid_target';
  return new ServiceFault(`the service answered ${code}`, { isPermanent, code });
}

export function errorCodeOf(error: unknown): string | undefined {
  if (!(error instanceof openid.ResponseBodyError)) return undefined;
  return /^[\w.-]{1,64}$/.test(error.error) ? error.error : 'invalid_response';
}

/** Ten years. A date must be left that can be shown. */
const MAX_LIFETIME_SECONDS = 3650 * 86_400;

export function tokensIn(
  answer: Record<string, unknown>,
  now: number,
): Pick<Tokens, 'token' | 'expiresAt' | 'refreshToken'> {
  const { access_token: token, refresh_token: refreshToken, expires_in: lifetime } = answer;
  if (typeof token !== 'string' || !isHeaderSafe(token))
    throw new ServiceFault('the service sent no token that can be used');
  return {
    token,
    ...(typeof lifetime === 'number'
      ? { expiresAt: now + Math.min(lifetime, MAX_LIFETIME_SECONDS) }
      : {}),
    ...(typeof refreshToken === 'string' ? { refreshToken } : {}),
  };
}

/** Undefined if the answer says nothing about scopes: then those that were asked for are granted (RFC 6749 section 5.1). */
export function scopesIn({ scope }: Record<string, unknown>): string[] | undefined {
  return typeof scope === 'string' ? scope.split(' ').filter(Boolean) : undefined;
}

const MAX_TOKEN_LENGTH = 16_384;

/** RFC 9110 section 5.5, without spaces. */
export function isHeaderSafe(token: string): boolean {
  return token.length <= MAX_TOKEN_LENGTH && /^[\x21-\x7e]+$/.test(token);
}

const MAX_NAME_LENGTH = 120;
const MAX_SUBJECT_LENGTH = 1000;

/**
 * The account as the service names it, and what identifies it there. The ID token is not verified, because it comes from the service itself and
 * decides nothing but whether an account is the same as before.
 */
function accountIn(answer: Record<string, unknown>): Pick<Credential, 'name' | 'subject'> {
  const idToken = answer['gatehouse_id_token'];
  const claims = typeof idToken === 'string' ? claimsIn(idToken) : {};
  const owner = membersOf(membersOf(answer['owner'])['user']);
  const name = accountNameIn(answer, { claims, owner });
  const subject = [claims['sub'], owner['id']].find(
    (id) => typeof id === 'string' && id !== '' && id.length <= MAX_SUBJECT_LENGTH,
  );
  return {
    ...(name === undefined ? {} : { name }),
    ...(typeof subject === 'string' ? { subject } : {}),
  };
}

function accountNameIn(
  answer: Record<string, unknown>,
  { claims, owner }: Record<'claims' | 'owner', Record<string, unknown>>,
): string | undefined {
  const candidates = [
    claims['email'],
    claims['preferred_username'],
    membersOf(owner['person'])['email'],
    owner['name'],
    answer['workspace_name'],
    claims['name'],
  ];
  const found = candidates.find((name) => typeof name === 'string' && name.trim() !== '');
  return typeof found === 'string'
    ? found.replace(/\p{C}/gu, '').slice(0, MAX_NAME_LENGTH)
    : undefined;
}

function claimsIn(jwt: string): Record<string, unknown> {
  try {
    return membersOf(JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString()));
  } catch {
    return {};
  }
}
