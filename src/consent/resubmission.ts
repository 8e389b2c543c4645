// Consent forms that are submitted again. The result of an interaction is stored, so that a double click repeats the redirect and a later
// decision can correct the first one. The last decision applies, but can only narrow the grant.
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';
import { endConnection, narrowConnection } from '../connections/connections.ts';
import { findConnector } from '../links/connectors.ts';
import { wasExchanged } from '../connections/grant-lifetime.ts';
import { isLive, type StoredGrant } from '../connections/grant-record.ts';
import { findStoredGrant } from '../connections/grants.ts';
import { HttpError } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';
import { seeOther } from '../http/see-other.ts';
import { isLevel, type Level } from '../permission-levels.ts';
import type { Store } from '../store/store.ts';
import { COOKIE } from '../oauth/engine/configuration.ts';
import { DENIED_DESCRIPTION } from '../oauth/engine/errors.ts';
import { redirectDestination } from '../oauth/engine/redirect-uris.ts';
import { engineRequest } from '../oauth/engine/engine-request.ts';
import { ACCOUNT_PATH } from './account-session.ts';
import { grantIdOf, requireConsentToken } from './token.ts';
import { hasInteractionCookie, type InteractionContext } from './interaction.ts';

/** How long a resubmitted form repeats the redirect or changes the decision. */
const REDIRECT_SECONDS = 15;
/** How long the page shows the decision. */
const OUTCOME_SECONDS = 900;
const redirectKey = (uid: string) => `answer:${uid}`;
const outcomeKey = (uid: string) => `outcome:${uid}`;

/** `withdrawn`: denied after the app exchanged its code. */
export type ConsentOutcome = {
  decision: 'approved' | 'denied' | 'withdrawn';
  /** Host and port, or private scheme, of the redirect URI. */
  destination: string;
  /** The granted level, if approved. */
  level?: Level;
  /** The client's name as the person saw it, if approved. */
  client?: string;
  /** The connector's id, if approved. */
  connector?: string;
  /** Time of the first decision, in seconds since the epoch. */
  at?: number;
};

export type ConsentResult = {
  outcome: ConsentOutcome;
  /** The redirect to the app, while it may be repeated. */
  location?: string;
};

/** Stores the redirect and the decision when the engine resumes an interaction. Repeats the redirect if another request resumed it first. */
export function recordConsentResult(context: InteractionContext): Koa.Middleware {
  return async function consentResultRecorded(ctx, next) {
    const uid = String(ctx.params.uid);
    await next();
    if (engineRequest(ctx).errorPage === 'expired') return repeatRedirect(context, ctx, uid);
    const location = ctx.response.get('Location');
    const decision = decisionIn(location);
    if (ctx.status === 303 && decision) await saveDecision(context, ctx, uid, decision, location);
  };
}

/** Replaces the error page `expired` if another request of this browser has just resumed the interaction. */
async function repeatRedirect({ services }: InteractionContext, ctx: Koa.Context, uid: string) {
  const location = (await waitForResult(services.store, uid))?.location;
  if (location === undefined) return;
  discardFailure(ctx);
  seeOther(ctx, location);
}

/** The engine cleared the session cookie, but the other request has rotated it. */
function discardFailure(ctx: Koa.Context): void {
  ctx.remove('Set-Cookie');
  delete requestContext(ctx).failure;
}

function decisionIn(location: string): 'approved' | 'denied' | undefined {
  if (/[?&]code=/.test(location)) return 'approved';
  return /[?&]error=access_denied(&|$)/.test(location) ? 'denied' : undefined;
}

/** Shows the decision about a device, which no redirect reports, and stores it. Replaces the response of the engine. */
export async function saveDeviceResult(
  context: InteractionContext,
  ctx: Koa.Context,
  uid: string,
  decision: 'approved' | 'denied',
): Promise<void> {
  await showOutcome(context, ctx, await saveDecision(context, ctx, uid, decision), 200);
}

/** Shows the stored result of an interaction that this browser has resumed before. False if there is none. */
export async function showResultOf(
  context: InteractionContext,
  ctx: Koa.Context,
  uid: string,
): Promise<boolean> {
  const result = await waitForResult(context.services.store, uid);
  if (!result) return false;
  discardFailure(ctx);
  await showOutcome(context, ctx, result.outcome, 200);
  return true;
}

