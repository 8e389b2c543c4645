// The person's own account at an upstream: asked for after an approval, and on a page of its own. Only the browser that began it, and only the
// same person, can complete it.
import { randomBytes, randomUUID } from 'node:crypto';
import { Router } from '@koa/router';
import type Koa from 'koa';
import { recordChange } from '../audit/recorded-change.ts';
import { grantEnd } from '../people/account.ts';
import { findAccount } from '../people/accounts.ts';
import { constantTimeEqual } from '../constant-time.ts';
import {
  type Credential,
  type CredentialEnd,
  isFor,
  serverOf,
  type Tokens,
  withoutWanted,
} from '../credentials/credential.ts';
import {
  findCredential,
  lastCredentialEnd,
  type Owner,
  saveCredential,
  updateCredential,
} from '../credentials/credentials.ts';
import { forgetWantedClaims, wantedClaims } from '../credentials/exchange.ts';
import { findOperatorTicket, OPERATOR } from '../credentials/operator.ts';
import { acceptedKey, tryKey } from '../credentials/key.ts';
import {
  exchangeServiceCode,
  findPendingAuthorization,
  isFromService,
  type PendingAuthorization,
  refusalIn,
  scopesFor,
  startAuthorization,
  takePendingAuthorization,
} from '../credentials/obtain.ts';
import {
  CALLBACK_PATH,
  CREDENTIALS_PATH,
  DOCUMENT_PATH,
  isAddressFor,
  redirectUri,
} from '../credentials/page-address.ts';
import {
  findService,
  forgetRegisteredClient,
  isClientRefused,
  type OAuthUpstream,
  secretFor,
  ServiceFault,
  serviceOptions,
} from '../credentials/service.ts';
import { recordFailure } from '../credentials/use.ts';
import { notTrusted } from '../sign-in/errors.ts';
import { listConnections } from '../connections/connections.ts';
import { endCredential } from '../credentials/end.ts';
import { readForm } from '../http/body.ts';
import { hostCookieName } from '../http/cookies.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { requireNavigation } from '../http/fetch-metadata.ts';
import { createFormToken, requireFormToken } from '../http/form-tokens.ts';
import { limitRate } from '../http/rate-limits.ts';
import { requireSameOrigin } from '../http/same-origin.ts';
import { seeOther } from '../http/see-other.ts';
import { COOKIE } from '../oauth/engine/configuration.ts';
import type { ViewValues } from '../pages/pages.ts';
import { highestLevel, type Level, levelIds, lowestLevel } from '../permission-levels.ts';
import { type CredentialSettings, exchangeProvider } from '../settings/credentials.ts';
import type { Settings } from '../settings/settings.ts';
import type { Store } from '../store/store.ts';
import { findUpstream, type LeadsToUpstream, type Upstream } from '../settings/upstreams.ts';
import {
  ACCOUNT_PATH,
  type AccountSession,
  findAccountSession,
  rememberReturn,
  startAccountSignIn,
  startAccountSignInAt,
} from './account-session.ts';
import type { InteractionContext } from './interaction.ts';
import { accountValues } from './values.ts';

const COOKIE_SECONDS = 600;

export type UpstreamWithCredential = Upstream & { credential: CredentialSettings };

export type CredentialPage = ViewValues['credential'];
export type CredentialTrouble = NonNullable<CredentialPage['trouble']>;

/** Undefined if calls there need no credential of the person. */
export function credentialUpstream(
  { upstreams }: Pick<Settings, 'upstreams'>,
  record: LeadsToUpstream,
): UpstreamWithCredential | undefined {
  const upstream = findUpstream(upstreams, record);
  return upstream?.credential ? { ...upstream, credential: upstream.credential } : undefined;
}

