// What the consent page and the page of a refused person display.
import { connectLink } from '../links/connect-link.ts';
import { levelWithoutDpop, requiresDpop } from '../dpop/required-levels.ts';
import { clientSubnet } from '../http/client-subnet.ts';
import { withOwnEmail } from '../people/domain-owner.ts';
import { type IdentityProviders, providerName } from '../sign-in/provider.ts';
import type { ViewValues } from '../pages/pages.ts';
import {
  highestLevel,
  isRecorded,
  type Level,
  preselectedLevel,
  recordsArguments,
} from '../permission-levels.ts';
import { formattedUserCode, type WaitingDevice } from '../oauth/engine/device-codes.ts';
import { isLoopbackRedirect, redirectDestination } from '../oauth/engine/redirect-uris.ts';
import { ACCOUNT_PATH } from './account-session.ts';
import {
  type InteractionContext,
  CONTENT_PARTS,
  type ContentPart,
  type StepUpFailure,
} from './interaction.ts';
import { learnedValues } from './learned.ts';
import type { ConsentRequest } from './load.ts';

/** On the line of a level. All are listed when it is opened. */
const SHOWN_TOOLS = 3;

/** Per level, because an upstream may have thousands, and the page has up to eight levels. */
const LISTED_TOOLS = 200;

export function isContentPart(failure: StepUpFailure): failure is ContentPart {
  return (CONTENT_PARTS as readonly string[]).includes(failure);
}

type Form = { action: string; token: string };

export function consentValues(
  context: InteractionContext,
  request: ConsentRequest,
  {
    action,
    token,
    failure,
    address,
  }: Form & { failure: StepUpFailure | undefined; address: string },
): ViewValues['consent'] {
  const {
    client,
    raise,
    redirectUri,
    device,
    connector,
    levels,
    toolsNeedAccount,
    learned,
    requestsOfflineAccess,
    namesKey,
  } = request;
  const selected = selectedLevel(context.settings, request, failure);
  const offered = context.settings.consent.stayConnected === 'offered' && !raise;
  const recordsUse = context.settings.audit.calls === 'all';
  const isWithArguments = (level: Level) =>
    (recordsUse || isRecorded(context.settings.levels, level)) &&
    recordsArguments(context.settings.levels, level);
  const describesSample = context.settings.upstreams.length === 0;
  const lifetime = context.settings.lifetimes.refreshTokenAbsolute;
  const otherwise = levelWithoutDpop(context.settings, highestLevel(context.settings.levels));
  return {
    action,
    token,
    client: clientValues(client),
    ...(raise
      ? { raise: { level: raise.level, since: raise.since } }
      : {
          redirect:
            redirectUri === undefined
              ? deviceValues(device, address)
              : redirectValues(client, redirectUri),
        }),
    connector: connectorValues(context.settings, connector),
    levels: levels.map(({ level, tools, needsSignIn }) => ({
      level,
      selected: level === selected,
      ...(isRecorded(context.settings.levels, level) ? { recorded: true as const } : {}),
      ...(isWithArguments(level) ? { recordsArguments: true as const } : {}),
      ...(!namesKey && requiresDpop(context.settings, level)
        ? { needsKey: otherwise === undefined ? {} : { otherwise } }
        : {}),
      ...(tools ? { tools: toolValues(tools) } : {}),
      ...(needsSignIn ? { signsIn: true as const } : {}),
    })),
    account: accountValues(context.site.identityProviders, request.account),
    ...(learned ? { learned: learnedValues(learned) } : {}),
    ...(offered ? { stay: { checked: true, lifetime } } : {}),
    ...(!offered && requestsOfflineAccess ? { renewableFor: lifetime } : {}),
    accessLifetime: context.engine.grantLifetimes.accessToken,
    accountPage: context.settings.authUrl + ACCOUNT_PATH,
    describesSample,
    ...(toolsNeedAccount ? { toolsNeedAccount: true as const } : {}),
    recordsUse,
    ...failureValues(failure),
  };
}

function failureValues(
  failure: StepUpFailure | undefined,
): Pick<ViewValues['consent'], 'changed' | 'stepUp'> {
  if (failure === undefined) return {};
  return isContentPart(failure) ? { changed: failure } : { stepUp: STEP_UP_TEXTS[failure] };
}

const STEP_UP_TEXTS = {
  auth_time_missing: 'time',
  auth_time_too_old: 'time',
  acr_not_accepted: 'class',
  not_completed: 'stopped',
} as const satisfies Record<
  Exclude<StepUpFailure, ContentPart>,
  NonNullable<ViewValues['consent']['stepUp']>
