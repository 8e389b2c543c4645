// The consent page and the decision (RFC 6749 section 4.1.1). An approval is valid only for the content that the page displayed.
import { createHmac } from 'node:crypto';
import type Koa from 'koa';
import { errors } from 'oidc-provider';
import type { Account } from '../../accounts/account.ts';
import { createGrant } from '../../grants/create-grant.ts';
import { findAccount } from '../../accounts/accounts.ts';
import { isSessionRecent } from '../../accounts/recheck.ts';
import { type Access, accessThrough } from '../../accounts/entitlement.ts';
import {
  type Authentication,
  providerOf,
  stepUpFor,
  type StepUpProblem,
  stepUpProblem,
} from '../../accounts/step-up.ts';
import { recordAudit } from '../../audit/audit.ts';
import {
  appVersion,
  type ClientState,
  DEVICE_CODE,
  findClientRefusal,
  findEndedState,
  listWaiting,
} from '../../clients/clients.ts';
import { type App, destinationsOf } from '../../clients/rules.ts';
import { connectLink, connectorIdOf } from '../../connectors/connect-link.ts';
import { type Connector, isUnlimited, isUsable, redeemerOf } from '../../connectors/connector.ts';
import {
  hasUseLeft,
  releaseReservedUse,
  type IsGrantActive,
  acquireUse,
  findConnector,
} from '../../connectors/connectors.ts';
import { denyConnection, narrowConnection } from '../../connections/connections.ts';
import { redemptionDeadline } from '../../grants/grant-lifetime.ts';
import type { ClientSnapshot } from '../../grants/grant-record.ts';
import { endGrant, isGrantActive } from '../../grants/grants.ts';
import { constantTimeEqual } from '../../constant-time.ts';
import { levelWithoutDpop, requiresDpop } from '../../dpop/required-levels.ts';
import { clientSubnet } from '../../http/client-subnet.ts';
import { HttpError } from '../../http/errors.ts';
import { requestContext } from '../../http/request-context.ts';
import { createFormToken, type FormKeys, requireFormToken } from '../../http/form-tokens.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import { type IdentityProviders, providerName } from '../../identity-providers/provider.ts';
import { printable } from '../../printable-text.ts';
import type { ApprovalForm } from '../../identity-providers/login-state.ts';
import { startSignIn, startSignInAt } from '../../identity-providers/sign-in.ts';
import type { ViewValues } from '../../pages/pages.ts';
import {
  highestLevel,
  highestLevelIn,
  isRecorded,
  type Level,
  levelsUpTo,
  lowest,
  OFFLINE_ACCESS,
  preselectedLevel,
} from '../../permission-levels.ts';
import { findUpstream } from '../../settings/upstreams.ts';
import { openedTools } from '../../upstreams/opened-tools.ts';
import { findCatalog } from '../../upstreams/tool-catalog.ts';
import {
  findDevice,
  formattedUserCode,
  isWaiting,
  type WaitingDevice,
} from '../engine/device-codes.ts';
import { isIdentifiedByHost } from '../engine/client-metadata-documents.ts';
import { isLoopbackRedirect, isOwnOrigin, redirectDestination } from '../engine/redirect-uris.ts';
import { ClientWaiting } from '../error-page.ts';
import { ACCOUNT_PATH } from './account-session.ts';
import {
  finishInteraction,
  type Interaction,
  type InteractionContext,
  loginRequestOf,
  type SignInResult,
  signInResult,
  CONTENT_PARTS,
  type ContentPart,
  type StepUpFailure,
} from './interaction.ts';

/** The others are collapsed. */
const SHOWN_TOOLS = 6;
/** Per level, because an upstream may have thousands, and the page has up to eight levels. */
const LISTED_TOOLS = 200;
const MAX_LOGGED_ACR = 200;
/** Between the expiry of a device's code and the end of its reserved use. */
const CODE_MARGIN_SECONDS = 10;

export const DENIED_DESCRIPTION = 'the person denied the connection';
const USED_UP_DESCRIPTION = 'this connect link was used up; ask for a fresh connect link';
const NOT_ENTITLED_DESCRIPTION = 'the person may not use this connect link';

