// Exchanges an identity provider's code for tokens, and maps its errors (RFC 6749 section 4.1.3, RFC 9207).
import * as openid from 'openid-client';
import { HttpError, unavailable } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { fetchFromProvider } from '../engine/provider-fetch.ts';
import { type ProviderError, readProviderError, textOf } from './provider-error.ts';

export const TIMEOUT_SECONDS = 5;
/** Key of the page's texts if the provider is unavailable. */
export const UNAVAILABLE = 'sign_in_unavailable';
/** Key of the page's texts if the settings or the registration at the provider are wrong. */
export const NOT_SET_UP = 'sign_in_not_set_up';

/** Plain HTTP is allowed only if the issuer in the settings uses it. */
export function providerClient(
  server: openid.ServerMetadata,
  clientId: string,
  authentication: openid.ClientAuth,
): openid.Configuration {
  const config = new openid.Configuration(server, clientId, undefined, authentication);
  config.timeout = TIMEOUT_SECONDS;
  config[openid.customFetch] = fetchFromProvider;
  if (server.issuer.startsWith('http:')) openid.allowInsecureRequests(config);
  return config;
}

export type Tokens = Awaited<ReturnType<typeof openid.authorizationCodeGrant>>;

/** Gatehouse as a client of one provider; `config` rejects when the provider's metadata cannot be read. */
export type ProviderClient = {
  settings: IdentityProviderSettings;
  callbackUrl: string;
  config: () => Promise<openid.Configuration>;
};

/** `query` is the query of the callback URL. Rejects with an HttpError. */
export async function exchangeCode(
  { settings, callbackUrl, config }: ProviderClient,
  query: string,
  checks: openid.AuthorizationCodeGrantChecks,
): Promise<Tokens> {
  const known = await config();
  try {
    return await openid.authorizationCodeGrant(known, new URL(callbackUrl + query), checks);
  } catch (cause) {
    const error = await readProviderError(cause, settings);
    const isFromBrowser = cause instanceof openid.AuthorizationResponseError;
    throw toHttpError(settings, error, { cause, isFromBrowser });
  }
}

function toHttpError(
  settings: IdentityProviderSettings,
  error: ProviderError,
  { cause, isFromBrowser }: { cause: unknown; isFromBrowser: boolean },
): HttpError {
  const reason = `the identity provider ${settings.issuer} answered ${textOf(error)}`;
  if (error.kind === 'stopped') {
    const code = /^[a-z_]+$/.test(error.code ?? '') ? ` (${error.code})` : '';
    const message = `the sign-in was not completed at the identity provider${code}`;
    return new HttpError(400, 'access_denied', message, { cause, about: 'sign_in_stopped' });
  }
  if (error.kind === 'untrusted')
    return notTrusted(
      `what the identity provider answered cannot be trusted: ${messageOf(cause)}`,
      cause,
    );
  if (error.kind === 'unavailable')
    // The cause of an authorization error response contains its query, with the state. It is not logged.
    return unavailable(
      error.code === undefined && error.status === undefined ? cause : new Error(reason),
      UNAVAILABLE,
    );
  return notSetUp(`${reason}: ${adviceFor(settings, error)}`, { isFromBrowser });
}

/**
 * `reason` is for the log. A browser can forge an authorization error response, so `isFromBrowser` makes it a 400. Both are logged as
 * errors.
 */
export function notSetUp(
  reason: string,
  { isFromBrowser = false }: { isFromBrowser?: boolean } = {},
): HttpError {
  const message = 'signing in is not set up correctly: tell the person who runs this service';
  return new HttpError(isFromBrowser ? 400 : 500, 'sign_in_not_set_up', message, {
    cause: new Error(reason),
    isLoggedAsError: true,
  });
}

/** Tells the operator which setting to check. */
export function adviceFor(
  { id, listed, kind, clientSecret }: IdentityProviderSettings,
  { code, status }: Pick<ProviderError, 'code' | 'status'>,
): string {
  const setting = listed ? `identityProviders (${id})` : 'identityProvider';
  if (code === 'invalid_scope') return `check scopes of ${setting}`;
  if (/redirect/.test(code ?? ''))
    return `check the redirect addresses that are registered there, and clientId of ${setting}`;
  const isOfSecret = status === 401 || /client|credential/.test(code ?? '');
  const variable = listed ? '' : 'GATEHOUSE_IDENTITY_PROVIDER_SECRET, or ';
  if (clientSecret === undefined && kind === 'openid')
    return `no client secret is set; give the one that is registered there (${variable}clientSecretFile of ${setting})`;
  return isOfSecret
    ? `check clientId and the client secret (${variable}clientSecretFile of ${setting}); the secret may have expired, or the client may be disabled`
    : `compare the registration of this client there with ${setting}: code flow, web application`;
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : 'the response is not valid';
}

export function notTrusted(message: string, cause?: unknown): HttpError {
  return new HttpError(400, 'access_denied', message, { cause, about: 'sign_in_not_trusted' });
}
