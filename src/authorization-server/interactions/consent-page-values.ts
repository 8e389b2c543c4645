// Values of the views `consent` and `no-access` (types: pages/values.ts).
import { connectLink } from '../../connectors/connect-link.ts';
import type { ViewValues } from '../../pages/pages.ts';
import { isLoopbackRedirect, redirectDestination } from '../engine/redirect-uris.ts';
import { ACCOUNT_PATH } from './account-session.ts';
import type { ConsentOptions } from './consent.ts';
import { type IdentityProviders, providerName } from '../../identity-providers/provider.ts';
import type { ConsentRequest } from './consent-request.ts';

type Form = { action: string; token: string };

export function consentValues(
  options: Pick<
    ConsentOptions,
    | 'authUrl'
    | 'resourceUrl'
    | 'stayConnected'
    | 'identityProviders'
    | 'lifetimes'
    | 'grantLifetime'
  >,
  request: ConsentRequest,
  { action, token, changed }: Form & { changed: boolean },
): ViewValues['consent'] {
  const { client, redirectUri, connector, levels, preselected, requestsOfflineAccess } = request;
  const offered = options.stayConnected === 'offered';
  const lifetime = options.grantLifetime;
  return {
    action,
    token,
    client: clientValues(client),
    redirect: { destination: redirectDestination(redirectUri), kind: redirectKind(redirectUri) },
    connector: connectorValues(options, connector),
    levels: levels.map((level) => ({ level, selected: level === preselected })),
    account: accountValues(options, request.account),
    ...(offered ? { stay: { checked: true, lifetime } } : {}),
    ...(!offered && requestsOfflineAccess ? { renewableFor: lifetime } : {}),
    accessLifetime: options.lifetimes.accessToken,
    accountPage: options.authUrl + ACCOUNT_PATH,
    changed,
  };
}

export function refusalValues(
  options: Pick<ConsentOptions, 'resourceUrl' | 'identityProviders'>,
  { account, connector }: ConsentRequest,
  { action, token, reason }: Form & { reason: 'not-entitled' | 'used-up' },
): ViewValues['no-access'] {
  return {
    action,
    token,
    reason,
    account: accountValues(options, account),
    connector: connectorValues(options, connector),
  };
}

function connectorValues(
  { resourceUrl }: { resourceUrl: string },
  { id, name }: ConsentRequest['connector'],
) {
  return { name, link: connectLink(resourceUrl, id) };
}

/** Loopback and private-use schemes end on this computer, where any program may listen (RFC 8252 section 8). */
function redirectKind(redirectUri: string): ViewValues['consent']['redirect']['kind'] {
  if (isLoopbackRedirect(redirectUri)) return 'this-computer';
  return /^https?:/.test(redirectUri) ? 'elsewhere' : 'app';
}

export function accountValues(
  { identityProviders }: { identityProviders: IdentityProviders },
  account: ConsentRequest['account'],
): ViewValues['consent']['account'] {
  const provider = providerName(identityProviders, account);
  return {
    name: account.name,
    ...(provider === undefined ? {} : { provider }),
    ...(account.email === undefined
      ? {}
      : { [account.emailVerified ? 'email' : 'unverifiedEmail']: account.email }),
  };
}

function clientValues({
  id,
  name,
  kind,
}: ConsentRequest['client']): ViewValues['consent']['client'] {
  return kind === 'metadata-document' ? { name, kind, host: new URL(id).host } : { name, kind };
}