export async function showConsent(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  change?: ContentPart,
): Promise<void> {
  const failure = change ?? signInResult(interaction).stepUpFailure;
  const action = `/interaction/${interaction.uid}`;
  const request = await requireConsentRequest(context, interaction);
  const token = consentToken(
    context.services.keys.forms,
    interaction.uid,
    displayedContent(request),
  );
  const refusal = await findRefusal(context, request);
  if (refusal) {
    const values = refusalValues(context, request, {
      action,
      token,
      reason: refusal.reason,
    });
    return context.services.pages.render(ctx, 'no-access', values, 403);
  }
  const { address } = requestContext(ctx);
  const values = consentValues(context, request, { action, token, failure, address });
  const status = failure === undefined ? 200 : isContentPart(failure) ? 409 : 403;
  return context.services.pages.render(ctx, 'consent', values, status);
}

type Refusal = { reason: ViewValues['no-access']['reason']; description: string };

/** Why the request cannot be approved. Checks for a remaining use without reserving one. */
async function findRefusal(
  context: InteractionContext,
  request: ConsentRequest,
): Promise<Refusal | undefined> {
  if (request.refusal) {
    const reason = request.refusal === 'not_in_audience' ? 'not-in-audience' : 'not-entitled';
    return { reason, description: NOT_ENTITLED_DESCRIPTION };
  }
  const uses = { now: context.services.now(), isActive: activeGrantCheck(context) };
  if (await hasUseLeft(request.connector, holderOfRequest(request), uses)) return undefined;
  return { reason: 'used-up', description: USED_UP_DESCRIPTION };
}

function holderOfRequest({ account, client }: ConsentRequest): string {
  return redeemerOf(account.id, client.id);
}