/** Stores the first decision, and the redirect to the app if there is one. Never rejects, because only resubmissions depend on it. */
async function saveDecision(
  { services: { store, now }, engine }: InteractionContext,
  ctx: Koa.Context,
  uid: string,
  decision: 'approved' | 'denied',
  location?: string,
): Promise<ConsentOutcome> {
  ctx.cookies.set(engine.provider().cookieName('resume'), uid, {
    ...COOKIE,
    path: ctx.path,
    maxAge: OUTCOME_SECONDS * 1000,
  });
  const destination = location === undefined ? '' : redirectDestination(location);
  const { approval: { level, client, connector } = {} } = engineRequest(ctx);
  const outcome = {
    decision,
    destination,
    at: now(),
    ...(level ? { level } : {}),
    ...(client ? { client } : {}),
    ...(connector ? { connector } : {}),
  };
  const result = location === undefined ? { outcome } : { outcome, location };
  await saveConsentResult(store, uid, result).catch(() => undefined);
  return outcome;
}

/** Without `location`, the redirect is not repeated again. */
async function saveConsentResult(
  store: Store,
  uid: string,
  { outcome, location }: ConsentResult,
): Promise<void> {
  await Promise.all([
    location === undefined
      ? store.delete(redirectKey(uid))
      : store.set(redirectKey(uid), location, REDIRECT_SECONDS),
    store.set(outcomeKey(uid), outcome, OUTCOME_SECONDS),
  ]);
}

/** The engine deletes an interaction shortly before its result is stored. */
const RETRY_DELAYS_MS = [0, 25, 50, 100, 200, 400];

async function waitForResult(
  store: Store,
  uid: string,
  delays: readonly number[] = RETRY_DELAYS_MS,
): Promise<ConsentResult | undefined> {
  for (const ms of delays) {
    await delay(ms);
    const outcome = (await store.get<ConsentOutcome>(outcomeKey(uid)))?.value;
    if (!outcome) continue;
    const location = await findRedirect(store, uid);
    return location === undefined ? { outcome } : { outcome, location };
  }
  return undefined;
}

/** It may be stored a moment after the outcome, in another node of a Redis Cluster. */
const SETTLING_MS = 25;

async function findRedirect(store: Store, uid: string): Promise<string | undefined> {
  const read = async () => (await store.get<string>(redirectKey(uid)))?.value;
  return (await read()) ?? delay(SETTLING_MS).then(read);
}

type FoundConsentResult = ConsentResult & {
  /** The interaction's grant in its current state. */
  grant: StoredGrant | undefined;
};

/** Finds the result of an interaction of this browser. With `isFinishing`, waits for a concurrent request to store it. */
export async function findConsentResult(
  { services: { store, keys }, engine }: InteractionContext,
  ctx: Koa.Context,
  uid: string,
  { isFinishing }: { isFinishing: boolean },
): Promise<FoundConsentResult | undefined> {
  if (!hasInteractionCookie(engine.provider(), ctx, uid)) return undefined;
  const result = await waitForResult(store, uid, isFinishing ? RETRY_DELAYS_MS : [0]);
  const grant = await findStoredGrant(store, grantIdOf(keys.forms, uid));
  const isDenied = grant !== undefined && !isLive(grant) && grant.ended === 'denied';
  // A concurrent approval may have stored its result after the denial; the grant is authoritative.
  if (isDenied && (!result || result.outcome.decision === 'approved'))
    return { outcome: { decision: 'denied', destination: grant.client.redirectHost }, grant };
  return result && { ...result, grant };
}

/** Whether a resubmitted form may still change the decision. */
function isChangeable({ at = -Infinity }: ConsentOutcome, now: number): boolean {
  return now - at < REDIRECT_SECONDS;
}

