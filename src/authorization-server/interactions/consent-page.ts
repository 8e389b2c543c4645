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
      thisComputer: isLoopbackRedirect(redirectUri),
    },
    connector: { name: connector.name, link: connectLink(options.resourceUrl, connector.id) },
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
  { account, connector }: ConsentRequest,
  {
    provider,
    action,
    token,
    reason,
  }: Form & { provider: string; reason: 'not-entitled' | 'used-up' },
): ViewValues['no-access'] {
  void reason;
  return {
    action,
    token,
    account: accountValues({ account }, provider),
    connector: { name: connector.name, link: '' },
  };
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