>;

/** After a sign-in that was not enough, a level that needs none is preselected, if there is one. */
function selectedLevel(
  { levels: all }: InteractionContext['settings'],
  { connector, levels, preselected }: ConsentRequest,
  failure: StepUpFailure | undefined,
): Level | undefined {
  const lower = levels.filter(({ needsSignIn }) => !needsSignIn).map(({ level }) => level);
  return failure === undefined || isContentPart(failure) || lower.length === 0
    ? preselected
    : preselectedLevel(all, lower, connector.suggestedLevel ?? connector.level);
}

function toolValues(tools: readonly string[]) {
  return {
    shown: tools.slice(0, SHOWN_TOOLS),
    rest: tools.slice(SHOWN_TOOLS, LISTED_TOOLS),
    unlisted: Math.max(tools.length - LISTED_TOOLS, 0),
  };
}

export function refusalValues(
  context: InteractionContext,
  { account, connector }: ConsentRequest,
  {
    action,
    token,
    reason,
    reference,
  }: Form & Pick<ViewValues['no-access'], 'reason' | 'reference'>,
): ViewValues['no-access'] {
  const { identityProviders } = context.site;
  const { email, emailVerified } = account;
  // Of an address in the domain of another provider, the page would blame the wrong one.
  const isOwn = withOwnEmail(identityProviders, account, account) === account;
  return {
    action,
    token,
    reason,
    reference,
    ...(account.groupsOmitted ? { groupsOmitted: true } : {}),
    account: {
      ...accountValues(identityProviders, account),
      ...(isOwn && email !== undefined && !emailVerified ? { unverifiedEmail: email } : {}),
    },
    connector: connectorValues(context.settings, connector),
  };
}

function connectorValues(
  { resourceUrl }: { resourceUrl: string },
  { id, name }: ConsentRequest['connector'],
) {
  return { name, link: connectLink(resourceUrl, id) };
}

/** Loopback and private-use schemes end on this computer, where any program may listen (RFC 8252 section 8). */
function redirectValues(
  client: ConsentRequest['client'],
  redirectUri: string,
): NonNullable<ViewValues['consent']['redirect']> {
  const kind = redirectKind(redirectUri);
  const asking = clientValues(client);
  const isOtherHost =
    kind === 'elsewhere' &&
    asking.kind === 'metadata-document' &&
    !isRelatedHost(new URL(redirectUri).hostname, new URL(`https://${asking.host}`).hostname);
  return {
    destination: redirectDestination(redirectUri),
    kind,
    ...(isOtherHost ? { isOtherHost: true } : {}),
  };
}

/** What the person compares with the device in front of them (RFC 8628 section 5.4). `address` is that of the person's browser. */
function deviceValues(
  device: WaitingDevice | undefined,
  address: string,
): NonNullable<ViewValues['consent']['redirect']> {
  if (!device) throw new Error('the consent page needs a redirect URI or a device');
  const { userCode, iat, deviceInfo } = device.payload;
  const network = clientSubnet(deviceInfo.address);
  return {
    kind: 'device',
    destination: formattedUserCode(userCode),
    startedAt: iat,
    network,
    ...(network === clientSubnet(address) ? {} : { isOtherNetwork: true }),
  };
}

/** Whether one is the other or a subdomain of it. */
function isRelatedHost(first: string, second: string): boolean {
  return first === second || first.endsWith(`.${second}`) || second.endsWith(`.${first}`);
}

function redirectKind(redirectUri: string): 'elsewhere' | 'this-computer' | 'app' {
  if (isLoopbackRedirect(redirectUri)) return 'this-computer';
  return /^https?:/.test(redirectUri) ? 'elsewhere' : 'app';
}

/** Omits an email address that is not verified. */
export function accountValues(
  identityProviders: IdentityProviders,
  account: ConsentRequest['account'],
): ViewValues['consent']['account'] {
  const provider = providerName(identityProviders, account);
  // The settings may have given the domain to another provider since the sign-in.
  const { name, email, emailVerified } = withOwnEmail(identityProviders, account, account);
  return {
    name,
    ...(provider === undefined ? {} : { provider }),
    ...(email !== undefined && emailVerified ? { email } : {}),
  };
}

function clientValues({
  id,
  name,
  kind,
}: ConsentRequest['client']): ViewValues['consent']['client'] {
  return kind === 'metadata-document' ? { name, kind, host: new URL(id).host } : { name, kind };
}