export function credentialPages(context: InteractionContext): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  const { rateLimits } = context.services;
  router.get(DOCUMENT_PATH, (ctx) => {
    ctx.set('Cache-Control', 'public, max-age=300');
    ctx.body = ownDocument(context);
  });
  router.use(requireNavigation('GET, POST'));
  router.use(limitRate(rateLimits.signIns));
  router.get(CALLBACK_PATH, (ctx) => completeAuthorization(context, ctx));
  router.get(`${CREDENTIALS_PATH}/:upstream`, async (ctx) => {
    const upstream = requireUpstream(context, ctx);
    const session = await findAccountSession(context, ctx);
    if (!session) {
      rememberReturn(context, ctx, `${ctx.path}${ctx.search}`);
      return startAccountSignIn(context, ctx);
    }
    return showPage(context, ctx, { session, upstream });
  });
  router.post(`${CREDENTIALS_PATH}/:upstream`, (ctx) => submitPage(context, ctx));
  const operator = `${CREDENTIALS_PATH}/:upstream/operator`;
  router.get(operator, (ctx) => showOperatorPage(context, ctx));
  router.post(operator, (ctx) => submitOperatorPage(context, ctx));
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (ctx.path.startsWith(`${CREDENTIALS_PATH}/`) ? routes(ctx, next) : next());
}