export async function decideConsent(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  form: Record<string, string>,
): Promise<void> {
  const { forms: formKeys } = context.services.keys;
  const request = await requireConsentRequest(context, interaction);
  const change = requireConsentToken(formKeys, interaction.uid, form.token).changeTo(
    displayedContent(request),
  );
  const refusal = await findRefusal(context, request);
  switch (form.decision) {
    case 'deny':
      return deny(context, ctx, interaction, request, refusal?.description);
    case 'switch':
      return switchAccount(context, ctx, interaction);
    case 'approve':
      if (change || refusal) return showConsent(context, ctx, interaction, change ?? 'levels');
      if (!isSignInRecent(context, request)) return signInAgain(context, ctx, interaction, request);
      return requireOfferedLevel(request, form.level).needsSignIn
        ? startStepUp(context, ctx, interaction, request, form)
        : approve(context, ctx, interaction, request, form);
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

function isSignInRecent(
  { settings, services }: InteractionContext,
  { account }: ConsentRequest,
): boolean {
  return isSessionRecent(settings, account, account.signedInAt, services.now());
}

/** For a page that was open for longer than the identity provider's last answer counts. The person sees it again after the sign-in. */
function signInAgain(
  { settings, site }: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  { account }: ConsentRequest,
): Promise<void> {
  const { parameters, ...loginRequest } = loginRequestOf(interaction);
  const { prompt: _switch, ...others } = parameters;
  const provider = providerOf(settings, account);
  const request = { ...loginRequest, parameters: others };
  return startSignInAt(site, ctx, request, provider?.listed ? provider.id : undefined);
}

/** Redirects to the provider choice instead of rendering it, so that the browser's Back button does not resubmit the form. */
function switchAccount(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> | void {
  const loginRequest = loginRequestOf(interaction);
  return context.site.identityProviders.length > 1
    ? seeOther(ctx, loginRequest.action)
    : startSignIn(context.site, ctx, loginRequest);
}

function requireOfferedLevel({ levels }: ConsentRequest, level: string | undefined): OfferedLevel {
  const offered = levels.find((each) => each.level === level);
  if (offered) return offered;
  throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
}

/** Redirects to the person's identity provider. `continueApproval` approves on return. */
function startStepUp(
  { settings, site }: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  { account }: ConsentRequest,
  { token, level, stay }: ApprovalForm,
): Promise<void> {
  const provider = providerOf(settings, account);
  const { parameters, ...loginRequest } = loginRequestOf(interaction);
  const loginHint = account.email === undefined ? {} : { loginHint: account.email };
  return startSignInAt(
    site,
    ctx,
    {
      ...loginRequest,
      parameters: { ...parameters, ...loginHint, prompt: 'step-up' },
      approval: { token, level, stay },
    },
    provider?.listed ? provider.id : undefined,
  );
}

/**
 * Approves the submitted form after the sign-in that its level needs. Returns why it did not: then nothing is approved, and the person sees the
 * page again.
 */
export async function continueApproval(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  signIn: Required<Pick<SignInResult, 'login' | 'authentication'>>,
  form: ApprovalForm,
): Promise<StepUpFailure | undefined> {
  const { forms } = context.services.keys;
  const request = await requireConsentRequest(context, interaction, signIn);
  const token = requireConsentToken(forms, interaction.uid, form.token);
  const change =
    signIn.login?.accountId === request.account.id
      ? token.changeTo(displayedContent(request))
      : 'account';
  if (change) return change;
  if (await findRefusal(context, request)) return 'levels';
  const { needsSignIn } = requireOfferedLevel(request, form.level);
  if (needsSignIn) {
    await recordStepUpFailure(context, request, needsSignIn, signIn.authentication);
    return needsSignIn;
  }
  await approve(context, ctx, interaction, request, form, signIn);
  return undefined;
}

/** Shows the page again after the identity provider did not complete the sign-in. */
export async function stopApproval(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> {
  const request = await requireConsentRequest(context, interaction);
  await recordStepUpFailure(context, request, 'not_completed');
  const result: SignInResult = { stepUpFailure: 'not_completed' };
  await finishInteraction(context, ctx, interaction, result);
}

async function recordStepUpFailure(
  { services }: InteractionContext,
  { account, client, connector }: ConsentRequest,
  reason: StepUpFailure,
  { acr }: Authentication = {},
): Promise<void> {
  const received = acr === undefined ? {} : { acr: printable(acr, MAX_LOGGED_ACR) };
  services.logger.warn(
    { what: account.providerIssuer ?? account.issuer, reason, ...received },
    'nothing was approved, because the sign-in did not meet stepUp of its identity provider',
  );
  await recordAudit(services, {
    event: 'step_up_failed',
    account: account.id,
    clientId: client.id,
    connector: connector.id,
    outcome: 'refused',
    reason,
  });
}

/** Also ends the grant of an approval of the same interaction, finished or still running. */
async function deny(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  request: ConsentRequest,
  description = DENIED_DESCRIPTION,
): Promise<void> {
  const { client, connector, account } = request;
  const facts = {
    connector: connector.id,
    client: snapshotOf(request),
    clientId: client.id,
    accountId: account.id,
  };
  const { services } = context;
  const grantId = grantIdOf(services.keys.forms, interaction.uid);
  const ttl = Math.ceil(interaction.exp - services.now());
  const isFirst = await denyConnection(services, grantId, facts, ttl);
  if (isFirst) await recordDenial(context, grantId, request);
  await finishDenied(context, ctx, interaction, description);
}

/** Errors are logged and do not fail the request: the denial is already stored. */
async function recordDenial(
  { services }: InteractionContext,
  grantId: string,
  request: ConsentRequest,
): Promise<void> {
  const { client, account, connector, levels } = request;
  const { name, redirectHost } = snapshotOf(request);
  const item = {
    event: 'consent_denied',
    account: account.id,
    clientId: client.id,
    connector: connector.id,
    grantId,
    arguments: { level: levels.at(-1)?.level, client: name, redirectHost },
    outcome: 'denied',
  };
  await recordAudit(services, item).catch((error: unknown) =>
    services.logger.error({ err: error }, 'a denial could not be recorded in the audit log'),
  );
}

function finishDenied(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  description: string,
): Promise<void> {
  return finishInteraction(context, ctx, interaction, {
    error: 'access_denied',
    error_description: description,
  });
}

async function approve(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  request: ConsentRequest,
  form: ApprovalForm,
  signIn: SignInResult = {},
): Promise<void> {
  const { level } = requireOfferedLevel(request, form.level);
  const { settings, services, engine } = context;
  const { store, now } = services;
  const grantId = grantIdOf(services.keys.forms, interaction.uid);
  const reservation = {
    grantId,
    holder: holderOfRequest(request),
    reservedUntil: Math.max(
      now() + redemptionDeadline(engine.grantLifetimes),
      (request.device?.payload.exp ?? 0) + CODE_MARGIN_SECONDS,
    ),
  };
  const uses = { now: now(), isActive: activeGrantCheck(context) };
  const isAcquired =
    isUnlimited(request.connector) ||
    (await acquireUse(store, request.connector.id, reservation, uses));
  if (!isAcquired) {
    return showConsent(context, ctx, interaction, 'connector');
  }
  const stays =
    settings.consent.stayConnected === 'offered'
      ? form.stay === 'on'
      : request.requestsOfflineAccess;
  const scopes = [...levelsUpTo(settings.levels, level), ...(stays ? [OFFLINE_ACCESS] : [])];
  const client = { ...request.client, ...snapshotOf(request) };
  const [isNew] = await Promise.all([
    createGrant(
      {
        store,
        now,
        lifetimes: engine.grantLifetimes,
        grantLifetime: settings.lifetimes.refreshTokenAbsolute,
      },
      grantId,
      { ...request, client, scopes },
    ),
    engine.touchClient(request.client.id, appVersion(request.stated)),
  ]);
  // A previous approval created the grant but did not finish the interaction: this one may only narrow it.
  if (
    !isNew &&
    (await narrowConnection(settings, services, grantId, { level, stays })) === undefined
  ) {
    await releaseReservedUse(store, request.connector.id, grantId);
    return finishDenied(context, ctx, interaction, DENIED_DESCRIPTION);
  }
  // A concurrent revocation or block of the client may have listed its grants before this grant existed.
  const { client: approved, stated } = request;
  const clientState = await findEndedState(store, approved.id, stated);
  if (clientState) {
    const reason = clientState === 'blocked' ? 'client_blocked' : 'client_revoked';
    await endGrant(store, grantId, reason, now());
    await releaseReservedUse(store, request.connector.id, grantId);
    return showConsent(context, ctx, interaction, 'app');
  }
  await finishInteraction(context, ctx, interaction, { ...signIn, consent: { grantId } });
}

/** A device has no redirect URI. */
function snapshotOf({ client, redirectUri }: ConsentRequest): ClientSnapshot {
  const redirectHost = redirectUri === undefined ? '' : redirectDestination(redirectUri);
  return { name: client.name, redirectHost };
}

function activeGrantCheck({ services, engine }: InteractionContext): IsGrantActive {
  const { store, now } = services;
  return (grantId) => isGrantActive(store, grantId, engine.grantLifetimes, now());
}

type OfferedLevel = {
  level: Level;
  /** The titles of its tools, if known. */
  tools: string[] | undefined;
  /** What the sign-in of this authorization lacks for the level, if anything. */
  needsSignIn: StepUpProblem | undefined;
};

type ConsentRequest = {
  client: {
    id: string;
    name: string;
    kind: 'self-registered' | 'metadata-document' | 'pre-registered';
  };
  /** What this request knows of the client; a metadata document may change meanwhile. */
  stated: App;
  /** Undefined for a device. */
  redirectUri: string | undefined;
  device: WaitingDevice | undefined;
  resource: string;
  connector: Connector;
  account: Account;
  /** Levels that may be granted, lowest first; empty if there is a `refusal`. */
  levels: OfferedLevel[];
  /** Why the person has no access to this connector. */
  refusal: Access['refusal'];
  /** The level that the page preselects; undefined if the person must choose. */
  preselected: Level | undefined;
  /** Whether the request has the scope `offline_access`, after the setting `stayConnected` was applied. */
  requestsOfflineAccess: boolean;
  /** Whether the request names the key of its tokens (RFC 9449 section 10). */
  namesKey: boolean;
};

/** Throws if the client, redirect URI, connector or account is no longer valid. */
async function requireConsentRequest(
  context: InteractionContext,
  interaction: Interaction,
  signIn: SignInResult = signInResult(interaction),
): Promise<ConsentRequest> {
  const {
    client_id: clientId,
    redirect_uri: redirectUri,
    resource,
    scope,
    dpop_jkt: dpopKey,
  } = interaction.params as Record<string, string>;
  const device = await requireWaitingDevice(context, interaction);
  const redirect = device ? undefined : String(redirectUri);
  const [{ client, stated }, connector, account] = await Promise.all([
    requireClient(context, interaction, String(clientId), redirect),
    requireConnector(context, String(resource)),
    requireAccount(context, interaction),
  ]);
  const toolsOf = await toolReader(context, connector);
  const { levels: all } = context.settings;
  const access = accessThrough(context.settings, connector, account, 'sign-in');
  const asked = highestLevelIn(all, scope) ?? connector.level;
  const levels = access.refusal
    ? []
    : levelsUpTo(all, lowest(all, asked, connector.level, access.level));
  return {
    client,
    stated,
    redirectUri: redirect,
    device,
    resource: String(resource),
    connector,
    account,
    levels: levels.map((level) => ({
      level,
      tools: toolsOf?.(level),
      needsSignIn: missingFor(context, account, signIn, level),
    })),
    refusal: access.refusal,
    preselected: preselectedLevel(all, levels, connector.suggestedLevel ?? connector.level),
    requestsOfflineAccess: String(scope).split(' ').includes(OFFLINE_ACCESS),
    namesKey: dpopKey !== undefined,
  };
}

/** Undefined if the interaction is of an app in a browser. */
async function requireWaitingDevice(
  { services: { store, now } }: InteractionContext,
  { deviceCode }: Interaction,
): Promise<WaitingDevice | undefined> {
  if (deviceCode === undefined) return undefined;
  const device = await findDevice(store, deviceCode);
  if (device && isWaiting(device, now())) return device;
  throw new HttpError(400, 'device_expired', 'the device code has expired or was already used');
}

/** A sign-in counts only in the authorization for which it was made, and only for the same account. */
function missingFor(
  { settings, services }: InteractionContext,
  account: Account,
  { login, authentication = {} }: SignInResult,
  level: Level,
): StepUpProblem | undefined {
  const stepUp = stepUpFor(settings, account, level);
  const known = login?.accountId === account.id ? authentication : {};
  return stepUp && stepUpProblem(stepUp, known, services.now());
}

/** Returns the titles of the tools that a level opens. Undefined if they are not known, and for the sample, whose levels differ in fields. */
async function toolReader(
  { settings, services: { store, now } }: InteractionContext,
  connector: Connector,
): Promise<((level: Level) => string[]) | undefined> {
  const upstream = findUpstream(settings.upstreams, connector);
  if (!upstream) return undefined;
  const catalog = await findCatalog(store, upstream);
  if (catalog?.seenAt === undefined) return undefined;
  return openedTools(settings.levels, upstream, catalog, now());
}

/** Checks the redirect URI again: the client may have changed since the authorization request. What is checked here must be what is allowed. */
async function requireClient(
  { settings, services, engine }: InteractionContext,
  { session }: Interaction,
  id: string,
  redirectUri: string | undefined,
): Promise<Pick<ConsentRequest, 'client' | 'stated'>> {
  const client = await engine.provider().Client.find(id).catch(rethrowAsInvalidClient);
  if (!client) {
    await refuseEndedClient({ settings, services }, id);
    throw new HttpError(400, 'invalid_client', 'the app is no longer registered');
  }
  const { clientName: name, redirectUris = [] } = client;
  const usesDevice = redirectUri === undefined;
  const stated = { id, ...(name === undefined ? {} : { name }), redirectUris, usesDevice };
  await requireAllowedClient({ settings, services }, stated, session?.accountId);
  if (redirectUri === undefined) {
    if (!client.grantTypeAllowed(DEVICE_CODE))
      throw new HttpError(400, 'invalid_client', 'the app no longer uses devices');
  } else if (
    !client.redirectUriAllowed(redirectUri) ||
    isOwnOrigin(engine.redirectPolicy, redirectUri)
  ) {
    throw new HttpError(400, 'invalid_redirect_uri', 'the app no longer has this redirect URI');
  }
  const isPreRegistered = settings.clients.preRegistered.some((known) => known.id === id);
  const kind = isPreRegistered
    ? 'pre-registered'
    : isIdentifiedByHost(id)
      ? 'metadata-document'
      : 'self-registered';
  return { client: { id, name: name ?? id, kind }, stated };
}

type ClientContext = Pick<InteractionContext, 'settings' | 'services'>;

/** Call after sign-in. Throws 403 `client_revoked`, `client_blocked` or ClientWaiting if an administrator does not allow the client. */
async function requireAllowedClient(
  { settings, services }: ClientContext,
  app: App & { id: string },
  account: string | undefined,
): Promise<void> {
  const { store, now } = services;
  const refusal = await findClientRefusal(store, app.id, settings.clients, app);
  if (!refusal) return;
  throwIfEnded(refusal);
  const { id: clientId, name } = app;
  const times = { now: now(), lifetime: settings.lifetimes.unusedClient };
  if (await listWaiting(store, app, times))
    await recordAudit(services, {
      event: 'client_waiting',
      clientId,
      ...(account === undefined ? {} : { account }),
      arguments: { ...(name === undefined ? {} : { name }), destinations: destinationsOf(app) },
      outcome: 'done',
    });
  throw new ClientWaiting(clientId, name ?? clientId);
}

/**
 * Call before sign-in. Throws 403 `client_revoked` or `client_blocked`. A client that waits is listed only after somebody has signed in, so that
 * others cannot fill the list.
 */
export async function refuseEndedClient(
  { settings, services }: ClientContext,
  id: string,
): Promise<void> {
  const refusal = await findClientRefusal(services.store, id, settings.clients);
  if (refusal) throwIfEnded(refusal);
}

function throwIfEnded({ state }: { state: ClientState }): void {
  if (state === 'blocked')
    throw new HttpError(403, 'client_blocked', 'an administrator has blocked this app');
  if (state === 'revoked')
    throw new HttpError(403, 'client_revoked', 'an administrator has revoked this app');
}

/** The engine rejects a client that became invalid. Server faults are rethrown unchanged. */
function rethrowAsInvalidClient(error: unknown): never {
  if (error instanceof errors.OIDCProviderError && error.statusCode < 500)
    throw new HttpError(400, 'invalid_client', 'the app is no longer registered', {
      cause: error,
    });
  throw error;
}

async function requireConnector(
  { settings, services: { store, now } }: InteractionContext,
  resource: string,
): Promise<Connector> {
  const id = connectorIdOf(settings.resourceUrl, resource);
  const connector = id === undefined ? undefined : await findConnector(store, id);
  if (connector && isUsable(connector, now(), settings)) return connector;
  throw new HttpError(400, 'invalid_target', 'this connect link was revoked or has expired');
}

async function requireAccount(
  { services: { store } }: InteractionContext,
  interaction: Interaction,
): Promise<Account> {
  const accountId = interaction.session?.accountId;
  const account = accountId === undefined ? undefined : await findAccount(store, accountId);
  if (account && account.forgottenAt === undefined) return account;
  throw new HttpError(400, 'expired', 'the sign-in session has expired');
}

/** The content on which the decision depends. If it has changed by the time of the approval, the page is shown again. */
function displayedContent({
  client,
  redirectUri,
  device,
  connector,
  account,
  levels,
  requestsOfflineAccess,
}: ConsentRequest): PageContent {
  const tools = levels.map(({ level, tools }) => (tools ? [level, tools] : level));
  const parts: Record<ContentPart, unknown[]> = {
    app: [client, redirectUri ?? device?.payload.userCode, requestsOfflineAccess],
    connector: [connector.id, connector.name],
    // The page has no address that is not verified.
    account: [account.id, account.name, account.emailVerified ? account.email : undefined],
    levels: tools,
  };
  return {
    accountId: account.id,
    parts: CONTENT_PARTS.map((part) => JSON.stringify(parts[part])),
  };
}

/** What a page displays, in the order of `CONTENT_PARTS`, and to which account. */
export type PageContent = { accountId: string; parts: string[] };

function isContentPart(failure: StepUpFailure): failure is ContentPart {
  return (CONTENT_PARTS as readonly string[]).includes(failure);
}

/**
 * Binds the consent form to its interaction, to the account and to the content of its page: a digest of each, then a MAC over the digests and
 * the uid. A page loaded twice has the same token, so both copies work.
 */
function consentToken(keys: FormKeys, uid: string, content: PageContent): string {
  const account = accountDigest(keys, content.accountId);
  const digests = `${account}.${contentDigests(keys, content).join(DIGEST_SEPARATOR)}`;
  return `${digests}.${createFormToken(keys, consentContext(uid, digests))}`;
}

const DIGEST_SEPARATOR = '~';

function contentDigests(keys: FormKeys, { parts }: PageContent): string[] {
  return parts.map((text, index) => createFormToken(keys, `shown ${index}\n${text}`));
}

export type ConsentTokenClaims = {
  /** The first part of the content that is not what the form's page displayed. */
  changeTo: (content: PageContent) => ContentPart | undefined;
  /** Whether the form's page was displayed to this account. */
  isForAccount: (id: string) => boolean;
};

/** Throws 403 if the token was not issued for this interaction. */
export function requireConsentToken(keys: FormKeys, uid: string, token = ''): ConsentTokenClaims {
  const [account = '', content = '', mac] = token.split('.');
  const key = requireFormToken(keys, consentContext(uid, `${account}.${content}`), mac);
  const displayed = content.split(DIGEST_SEPARATOR);
  return {
    changeTo: (other) => {
      const digests = contentDigests([key], other);
      return CONTENT_PARTS.find((_, index) => digests[index] !== displayed[index]);
    },
    isForAccount: (id) => constantTimeEqual(account, accountDigest([key], id)),
  };
}

function consentContext(uid: string, digests: string): string {
  return `form\n${uid}\n${digests}`;
}

function accountDigest(keys: FormKeys, accountId: string): string {
  return createFormToken(keys, `account\n${accountId}`);
}

/** The unguessable id of the only grant that an interaction can create, so that a repeated approval is idempotent. */
export function grantIdOf([key]: KeyRing, uid: string): string {
  return createHmac('sha256', key).update(`grant\n${uid}`).digest('base64url').slice(0, 32);
}

type Form = { action: string; token: string };

function consentValues(
  context: InteractionContext,
  request: ConsentRequest,
  {
    action,
    token,
    failure,
    address,
  }: Form & { failure: StepUpFailure | undefined; address: string },
): ViewValues['consent'] {
  const { client, redirectUri, device, connector, levels, requestsOfflineAccess, namesKey } =
    request;
  const selected = selectedLevel(context.settings, request, failure);
  const offered = context.settings.consent.stayConnected === 'offered';
  const describesSample = context.settings.upstreams.length === 0;
  const lifetime = context.settings.lifetimes.refreshTokenAbsolute;
  const otherwise = levelWithoutDpop(context.settings, highestLevel(context.settings.levels));
  return {
    action,
    token,
    client: clientValues(client),
    redirect:
      redirectUri === undefined
        ? deviceValues(device, address)
        : redirectValues(client, redirectUri),
    connector: connectorValues(context.settings, connector),
    levels: levels.map(({ level, tools, needsSignIn }) => ({
      level,
      selected: level === selected,
      ...(isRecorded(context.settings.levels, level) ? { recorded: true as const } : {}),
      ...(!namesKey && requiresDpop(context.settings, level)
        ? { needsKey: otherwise === undefined ? {} : { otherwise } }
        : {}),
      ...(tools ? { tools: toolValues(tools) } : {}),
      ...(needsSignIn ? { signsIn: true as const } : {}),
    })),
    account: accountValues(context.site.identityProviders, request.account),
    ...(offered ? { stay: { checked: true, lifetime } } : {}),
    ...(!offered && requestsOfflineAccess ? { renewableFor: lifetime } : {}),
    accessLifetime: context.engine.grantLifetimes.accessToken,
    accountPage: context.settings.authUrl + ACCOUNT_PATH,
    describesSample,
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

function refusalValues(
  context: InteractionContext,
  { account, connector }: ConsentRequest,
  { action, token, reason }: Form & Pick<ViewValues['no-access'], 'reason'>,
): ViewValues['no-access'] {
  return {
    action,
    token,
    reason,
    ...(account.groupsOmitted ? { groupsOmitted: true } : {}),
    account: {
      ...accountValues(context.site.identityProviders, account),
      ...(account.email !== undefined && !account.emailVerified
        ? { unverifiedEmail: account.email }
        : {}),
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
): ViewValues['consent']['redirect'] {
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
): ViewValues['consent']['redirect'] {
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
  return {
    name: account.name,
    ...(provider === undefined ? {} : { provider }),
    ...(account.email !== undefined && account.emailVerified ? { email: account.email } : {}),
  };
}

function clientValues({
  id,
  name,
  kind,
}: ConsentRequest['client']): ViewValues['consent']['client'] {
  return kind === 'metadata-document' ? { name, kind, host: new URL(id).host } : { name, kind };
}
