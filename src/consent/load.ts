// What a consent page is about: the app, the connector, the person and the levels, read and checked at each request.
import { errors } from 'oidc-provider';
import type { Account } from '../people/account.ts';
import { findAccount } from '../people/accounts.ts';
import { callerClaims, claimNames } from '../people/caller-claims.ts';
import { type Access, accessThrough, matchingRules } from '../people/entitlement.ts';
import { stepUpFor, type StepUpProblem, stepUpProblem } from '../people/step-up.ts';
import { recordAudit } from '../audit/audit.ts';
import {
  type ClientState,
  DEVICE_CODE,
  findClientRefusal,
  listWaiting,
} from '../clients/clients.ts';
import { type App, destinationsOf } from '../clients/rules.ts';
import { connectorIdOf } from '../links/connect-link.ts';
import { type Connector, connectorRefusal, isUsable, redeemerOf } from '../links/connector.ts';
import { hasUseLeft, type IsGrantActive, findConnector } from '../links/connectors.ts';
import { APP_ENDS, type AppEnd } from '../connections/app-ends.ts';
import type { Connection } from '../connections/connection.ts';
import type { ClientSnapshot } from '../connections/grant-record.ts';
import { refusalReason } from '../connections/person-access.ts';
import { isGrantActive } from '../connections/grants.ts';
import { isKeptOut } from '../connections/kept-out.ts';
import { HttpError } from '../http/errors.ts';
import type { ViewValues } from '../pages/pages.ts';
import {
  highestLevelIn,
  type Level,
  levelsUpTo,
  lowest,
  OFFLINE_ACCESS,
  preselectedLevel,
} from '../permission-levels.ts';
import { findUpstream } from '../settings/upstreams.ts';
import { openedTools } from '../upstreams/opened-tools.ts';
import { selectionOf } from '../upstreams/tool-access.ts';
import { findKnownTools } from '../upstreams/tool-pin-records.ts';
import { namedByInteraction } from '../oauth/engine/adapter.ts';
import { isIdentifiedByHost } from '../oauth/engine/client-metadata-documents.ts';
import { readingOnce } from '../store/reading-once.ts';
import { findDevice, isWaiting, type WaitingDevice } from '../oauth/engine/device-codes.ts';
import { isOwnOrigin, redirectDestination } from '../oauth/engine/redirect-uris.ts';
import type { AccessRefusal } from '../observability/labels.ts';
import { ClientWaiting } from '../oauth/error-page.ts';
import { learnedBy, type LearnedClaims } from './learned.ts';
import { raisableLevels, requireRaisable } from './raise.ts';
import { AccessRefused } from './refusals.ts';
import { requireSignedIn } from './signed-in.ts';
import {
  type Interaction,
  type InteractionContext,
  raisedConnection,
  type SignInResult,
  signInResult,
} from './interaction.ts';

const USED_UP_DESCRIPTION = 'this connect link was used up; ask for a fresh connect link';

const NOT_ENTITLED_DESCRIPTION = 'the person may not use this connect link';

type Refusal = {
  reason: AccessRefusal;
  page: ViewValues['no-access']['reason'];
  description: string;
};

/** Why the request cannot be approved. Checks for a remaining use without reserving one. */
export async function findRefusal(
  context: InteractionContext,
  request: ConsentRequest,
): Promise<Refusal | undefined> {
  if (request.refusal) {
    const reason = refusalReason(request.refusal, request.account);
    const page = reason === 'not_in_audience' ? 'not-in-audience' : 'not-entitled';
    return { reason, page, description: NOT_ENTITLED_DESCRIPTION };
  }
  // A connection that exists has its use.
  if (request.raise) return undefined;
  const uses = { now: context.services.now(), isActive: activeGrantCheck(context) };
  if (await hasUseLeft(request.connector, holderOfRequest(request), uses)) return undefined;
  return { reason: 'used_up', page: 'used-up', description: USED_UP_DESCRIPTION };
}

export function holderOfRequest({ account, client }: ConsentRequest): string {
  return redeemerOf(account.id, client.id);
}

export function requireOfferedLevel(
  { levels }: ConsentRequest,
  level: string | undefined,
): OfferedLevel {
  const offered = levels.find((each) => each.level === level);
  if (offered) return offered;
  throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
}

/** A device has no redirect URI. */
export function snapshotOf({ client, redirectUri }: ConsentRequest): ClientSnapshot {
  const redirectHost = redirectUri === undefined ? '' : redirectDestination(redirectUri);
  return { name: client.name, redirectHost };
}