/** Returns false and does nothing if no result is stored for this browser's interaction. */
export async function handleResubmission(
  context: InteractionContext,
  ctx: Koa.Context,
  uid: string,
  form: Record<string, string>,
): Promise<boolean> {
  const first = await findConsentResult(context, ctx, uid, { isFinishing: true });
  if (!first) return false;
  const { isForAccount } = requireConsentToken(context.services.keys.forms, uid, form.token);
  const { grant, outcome } = first;
  const accountId = grant && (isLive(grant) ? grant.grant.accountId : grant.accountId);
  const isAllowed =
    isChangeable(outcome, context.services.now()) &&
    (accountId === undefined || isForAccount(accountId));
  const last = isAllowed ? await applyDecision(context, uid, form, first) : { outcome };
  if (last.location !== undefined) seeOther(ctx, last.location);
  else
    await showOutcome(context, ctx, last.outcome, isAllowed && isApplied(form, last) ? 200 : 400);
  return true;
}

/** Returns the new result. `location` is set if the browser is redirected to the app. */
async function applyDecision(
  context: InteractionContext,
  uid: string,
  form: Record<string, string>,
  first: FoundConsentResult,
): Promise<ConsentResult> {
  switch (form.decision) {
    case 'deny':
      return deny(context, uid, first);
    case 'approve':
      return approve(context, uid, form, first);
    default:
      return { outcome: first.outcome };
  }
}

async function deny(
  context: InteractionContext,
  uid: string,
  { outcome, location, grant }: FoundConsentResult,
): Promise<ConsentResult> {
  if (outcome.decision !== 'approved') return { outcome, ...(location ? { location } : {}) };
  if (!grant) return { outcome };
  const { level: _level, ...rest } = outcome;
  if (!isLive(grant)) return { outcome: { ...rest, decision: 'withdrawn' } };
  const id = grantIdOf(context.services.keys.forms, uid);
  await endConnection(context.services, { id, state: 'active' }, 'denied');
  // An app that has exchanged its code expects no further authorization response.
  const denied: ConsentResult = wasExchanged(grant)
    ? { outcome: { ...rest, decision: 'withdrawn' } }
    : { outcome: { ...rest, decision: 'denied' }, ...deniedLocation(location) };
  await saveConsentResult(context.services.store, uid, denied);
  return denied;
}

/** The error response in place of the code (RFC 6749 section 4.1.2.1). */
function deniedLocation(location: string | undefined): Pick<ConsentResult, 'location'> {
  if (location === undefined) return {};
  const url = new URL(location);
  url.searchParams.delete('code');
  url.searchParams.set('error', 'access_denied');
  url.searchParams.set('error_description', DENIED_DESCRIPTION);
  return { location: url.href };
}

async function approve(
  context: InteractionContext,
  uid: string,
  form: Record<string, string>,
  { outcome, location }: FoundConsentResult,
): Promise<ConsentResult> {
  const { level } = form;
  if (!isLevel(context.settings.levels, level))
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  if (outcome.decision !== 'approved') return { outcome };
  const stays = context.settings.consent.stayConnected === 'offered' ? form.stay === 'on' : true;
  const id = grantIdOf(context.services.keys.forms, uid);
  const granted = await narrowConnection(context.settings, context.services, id, { level, stays });
  if (granted === undefined) return { outcome };
  if (granted === outcome.level)
    return { outcome, ...(level === granted && location ? { location } : {}) };
  const narrowed: ConsentResult = { outcome: { ...outcome, level: granted } };
  await saveConsentResult(context.services.store, uid, narrowed);
  return narrowed;
}

/** Whether the result matches the decision in the form. */
function isApplied(
  { decision, level }: Record<string, string>,
  { outcome }: ConsentResult,
): boolean {
  return decision === 'approve' ? outcome.level === level : outcome.decision !== 'approved';
}

export async function showOutcome(
  context: InteractionContext,
  ctx: Koa.Context,
  { decision, destination, level, client, connector: id }: ConsentOutcome,
  status: number,
): Promise<void> {
  const connector = id === undefined ? undefined : await findConnectorName(context, id);
  const values = {
    decision,
    destination,
    accountPage: context.settings.authUrl + ACCOUNT_PATH,
    ...(level === undefined ? {} : { level }),
    ...(client === undefined ? {} : { client }),
    ...(connector === undefined ? {} : { connector }),
  };
  await context.services.pages.render(ctx, 'done', values, status);
}

/** Undefined if the connector was deleted or cannot be read: the page shows the decision without it. */
async function findConnectorName(
  { services: { store } }: InteractionContext,
  id: string,
): Promise<string | undefined> {
  const connector = await findConnector(store, id).catch(() => undefined);
  return connector?.name;
}
