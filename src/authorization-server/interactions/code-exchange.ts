// A code of an identity provider made into its tokens, and its errors into ours (RFC 6749 section 4.1.3, RFC 9207).
import * as openid from 'openid-client';
import { HttpError, unavailable } from '../../http/errors.ts';
import { fetchFromProvider } from '../engine/provider-fetch.ts';

/** Seconds. */
export const TIMEOUT = 5;
/** What the page is about when the provider is what fails. */
export const UNAVAILABLE = 'sign_in_unavailable';

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

export async function exchangeCode(
  config: openid.Configuration,
  callback: URL,
  checks: openid.AuthorizationCodeGrantChecks,
): Promise<Tokens> {
  try {
    return await openid.authorizationCodeGrant(config, callback, checks);
  } catch (cause) {
    if (cause instanceof openid.AuthorizationResponseError || isUnknownCode(cause)) {
      throw new HttpError(
        400,
        'access_denied',
        'the sign-in was not completed at the identity provider',
        { cause, about: 'sign_in_stopped' },
      );
    }
    if (cause instanceof openid.ClientError && !isFault(cause))
      throw notTrusted('what the identity provider answered cannot be trusted', cause);
    throw unavailable(cause, UNAVAILABLE);
  }
}

/** Too old, used already, or made up by whoever came back with it. */
function isUnknownCode(cause: unknown): boolean {
  if (cause instanceof openid.ResponseBodyError) return cause.error === 'invalid_grant';
  return (
    cause instanceof openid.ClientError && bodyBehind(cause)?.error === 'bad_verification_code'
  );
}

/** GitHub answers 200 when it refuses, which is a malformed answer to the library. */
function bodyBehind({ cause }: openid.ClientError): { error?: unknown } | undefined {
  const { cause: answer } = (cause ?? {}) as { cause?: { body?: { error?: unknown } } };
  return answer?.body;
}

/** The provider was too slow, or answered that something is wrong on its side. */
function isFault({ code, cause }: openid.ClientError): boolean {
  return code === 'OAUTH_TIMEOUT' || (cause instanceof Response && cause.status >= 500);
}

export function notTrusted(message: string, cause?: unknown): HttpError {
  return new HttpError(400, 'access_denied', message, { cause, about: 'sign_in_not_trusted' });
}
