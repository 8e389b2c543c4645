// The values of the consent page, in words (contract of the view: http/pages.ts).
import { connectLink } from '../../connectors/connect-link.ts';
import { LEVEL_TEXTS } from '../../http/level-texts.ts';
import type { ViewValues } from '../../http/pages.ts';
import { isLoopbackRedirect, redirectDestination } from '../engine/redirect-uris.ts';
import type { ConsentOptions } from './consent.ts';
import type { ConsentRequest } from './request.ts';

type Form = { action: string; token: string };

export function consentValues(
  options: Pick<
    ConsentOptions,
    'resourceUrl' | 'stayConnected' | 'identityProvider' | 'grantLifetimes' | 'grantLifetime'
  >,
  request: ConsentRequest,
  { action, token, changed }: Form & { changed: boolean },
): ViewValues['consent'] {
  const { client, redirectUri, connector, levels, asksToStay } = request;
  const offered = options.stayConnected === 'offered';
  const lifetime = inWords(options.grantLifetime);
  return {
    action,
    token,
    client: askingClient(client),
    redirect: {
      destination: redirectDestination(redirectUri),
      thisComputer: staysOnThisComputer(redirectUri),
    },
    connector: connectorValues(options, connector),
    levels: levels.map((level) => ({
      level,
      ...LEVEL_TEXTS[level],
      selected: level === levels.at(-1),
    })),
    account: accountValues(request, options.identityProvider.name),
    ...(offered ? { stay: { checked: true, lifetime } } : {}),
    ...(!offered && asksToStay ? { renewableFor: lifetime } : {}),
    accessLifetime: inWords(options.grantLifetimes.accessToken),
    changed,
  };
}

export function noAccessValues(
  options: Pick<ConsentOptions, 'resourceUrl' | 'identityProvider'>,
  { account, connector }: ConsentRequest,
  { action, token, reason }: Form & { reason: 'not-entitled' | 'used-up' },
): ViewValues['no-access'] {
  return {
    action,
    token,
    reason,
    account: accountValues({ account }, options.identityProvider.name),
    connector: connectorValues(options, connector),
  };
}

function connectorValues(
  { resourceUrl }: { resourceUrl: string },
  { id, name }: ConsentRequest['connector'],
) {
  return { name, link: connectLink(resourceUrl, id) };
}

/** Loopback addresses and the schemes of apps both end on this computer, where any program may be listening. */
function staysOnThisComputer(redirectUri: string): boolean {
  return isLoopbackRedirect(redirectUri) || !/^https?:/.test(redirectUri);
}

function accountValues({ account }: Pick<ConsentRequest, 'account'>, provider: string) {
  return {
    name: account.name,
    provider,
    ...(account.email === undefined ? {} : { email: account.email }),
  };
}

function askingClient({
  id,
  name,
  kind,
}: ConsentRequest['client']): ViewValues['consent']['client'] {
  return kind === 'metadata-document' ? { name, kind, host: new URL(id).host } : { name, kind };
}

const UNITS: [string, number][] = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** A duration in the largest unit that divides it: "90 days", "1 hour". */
export function inWords(seconds: number): string {
  const [unit, size] = UNITS.find(
    ([, candidate]) => seconds % candidate === 0 && seconds >= candidate,
  ) ?? ['second', 1];
  const count = seconds / size;
  return `${count} ${unit}${count === 1 ? '' : 's'}`;
}