export function activeGrantCheck({ services, engine }: InteractionContext): IsGrantActive {
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

export type ConsentRequest = {
  client: {
    id: string;
    name: string;
    kind: 'self-registered' | 'metadata-document' | 'pre-registered';
  };
  /** What this request knows of the client; a metadata document may change meanwhile. */
  stated: App;
  /** The connection that is to get more access; it has `level` now. Undefined for a new one. */
  raise: { id: string; level: Level; since: number } | undefined;
  /** Undefined for a device and for a connection that exists. */
  redirectUri: string | undefined;
  device: WaitingDevice | undefined;
  resource: string;
  connector: Connector;
  account: Account;
  /** Levels that may be granted, lowest first; empty if there is a `refusal`. */
  levels: OfferedLevel[];
  /** The server lists its tools only to people who have connected their own account. */
  toolsNeedAccount: boolean;
  /** Why the person has no access to this connector. */
  refusal: Access['refusal'];
  /** The level that the page preselects; undefined if the person must choose. */
  preselected: Level | undefined;
  /** What the server will learn about the person. Undefined if it learns nothing. */
  learned: LearnedClaims | undefined;
  /** Whether the request has the scope `offline_access`, after the setting `stayConnected` was applied. */
  requestsOfflineAccess: boolean;
  /** Whether the request names the key of its tokens (RFC 9449 section 10). */
  namesKey: boolean;
};

/** Starts to read what the interaction names, as far as this process has seen it, for `withBegunReads`. */
export function beginReads(
  { settings, services, engine }: InteractionContext,
  uid: string,
): Interaction['begunReads'] {
  const { account, client, resource } = namedByInteraction(uid);
  if (client === undefined) return undefined;
  const store = readingOnce(services.store);
  const connector = resource && connectorIdOf(settings.resourceUrl, resource);
  engine.readClientAhead(client);
  const reads = [
    findClientRefusal(store, client, settings.clients),
    account && findAccount(store, account),
    account && isKeptOut(store, account, { id: client, redirectUris: [] }),
    account && connector && findConnector(store, connector),
  ];
  // An error reaches the step that needs the result.
  for (const read of reads) if (read) read.catch(() => undefined);
  return store;
}

/** The context for the first reads of what the interaction names. Later ones, such as those after a write, read anew. */
export function withBegunReads(
  context: InteractionContext,
  interaction: Interaction,
): InteractionContext {
  const { begunReads: store } = interaction;
  if (!store) return context;
  delete interaction.begunReads;
  return { ...context, services: { ...context.services, store } };
}

/** Throws if the client, redirect URI, connector or account is no longer valid. */
export async function requireConsentRequest(
  given: InteractionContext,
  interaction: Interaction,
  signIn: SignInResult = signInResult(interaction),
): Promise<ConsentRequest> {
  const context = withBegunReads(given, interaction);
  const {
    client_id: clientId,
    redirect_uri: redirectUri,
    resource,
    scope,
    dpop_jkt: dpopKey,
  } = interaction.params as Record<string, string>;
  const device = await requireWaitingDevice(context, interaction);
  const raised = await requireRaised(context, interaction);
  const redirect = device || raised ? undefined : String(redirectUri);
  const usesDevice = raised ? raised.client.redirectHost === '' : device !== undefined;
  const [{ client, stated }, connector, account] = await Promise.all([
    requireClient(context, interaction, String(clientId), { redirectUri: redirect, usesDevice }),
    requireConnector(context, String(resource)),
    requireAccount(context, interaction),
  ]);
  // The engine asks for a sign-in when it resumes an interaction of an app. It does not resume ours.
  if (raised) await requireSignedIn(context, interaction, account, signIn);
  const { toolsOf, needAccount } = await readTools(context, connector, account);
  const { levels: all } = context.settings;
  const access = accessThrough(context.settings, connector, account, 'sign-in');
  const asked = highestLevelIn(all, scope) ?? connector.level;
  const levels = access.refusal
    ? []
    : raised
      ? raisableLevels(context.settings, raised)
      : levelsUpTo(all, lowest(all, asked, connector.level, access.level));
  return {
    client,
    stated,
    raise: raised && raiseOf(raised, connector),
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
    toolsNeedAccount: needAccount,
    refusal: access.refusal,
    preselected: preselectedLevel(all, levels, connector.suggestedLevel ?? connector.level),
    // More access changes nothing about what the server learns.
    learned: raised
      ? learnedBy(context.settings, connector, raised.callerClaims ?? [])
      : learnedClaims(context.settings, connector, account),
    requestsOfflineAccess: String(scope).split(' ').includes(OFFLINE_ACCESS),
    namesKey: dpopKey !== undefined || raised !== undefined,
  };
}

async function requireRaised(
  context: InteractionContext,
  interaction: Interaction,
): Promise<Connection | undefined> {
  const id = raisedConnection(interaction);
  return id === undefined
    ? undefined
    : requireRaisable(context, id, interaction.session?.accountId);
}

function raiseOf(
  { id, level, createdAt: since }: Connection,
  { level: most }: Connector,
): NonNullable<ConsentRequest['raise']> {
  return { id, level: level ?? most, since };
}

/** The claims of the settings that this person has. */
function learnedClaims(
  settings: InteractionContext['settings'],
  connector: Connector,
  account: Account,
): LearnedClaims | undefined {
  const { caller } = findUpstream(settings.upstreams, connector) ?? {};
  const claims = claimNames(callerClaims(settings, account, 'sign-in', caller?.claims ?? []));
  return learnedBy(settings, connector, claims);
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

/** `toolsOf` returns the titles of the tools that a level opens to the person; undefined if they are not known, and for the sample, whose levels differ in fields. */
async function readTools(
  { settings, services: { store, now } }: InteractionContext,
  connector: Connector,
  account: Account,
): Promise<{ toolsOf: ((level: Level) => string[]) | undefined; needAccount: boolean }> {
  const upstream = findUpstream(settings.upstreams, connector);
  const known = upstream && (await findKnownTools(store, upstream));
  if (!upstream || known?.catalog?.seenAt === undefined)
    return { toolsOf: undefined, needAccount: known?.catalog?.needsCredential === true };
  const matching = matchingRules(settings, account, 'sign-in');
  const selection = selectionOf({ connector }, matching);
  const toolsOf = openedTools(settings.levels, upstream, known, { selection, now: now() });
  return { toolsOf, needAccount: false };
}

/** Checks the redirect URI again: the client may have changed since the authorization request. What is checked here must be what is allowed. */
async function requireClient(
  { settings, services, engine }: InteractionContext,
  { session }: Interaction,
  id: string,
  { redirectUri, usesDevice }: { redirectUri: string | undefined; usesDevice: boolean },
): Promise<Pick<ConsentRequest, 'client' | 'stated'>> {
  const client = await engine.provider().Client.find(id).catch(rethrowAsInvalidClient);
  if (!client) {
    await refuseEndedClient({ settings, services }, id);
    throw new HttpError(400, 'invalid_client', 'the app is no longer registered');
  }
  const { clientName: name, redirectUris = [] } = client;
  const stated = { id, ...(name === undefined ? {} : { name }), redirectUris, usesDevice };
  await requireAllowedClient({ settings, services }, stated, session?.accountId);
  if (usesDevice && !client.grantTypeAllowed(DEVICE_CODE))
    throw new HttpError(400, 'invalid_client', 'the app no longer uses devices');
  if (
    redirectUri !== undefined &&
    (!client.redirectUriAllowed(redirectUri) || isOwnOrigin(engine.redirectPolicy, redirectUri))
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

/** Call after sign-in. Throws 403 `client_revoked`, `client_blocked`, `kept_out` or ClientWaiting if an administrator does not allow the client. */
async function requireAllowedClient(
  { settings, services }: ClientContext,
  app: App & { id: string },
  account: string | undefined,
): Promise<void> {
  const { store, now } = services;
  const [refusal, keptOut] = await Promise.all([
    findClientRefusal(store, app.id, settings.clients, app),
    account === undefined ? false : isKeptOut(store, account, app),
  ]);
  if (refusal) throwIfEnded(refusal);
  if (keptOut) throw endedApp(APP_ENDS.keptOut);
  if (!refusal) return;
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
  if (state === 'blocked' || state === 'revoked') throw endedApp(APP_ENDS[state]);
}

function endedApp({ refusal, code, message }: AppEnd): AccessRefused {
  return new AccessRefused(refusal, 403, code, message);
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
  // One that was deleted meanwhile had been revoked or had expired.
  const reason = connector ? connectorRefusal(connector, now(), settings) : 'connector_revoked';
  if (connector && !reason) return connector;
  if (connector && isUsable(connector, now(), settings))
    throw new AccessRefused(
      'connector_paused',
      400,
      'connector_paused',
      'an administrator paused this connect link',
    );
  throw new AccessRefused(
    reason ?? 'connector_revoked',
    400,
    'invalid_target',
    'this connect link was revoked or has expired',
  );
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
