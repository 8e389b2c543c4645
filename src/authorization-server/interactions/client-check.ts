// Whether an identity provider accepts Gatehouse as a client: tried with a code that does not exist (RFC 6749 section 5.2).
import * as openid from 'openid-client';
import type { Logger } from 'pino';
import { HttpError } from '../../http/errors.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';
import { adviceFor, NOT_SET_UP, type ProviderClient } from './code-exchange.ts';
import { isUnknownCode, type ProviderError, readProviderError, textOf } from './provider-error.ts';

/**
 * `accepted`: only the code is refused. `refused`: nobody can sign in. `unclear`: the provider's answer fits both. `unavailable`: it does
 * not answer as it should at present. `said` is its answer, with its own error code; `advice` is for the operator.
 */
export type ClientTrial = {
  result: 'accepted' | 'refused' | 'unclear' | 'unavailable';
  said: string;
  advice: string;
};

const MADE_UP_CODE = 'gatehouse-checks-its-client';
const REFUSALS = [
  'application_suspended',
  'incorrect_client_credentials',
  'invalid_client',
  'invalid_redirect_uri',
  'redirect_uri_mismatch',
  'unauthorized_client',
  'unsupported_grant_type',
];
/** Some providers answer `invalid_request` to a client without a secret, and say so in the description only. */
const LACKS_AUTHENTICATION = /secret|assertion|credential|client.?auth/i;

const UNAVAILABLE_ADVICE =
  'check that the identity provider is up, and that this machine may connect to it';

export async function tryClient(client: ProviderClient): Promise<ClientTrial> {
  const { settings } = client;
  try {
    await requestTokens(client, await client.config());
    return { result: 'unclear', said: 'tokens for a code that does not exist', advice: '' };
  } catch (cause) {
    if (cause instanceof HttpError) return withoutMetadata(cause);
    const error = await readProviderError(cause, settings);
    const result = resultOf(error);
    const advice = result === 'unavailable' ? UNAVAILABLE_ADVICE : adviceFor(settings, error);
    return { result, said: textOf(error), advice };
  }
}

async function requestTokens(
  { callbackUrl, settings }: ProviderClient,
  config: openid.Configuration,
): Promise<void> {
  const state = openid.randomState();
  const query = new URLSearchParams({ code: MADE_UP_CODE, state, iss: settings.issuer });
  await openid.authorizationCodeGrant(config, new URL(`${callbackUrl}?${query}`), {
    expectedState: state,
    pkceCodeVerifier: openid.randomPKCECodeVerifier(),
  });
}

function withoutMetadata({ about, cause }: HttpError): ClientTrial {
  return {
    result: about === NOT_SET_UP ? 'refused' : 'unavailable',
    said: cause instanceof Error ? cause.message : 'no answer',
    advice: 'check the issuer, and that this machine may connect to it',
  };
}

function resultOf(error: ProviderError): ClientTrial['result'] {
  const { kind, code = '', description = '', status } = error;
  if (isUnknownCode(error)) return 'accepted';
  if (kind === 'unavailable') return 'unavailable';
  const isRefused =
    status === 401 ||
    hasNoEndpoint(status) ||
    REFUSALS.includes(code) ||
    (code === 'invalid_request' && LACKS_AUTHENTICATION.test(description));
  return isRefused ? 'refused' : 'unclear';
}

/** Redirects are not followed. */
function hasNoEndpoint(status = 0): boolean {
  return (status >= 300 && status < 400) || status === 404 || status === 405;
}

/** `isStopped` is asked before anything is logged. */
export type ClientCheck = {
  settings: readonly IdentityProviderSettings[];
  open: (settings: IdentityProviderSettings) => { tryClient: () => Promise<ClientTrial> };
  logger: Logger;
  isStopped: () => boolean;
};

/** Logs one warning for each provider at which nobody can sign in. The embedded one starts with us and knows us. */
export async function checkClients({
  settings,
  open,
  logger,
  isStopped,
}: ClientCheck): Promise<void> {
  const tried = settings.filter(({ embedded }) => !embedded);
  await Promise.all(
    tried.map(async (provider) => {
      const { result, said, advice } = await open(provider).tryClient();
      if (isStopped() || result === 'accepted' || result === 'unclear') return;
      const details = { what: provider.issuer, reason: said, remedy: advice };
      if (result === 'refused')
        logger.warn(details, 'the identity provider refuses Gatehouse: nobody can sign in there');
      else logger.warn(details, 'the identity provider does not answer as it should');
    }),
  );
}
