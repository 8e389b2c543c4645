// Gatehouse as an OAuth client of one identity provider: its configuration and the code exchange (RFC 6749 section 4.1.3, RFC 9207).
import * as openid from 'openid-client';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { mayBeOutdated, readProviderError, toHttpError } from './errors.ts';
import { fetchFromProvider } from './fetch.ts';

export const TIMEOUT_SECONDS = 5;

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
  /** Reads the discovery document again. Absent if there is none. */
  reread?: (failed: openid.Configuration) => Promise<openid.Configuration | undefined>;
};

/** `query` is the query of the callback URL. Rejects with an HttpError. */
export async function exchangeCode(
  { settings, callbackUrl, config, reread }: ProviderClient,
  query: string,
  checks: openid.AuthorizationCodeGrantChecks,
): Promise<Tokens> {
  const known = await config();
  try {
    return await requestWhereItIs('token_endpoint', known, reread, (client) =>
      openid.authorizationCodeGrant(client, new URL(callbackUrl + query), checks),
    );
  } catch (cause) {
    const error = await readProviderError(cause, settings);
    const isFromBrowser = cause instanceof openid.AuthorizationResponseError;
    throw toHttpError(settings, error, { cause, isFromBrowser, server: known.serverMetadata() });
  }
}

/** Sends the request again if it failed because the endpoint has moved. */
export function requestWhereItIs<Response>(
  endpoint: 'token_endpoint' | 'userinfo_endpoint',
  known: openid.Configuration,
  reread: ProviderClient['reread'],
  request: (client: openid.Configuration) => Promise<Response>,
): Promise<Response> {
  const addressOf = (client: openid.Configuration) => client.serverMetadata()[endpoint];
  return request(known).catch(async (cause: unknown) => {
    const current = mayBeOutdated(cause) ? await reread?.(known) : undefined;
    if (current && addressOf(current) !== addressOf(known)) return request(current);
    throw cause;
  });
}
