// A code of an identity provider made into its tokens, and its errors into ours (RFC 6749 section 4.1.3, RFC 9207).
import * as openid from 'openid-client';
import { HttpError, unavailable } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { fetchFromProvider } from '../engine/provider-fetch.ts';
import { type ProviderError, readProviderError, textOf } from './provider-error.ts';

/** Seconds. */
export const TIMEOUT = 5;
/** What the page is about when the provider is what fails. */
export const UNAVAILABLE = 'sign_in_unavailable';
/** What the page is about when the settings or the registration at the provider are what is wrong. */
export const NOT_SET_UP = 'sign_in_not_set_up';

/** `server` is what is known of the provider; plain http only where the settings have it. */
export function providerClient(
  server: openid.ServerMetadata,
  clientId: string,
  authentication: openid.ClientAuth,
): openid.Configuration {
  const config = new openid.Configuration(server, clientId, undefined, authentication);
  config.timeout = TIMEOUT;
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

/** `query` is that of the callback. */
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
    throw refusalOf(settings, error, { cause, isFromBrowser });
  }
}

function refusalOf(
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
    // The cause of an answer by way of the browser is its query, with the state in it.
    return unavailable(
      error.code === undefined && error.status === undefined ? cause : new Error(reason),
      UNAVAILABLE,
    );
  return notSetUp(`${reason}: ${adviceFor(settings, error)}`, { isFromBrowser });
}

/**
 * `reason` is for the log. What came by way of the browser can be made up there: it is logged as an error all the same, but does not
 * count as a fault of the server.
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

/** What the operator can do about it. */
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
