// Validates logout tokens (OpenID Connect Back-Channel Logout 1.0 sections 2.4 and 2.6).
import { createRemoteJWKSet, customFetch, type errors, type JWTPayload, jwtVerify } from 'jose';
import { HttpError, unavailable } from '../http/errors.ts';
import { isObject } from '../json-values.ts';
import { SIGNATURE_ALGORITHMS } from '../keys/assertion-keys.ts';
import { isKeySetError } from '../keys/remote-keys.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { isSameIssuer } from '../settings/value-types.ts';
import type { Discovery } from './discovery.ts';
import { fetchFromProvider } from './fetch.ts';
import { TIMEOUT_SECONDS } from './oauth-client.ts';

/** The address to register at a provider; those of a list append their id. */
export const LOGOUT_PATH = '/backchannel-logout';

/** At least one of `subject` and `sid` is present. `expiresAt` is in seconds since the epoch; the token is rejected from then on. */
export type LogoutToken = {
  id: string;
  issuer: string;
  expiresAt: number;
  /** All sessions of this person. */
  subject?: string;
  /** One session at the provider. */
  sid?: string;
};

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
/** Older tokens have the general type, or none. */
const TYPES = [undefined, 'jwt', 'logout+jwt', 'application/logout+jwt'];
const MAX_CLOCK_SKEW_SECONDS = 60;
const MAX_AGE_SECONDS = 3600;
const MAX_ID_LENGTH = 512;
/** Limits the fetches that made-up key ids cause. */
const UNKNOWN_KEY_COOLDOWN_MS = 10_000;

/** The result rejects with 400, or 503 if the provider's metadata or keys cannot be fetched. */
export function logoutTokenVerifier(
  { issuer, clientId }: Pick<IdentityProviderSettings, 'issuer' | 'clientId'>,
  { config, reread }: Discovery,
): (token: string, now: number) => Promise<LogoutToken> {
  let keys: { uri: string; set: ReturnType<typeof createRemoteJWKSet> } | undefined;
  const keySet = async () => {
    const { jwks_uri: uri = '' } = (await config()).serverMetadata();
    if (keys?.uri !== uri) {
      const set = createRemoteJWKSet(new URL(uri), {
        timeoutDuration: TIMEOUT_SECONDS * 1000,
        cooldownDuration: UNKNOWN_KEY_COOLDOWN_MS,
        [customFetch]: fetchFromProvider,
      });
      keys = { uri, set };
    }
    return keys.set;
  };
  return async function verifyLogoutToken(token, now) {
    const verified = await jwtVerify(token, async (...key) => (await keySet())(...key), {
      audience: clientId,
      algorithms: [...SIGNATURE_ALGORITHMS],
      requiredClaims: ['iat', 'exp'],
      maxTokenAge: MAX_AGE_SECONDS,
      clockTolerance: MAX_CLOCK_SKEW_SECONDS,
      currentDate: new Date(now * 1000),
    }).catch(async (error: unknown) => {
      if (isKeySetError(error)) {
        await reread(await config());
        throw unavailable(error);
      }
      throw invalid((error as errors.JOSEError).message);
    });
    const { typ } = verified.protectedHeader;
    if (!TYPES.includes(typ?.toLowerCase())) throw invalid('typ must be logout+jwt');
    return logoutIn(verified.payload, issuer);
  };
}

function logoutIn(claims: JWTPayload & { events?: unknown; sid?: unknown }, issuer: string) {
  const { iss = '', jti, sub, sid, events, iat = 0, exp = 0 } = claims;
  const event: unknown = isObject(events) ? events[EVENT] : undefined;
  const refusals: [isWrong: boolean, reason: string][] = [
    [!isSameIssuer(iss, issuer), 'it is from another issuer'],
    [!isObject(event), 'events must have the back-channel logout event'],
    ['nonce' in claims, 'it must not have a nonce'],
    [!isSessionId(jti), 'jti is missing'],
    [sub === undefined && sid === undefined, 'it needs sub or sid'],
    [sub !== undefined && !isSessionId(sub), 'sub is not an identifier'],
    [sid !== undefined && !isSessionId(sid), 'sid is not an identifier'],
  ];
  const refusal = refusals.find(([isWrong]) => isWrong);
  if (refusal) throw invalid(refusal[1]);
  return {
    id: String(jti),
    issuer: iss,
    expiresAt: Math.min(exp, iat + MAX_AGE_SECONDS) + MAX_CLOCK_SKEW_SECONDS,
    ...(sub === undefined ? {} : { subject: sub }),
    ...(sid === undefined ? {} : { sid: String(sid) }),
  };
}

/** Whether the value can be `sid`, and is short enough to be stored. */
export function isSessionId(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_LENGTH;
}

function invalid(reason: string): HttpError {
  return new HttpError(400, 'invalid_request', `the logout token is not valid: ${reason}`);
}
