// Refreshes Gatehouse's own tokens at an identity provider, for rechecks and token exchanges (RFC 6749 section 6).
import { setTimeout as delay } from 'node:timers/promises';
import * as openid from 'openid-client';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { clientFor, copyKeys, type Discovery } from './discovery.ts';
import { isClientRejected, type ProviderError, readProviderError } from './errors.ts';
import { fetchFromProvider } from './fetch.ts';
import type { RecheckRequest } from './provider.ts';

/** Long, because a response that comes too late may have the only valid refresh token. */
const TIMEOUT_SECONDS = 30;
const MAX_KEEP_ATTEMPTS = 10;
const KEEP_RETRY_MS = 1000;

export type RefreshedTokens = Awaited<ReturnType<typeof openid.refreshTokenGrant>>;

/** Refreshes the tokens of a person. Rejects if there is no valid response, or one about another person. */
export async function refreshTokensOf(
  settings: IdentityProviderSettings,
  discovery: Discovery,
  { person, ...request }: RecheckRequest,
): Promise<RefreshedTokens | 'ended' | 'sign-in'> {
  const shared = await discovery.config();
  const config = clientFor(shared, settings, person);
  const tokens = await refreshTokens(settings, config, request).catch(async (error) => {
    await discovery.reread(shared);
    throw error;
  });
  if (typeof tokens === 'string') return tokens;
  copyKeys(config, shared);
  const idToken = tokens.claims();
  if (idToken && (idToken.iss !== person.issuer || idToken.sub !== person.subject))
    throw new Error('the ID token is about another person');
  return tokens;
}

/**
 * Uses the refresh token once. `config` is for this call only. Rejects if there is no valid response. The error repeats nothing of the response,
 * which may contain the token.
 */
async function refreshTokens(
  settings: IdentityProviderSettings,
  config: openid.Configuration,
  { token, keep }: Omit<RecheckRequest, 'person'>,
): Promise<RefreshedTokens | 'ended' | 'sign-in'> {
  const { token_endpoint: endpoint } = config.serverMetadata();
  config.timeout = TIMEOUT_SECONDS;
  config[openid.customFetch] = async (url, options) => {
    const response = await fetchFromProvider(url, options);
    if (url === endpoint && response.ok) await keepSuccessor(response.clone(), token, keep);
    return response;
  };
  try {
    return await openid.refreshTokenGrant(config, token);
  } catch (cause) {
    const error = await readProviderError(cause, settings);
    const refusal = refusalOf(error);
    if (refusal === undefined) throw requestFailed(error.code ?? '', error.status);
    return refusal;
  }
}

/**
 * Kinds of `invalid_grant` that a new sign-in cures: at Microsoft Entra ID a second factor, a sign-in frequency, a consent or a password that has
 * expired, and at Google the session length of a Workspace.
 */
const CURED_BY_SIGN_IN = [
  'additional_action',
  'bad_token',
  'basic_action',
  'consent_required',
  'invalid_rapt',
  'message_only',
  'token_expired',
  'user_password_expired',
];

/** What an error response says about the person. Undefined if it is about the client, the rate or a fault, and so about everybody. */
function refusalOf(error: ProviderError): 'ended' | 'sign-in' | undefined {
  const { kind, code, subcode = '', status = 400 } = error;
  if (kind === 'unavailable' || kind === 'untrusted' || status >= 500) return undefined;
  if (code === 'invalid_grant') return CURED_BY_SIGN_IN.includes(subcode) ? 'sign-in' : 'ended';
  return isClientRejected(error) || code === 'invalid_scope' ? undefined : 'sign-in';
}

/** Without a cause, which may contain the token. */
export class TokenRequestFailed extends Error {
  /** That the provider answered. */
  readonly code: string | undefined;
  constructor(code: string | undefined, answer: string) {
    super(`the token request failed: ${code ?? answer}`);
    this.code = code;
  }
}

function requestFailed(code: string, status: number | undefined): TokenRequestFailed {
  const answer = status === undefined ? 'no valid response' : `HTTP ${status}`;
  return new TokenRequestFailed(/^[a-z_]{1,40}$/.test(code) ? code : undefined, answer);
}

/** Stores the new refresh token before the rest of the response is validated, because the old one may be invalid from now on. */
async function keepSuccessor(
  response: Response,
  used: string,
  keep: RecheckRequest['keep'],
): Promise<void> {
  const body = (await response.json().catch(() => undefined)) as { refresh_token?: unknown };
  const token = body?.refresh_token;
  if (typeof token !== 'string' || token === '' || token === used) return;
  for (let attempt = 1; ; attempt += 1)
    try {
      return await keep(token);
    } catch (error) {
      if (attempt === MAX_KEEP_ATTEMPTS) throw error;
      await delay(KEEP_RETRY_MS);
    }
}