/** Our own client metadata document (draft-ietf-oauth-client-id-metadata-document). */
function ownDocument({ settings }: InteractionContext): Record<string, unknown> {
  return {
    client_id: `${settings.authUrl}${DOCUMENT_PATH}`,
    client_name: settings.productName,
    client_uri: settings.authUrl,
    redirect_uris: [redirectUri(settings)],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
}

function requireUpstream({ settings }: InteractionContext, ctx: Koa.Context) {
  const upstream = credentialUpstream(settings, { upstream: String(ctx.params.upstream) });
  if (!upstream) throw notFound();
  return upstream;
}

type Place = { session: AccountSession; upstream: UpstreamWithCredential };

function ownerAt({
  session,
  upstream,
}: {
  session: Pick<AccountSession, 'account'>;
  upstream: Upstream;
}) {
  return { account: session.account.id, upstream: upstream.id };
}

/** The highest level of the person's connections to the upstream. */
async function ownLevel(
  { settings, services }: InteractionContext,
  { session, upstream }: Place,
): Promise<Level> {
  const { levels, upstreams } = settings;
  const all = await Array.fromAsync(
    listConnections(settings, services, { account: session.account.id }),
  );
  const held = all
    .map(({ item }) => item)
    .filter(({ state }) => state !== 'ended')
    .filter(({ connector }) => findUpstream(upstreams, connector)?.id === upstream.id)
    .map(({ level }) => level);
  const highestFirst = levelIds(levels).toReversed();
  return highestFirst.find((level) => held.includes(level)) ?? lowestLevel(levels);
}

/** Of the person's form on this page. */
function formContext({ session, upstream }: Place): string {
  return `credential\n${upstream.id}\n${session.sessionUid}\n${session.account.id}`;
}

async function showPage(
  context: InteractionContext,
  ctx: Koa.Context,
  place: Place,
  trouble?: CredentialTrouble,
): Promise<void> {
  const { session, upstream } = place;
  const { services } = context;
  const tag = String(ctx.query.for ?? '');
  const isTheirs = isAddressFor(services.keys.forms, upstream.id, session.account.id, tag);
  if (!isTheirs) throw new HttpError(403, 'forbidden', 'this address was made for another person');
  const connected = await connectedValues(services.store, place);
  const { wanted } = (await findCredential(services.store, ownerAt(place))) ?? {};
  const fault = trouble ?? troubleIn(ctx.query.trouble);
  const values: CredentialPage = {
    ...pageValues(context, upstream, await ownLevel(context, place)),
    ...(wanted ? { scopes: wanted } : {}),
    action: `${CREDENTIALS_PATH}/${upstream.id}?for=${encodeURIComponent(tag)}`,
    fields: [{ name: 'token', value: createFormToken(services.keys.forms, formContext(place)) }],
    account: accountValues(context.site.identityProviders, session.account),
    isOwnPage: true,
    ...(connected ? { connected } : {}),
    ...(fault ? { trouble: fault } : {}),
  };
  await services.pages.render(ctx, 'credential', values, fault ? 400 : 200);
}

const TROUBLES = ['refused', 'unavailable', 'not_set_up', 'key'] as const;

/** Of the address to which the way back from a service leads. */
export function troubleIn(given: unknown): CredentialTrouble | undefined {
  return TROUBLES.find((trouble) => trouble === given);
}

async function connectedValues(
  store: Store,
  { session: { account }, upstream }: Place,
): Promise<CredentialPage['connected']> {
  const owner = ownerAt({ session: { account }, upstream });
  if (upstream.credential.kind === 'exchange') {
    const isReady =
      account.recheck?.token !== undefined && (await wantedClaims(store, owner)) === undefined;
    return isReady ? { since: account.signedInAt, scopes: [] } : undefined;
  }
  return storedValues(store, upstream, owner.account);
}

async function storedValues(
  store: Store,
  upstream: UpstreamWithCredential,
  account: string,
): Promise<CredentialPage['connected']> {
  const stored = await findCredential(store, { account, upstream: upstream.id });
  if (!stored || !isFor(stored, upstream)) return undefined;
  const { connectedAt, scopes, name, isUntried } = stored;
  return {
    since: connectedAt,
    scopes,
    ...(name === undefined ? {} : { name }),
    ...(isUntried ? { isUntried } : {}),
  };
}

/** What every page about the credential says. */
export function pageValues(
  { settings }: Pick<InteractionContext, 'settings'>,
  upstream: UpstreamWithCredential,
  level: Level,
  connectorName = upstream.name,
): Pick<CredentialPage, 'service' | 'kind' | 'scopes' | 'label' | 'help'> {
  const { credential } = upstream;
  const service = upstream.isNamed ? upstream.name : connectorName;
  if (credential.kind === 'exchange') return { service, kind: 'exchange', scopes: [] };
  if (credential.kind === 'oauth')
    return { service, kind: 'oauth', scopes: scopesFor(credential, settings.levels, level) };
  const { label, help } = credential;
  return {
    service,
    kind: 'key',
    scopes: [],
    ...(label === undefined ? {} : { label }),
    ...(help === undefined ? {} : { help }),
  };
}

async function submitPage(context: InteractionContext, ctx: Koa.Context): Promise<void> {
  const { settings, services } = context;
  requireSameOrigin(ctx, settings.authUrl);
  const upstream = requireUpstream(context, ctx);
  const form = await readForm(ctx);
  const session = await findAccountSession(context, ctx);
  const here = `${CREDENTIALS_PATH}/${upstream.id}${ctx.search}`;
  if (!session) return seeOther(ctx, here);
  const place = { session, upstream };
  requireFormToken(services.keys.forms, formContext(place), form.token);
  switch (form.credential) {
    case 'end':
      await endCredential(
        context,
        { account: session.account.id, upstream: upstream.id },
        { cause: 'disconnected' },
      );
      return seeOther(ctx, here);
    case 'later':
      return seeOther(ctx, ACCOUNT_PATH);
    case 'now': {
      if (upstream.credential.kind === 'exchange')
        return signInForExchange(context, ctx, { session, upstream }, here);
      const level = await ownLevel(context, place);
      const began = await beginCredential(context, ctx, {
        account: session.account.id,
        upstream,
        level,
        returnTo: here,
        key: form.key,
      });
      return typeof began === 'string'
        ? showPage(context, ctx, place, began)
        : seeOther(ctx, began.location);
    }
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

/** A new sign-in gives a new token of the person, and what the provider wants before it exchanges it. */
async function signInForExchange(
  context: InteractionContext,
  ctx: Koa.Context,
  { session, upstream }: Place,
  here: string,
): Promise<void> {
  const { settings, services, site } = context;
  const { credential } = upstream;
  const provider =
    credential.kind === 'exchange' && exchangeProvider(settings.identityProviders, credential);
  if (!provider) throw notFound();
  const owner = ownerAt({ session, upstream });
  const claims = await wantedClaims(services.store, owner);
  await forgetWantedClaims(services.store, owner);
  rememberReturn(context, ctx, here);
  const { id } = site.identityProviders.find(({ settingsId }) => settingsId === provider.id) ?? {};
  return startAccountSignInAt(context, ctx, id, claims);
}

/** Of an administrator, who made the address. */
async function requireTicket(context: InteractionContext, ctx: Koa.Context) {
  const upstream = requireUpstream(context, ctx);
  const id = String(ctx.query.ticket ?? '');
  const ticket = await findOperatorTicket(context.services.store, upstream.id, id);
  if (!ticket) throw new HttpError(400, 'expired', 'this address has expired: ask for another one');
  return { ...ticket, id, upstream, formContext: `credential of the operator\n${id}` };
}

async function showOperatorPage(
  context: InteractionContext,
  ctx: Koa.Context,
  trouble = troubleIn(ctx.query.trouble),
): Promise<void> {
  const { services, settings } = context;
  const { id, upstream, formContext: purpose } = await requireTicket(context, ctx);
  const connected = await storedValues(services.store, upstream, OPERATOR);
  const values: CredentialPage = {
    ...pageValues(context, upstream, highestLevel(settings.levels)),
    action: `${ctx.path}?ticket=${encodeURIComponent(id)}`,
    fields: [{ name: 'token', value: createFormToken(services.keys.forms, purpose) }],
    isOfOperator: true,
    ...(connected ? { connected } : {}),
    ...(trouble ? { trouble } : {}),
  };
  await services.pages.render(ctx, 'credential', values, trouble ? 400 : 200);
}

async function submitOperatorPage(context: InteractionContext, ctx: Koa.Context): Promise<void> {
  const { settings, services } = context;
  requireSameOrigin(ctx, settings.authUrl);
  const { id, by, upstream, formContext: purpose } = await requireTicket(context, ctx);
  const form = await readForm(ctx);
  requireFormToken(services.keys.forms, purpose, form.token);
  const here = `${ctx.path}?ticket=${encodeURIComponent(id)}`;
  if (form.credential === 'end')
    await endCredential(
      context,
      { account: OPERATOR, upstream: upstream.id },
      { cause: 'ended_by_administrator', by },
    );
  if (form.credential !== 'now') return seeOther(ctx, here);
  const began = await beginCredential(context, ctx, {
    account: OPERATOR,
    by,
    upstream,
    level: highestLevel(settings.levels),
    returnTo: here,
    key: form.key,
  });
  return typeof began === 'string'
    ? showOperatorPage(context, ctx, began)
    : seeOther(ctx, began.location);
}

export type BeginOptions = {
  account: string;
  upstream: UpstreamWithCredential;
  level: Level;
  /** A path of ours where the browser goes on afterwards, also if it failed. */
  returnTo: string;
  /** What the person typed. */
  key?: string | undefined;
  /** The administrator, for the credential of the operator. */
  by?: string | undefined;
};

/** Stores a key, or sends the browser to the service. Returns what is wrong, or where the browser goes. */
export async function beginCredential(
  context: InteractionContext,
  ctx: Koa.Context,
  { account, by, upstream, level, returnTo, key }: BeginOptions,
): Promise<CredentialTrouble | { location: string }> {
  const { settings, services } = context;
  const { credential } = upstream;
  if (credential.kind === 'key') {
    const accepted = acceptedKey(key, credential.header);
    if (accepted === undefined) return 'key';
    const network = serviceOptions(settings, services, upstream).network;
    const tried = await tryKey(upstream, accepted, network);
    if (tried === 'refused') return 'key';
    if (tried === 'unavailable') return 'unavailable';
    const isUntried = tried === 'same_without' ? ({ isUntried: true } as const) : {};
    const obtained = { token: accepted, scopes: [], ...isUntried };
    await keepCredential(context, { account, by, upstream }, obtained);
    return { location: returnTo };
  }
  if (credential.kind !== 'oauth') throw notFound();
  const oauth: OAuthUpstream = { ...upstream, credential };
  const known = await findCredential(services.store, { account, upstream: upstream.id });
  try {
    const options = serviceOptions(settings, services, upstream);
    const service = await findService(oauth, options);
    const location = await startAuthorization(services.store, oauth, service, {
      account,
      by,
      lastEnd: await lastCredentialEnd(services.store, { account, upstream: upstream.id }),
      startedAt: Math.floor(services.now()),
      browser: browserOf(context, ctx),
      scopes: known?.wanted ?? scopesFor(credential, settings.levels, level),
      returnTo,
      redirectUri: options.redirectUri,
    });
    return { location };
  } catch (error) {
    return faultOf(context, { account, upstream: upstream.id }, error);
  }
}

async function faultOf(
  { services }: InteractionContext,
  owner: Owner,
  error: unknown,
): Promise<CredentialTrouble> {
  if (!(error instanceof ServiceFault)) throw error;
  const { upstream } = owner;
  services.logger.warn(
    { what: upstream, err: error },
    'the authorization server of an MCP server cannot be used',
  );
  const { isPermanent, code } = error;
  if (isPermanent && code !== undefined) await recordFailure(services, owner, code);
  return isPermanent ? 'not_set_up' : 'unavailable';
}

/** Identifies the browser from leaving to coming back. */
function browserOf({ site }: InteractionContext, ctx: Koa.Context): string {
  const name = hostCookieName('gatehouse-credential', site);
  const known = ctx.cookies.get(name, { signed: true });
  const browser = known ?? randomBytes(18).toString('base64url');
  ctx.cookies.set(name, browser, { ...COOKIE, signed: true, maxAge: COOKIE_SECONDS * 1000 });
  return browser;
}

async function completeAuthorization(context: InteractionContext, ctx: Koa.Context): Promise<void> {
  const { services, site } = context;
  const query = new URLSearchParams(ctx.querystring);
  const state = query.get('state') ?? '';
  const found = await findPendingAuthorization(services.store, state);
  const browser = ctx.cookies.get(hostCookieName('gatehouse-credential', site), { signed: true });
  const expired = () =>
    new HttpError(
      400,
      'expired',
      'this has expired, was completed already, or began in another browser',
    );
  if (!found || browser === undefined || !constantTimeEqual(found.browser, browser))
    throw expired();
  const session = await findAccountSession(context, ctx);
  // Without a session, somebody else may be at this browser by now.
  if (found.account !== OPERATOR && session?.account.id !== found.account) throw expired();
  if (await endSince(services.store, found)) throw expired();
  if (!isFromService(query, found))
    throw notTrusted('the response came from another service than the one that was asked');
  const pending = await takePendingAuthorization(services.store, state);
  if (!pending) throw expired();
  const trouble = await finish(context, query, pending);
  if (trouble === 'unwanted') throw expired();
  const { returnTo } = pending;
  if (!trouble) return seeOther(ctx, returnTo);
  seeOther(ctx, `${returnTo}${returnTo.includes('?') ? '&' : '?'}trouble=${trouble}`);
}

/** What has ended the person's credentials since the browser left for the service. */
async function endSince(
  store: Store,
  pending: PendingAuthorization,
): Promise<CredentialEnd | undefined> {
  const lastEnd = await lastCredentialEnd(store, pending);
  if (lastEnd !== undefined && lastEnd !== pending.lastEnd) return 'disconnected';
  if (pending.account === OPERATOR) return undefined;
  const account = await findAccount(store, pending.account);
  return account ? grantEnd(account, pending.startedAt)?.reason : 'account_forgotten';
}

/** By the person, or by the service in the person's place (RFC 6749 section 4.1.2.1, OpenID Connect Core section 3.1.2.6). */
const DECLINED = [
  'access_denied',
  'consent_required',
  'interaction_required',
  'login_required',
  'account_selection_required',
];
const TEMPORARY = ['server_error', 'temporarily_unavailable'];

async function finish(
  context: InteractionContext,
  query: URLSearchParams,
  pending: PendingAuthorization,
): Promise<CredentialTrouble | 'unwanted' | undefined> {
  const { settings, services } = context;
  const upstream = credentialUpstream(settings, pending);
  if (!upstream || upstream.credential.kind !== 'oauth') return 'not_set_up';
  const refusal = refusalIn(query);
  const code = query.get('code');
  if (refusal !== undefined || code === null) {
    if (DECLINED.includes(refusal ?? '')) {
      await updateCredential(services.store, pending, withoutWanted);
      return 'refused';
    }
    if (isClientRefused(refusal))
      await forgetRegisteredClient(services.store, upstream.id, pending.service.clientId);
    services.logger.warn(
      { what: upstream.id, reason: refusal },
      'a service refused to connect an account',
    );
    return TEMPORARY.includes(refusal ?? '') ? 'unavailable' : 'not_set_up';
  }
  const { service } = pending;
  const options = serviceOptions(settings, services, upstream);
  try {
    const tokens = await exchangeServiceCode({ code, redirectUri: options.redirectUri }, pending, {
      secret: secretFor(settings, upstream, service),
      network: options.network,
      now: services.now(),
    });
    const { account, by } = pending;
    const kept = await keepCredential(context, { account, by, upstream }, { ...tokens, service });
    // Asked again when it is stored, because an end from now on finds it.
    const cause = await endSince(services.store, pending);
    if (!cause) return undefined;
    const isSame = ({ epoch }: Credential) => epoch === kept.epoch;
    await endCredential(context, kept, { cause, isSame });
    return 'unwanted';
  } catch (error) {
    if (error instanceof ServiceFault && isClientRefused(error.code))
      await forgetRegisteredClient(services.store, upstream.id, service.clientId);
    return faultOf(context, pending, error);
  }
}

function refreshTokenOfSame(
  before: Credential | undefined,
  { subject, service }: Pick<Credential, 'subject' | 'service'>,
): string | undefined {
  const isSame =
    subject !== undefined &&
    before?.subject === subject &&
    before.service?.clientId === service?.clientId &&
    before.service?.tokenEndpoint === service?.tokenEndpoint;
  return isSame ? before.refreshToken : undefined;
}

/**
 * Replaces an earlier credential of the person there. Of the same account, its refresh token stays if the service sent none. Another account, or
 * one that the service does not identify, never gets it.
 */
async function keepCredential(
  { services }: InteractionContext,
  {
    account,
    by,
    upstream,
  }: { account: string; by?: string | undefined; upstream: UpstreamWithCredential },
  obtained: Tokens & Pick<Credential, 'name' | 'subject' | 'service' | 'isUntried'>,
): Promise<Credential> {
  const { store, now } = services;
  const owner = { account, upstream: upstream.id };
  const credential: Credential = {
    ...obtained,
    ...owner,
    kind: upstream.credential.kind,
    server: serverOf(upstream),
    epoch: randomUUID(),
    connectedAt: Math.floor(now()),
  };
  const save = () =>
    saveCredential(store, owner, (before) => {
      const { refreshToken = refreshTokenOfSame(before, obtained) } = obtained;
      const { askedAgain } = (before && withoutWanted(before)) ?? {};
      return {
        ...credential,
        ...(refreshToken === undefined ? {} : { refreshToken }),
        ...(askedAgain ? { askedAgain } : {}),
      };
    });
  const item = {
    ...(account === OPERATOR
      ? { event: 'upstream_connected', by }
      : { event: 'credential_connected', account }),
    upstream: upstream.id,
    arguments: {
      scopes: credential.scopes,
      ...(credential.name === undefined ? {} : { name: credential.name }),
    },
  };
  await recordChange(services, item, { make: save, itemOf: () => item });
  return credential;
}
