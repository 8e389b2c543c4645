// Checks whether an identity provider accepts Gatehouse as a client, with an invalid code (RFC 6749 section 5.2).
import * as openid from 'openid-client';
import { rootMessage } from '../error-causes.ts';
import { HttpError } from '../http/errors.ts';
import { tlsFault } from '../tls-errors.ts';
import {
  adviceFor,
  describeFailure,
  isClientRejected,
  isInvalidCode,
  NOT_SET_UP,
  type ProviderError,
  readProviderError,
} from './errors.ts';
import type { ProviderClient } from './oauth-client.ts';

/**
 * `accepted`: only the code is rejected. `refused`: the client is rejected, so nobody can sign in. `unclear`: the response fits both.
 * `unavailable`: the provider is unreachable or failing. `response` describes the provider's response; `advice` is for the operator.
 */
export type ClientCheck = {
  result: 'accepted' | 'refused' | 'unclear' | 'unavailable';
  response: string;
  advice: string;
};

const INVALID_CODE = 'gatehouse-checks-its-client';

const UNAVAILABLE_ADVICE =
  'check that the identity provider is up, and that this machine may connect to it';

export async function checkClient(client: ProviderClient): Promise<ClientCheck> {
  const { settings } = client;
  let server: openid.ServerMetadata | undefined;
  try {
    const config = await client.config();
    server = config.serverMetadata();
    await requestTokens(client, config);
    return { result: 'unclear', response: 'tokens for an invalid code', advice: '' };
  } catch (cause) {
    if (cause instanceof HttpError) return discoveryFailed(cause);
    const error = await readProviderError(cause, settings);
    const result = resultOf(error);
    const fault = tlsFault(cause);
    if (fault) return { result, response: `it ${fault.what}`, advice: fault.remedy };
    const advice =
      result === 'unavailable' ? UNAVAILABLE_ADVICE : adviceFor(settings, error, server);
    return { result, response: describeFailure(error, cause), advice };
  }
}

async function requestTokens(
  { callbackUrl, settings }: ProviderClient,
  config: openid.Configuration,
): Promise<void> {
  const state = openid.randomState();
  const query = new URLSearchParams({
    code: INVALID_CODE,
    state,
    iss: config.serverMetadata().issuer,
  });
  await openid.authorizationCodeGrant(config, new URL(`${callbackUrl}?${query}`), {
    expectedState: state,
    ...(settings.pkce ? { pkceCodeVerifier: openid.randomPKCECodeVerifier() } : {}),
  });
}

function discoveryFailed({ about, cause }: HttpError): ClientCheck {
  const fault = tlsFault(cause);
  if (fault) return { result: 'unavailable', response: `it ${fault.what}`, advice: fault.remedy };
  return {
    result: about === NOT_SET_UP ? 'refused' : 'unavailable',
    response: rootMessage(cause),
    advice: 'check the issuer, and that this machine may connect to it',
  };
}

function resultOf(error: ProviderError): ClientCheck['result'] {
  if (isInvalidCode(error)) return 'accepted';
  if (error.kind === 'unavailable') return 'unavailable';
  return isClientRejected(error) ? 'refused' : 'unclear';
}
