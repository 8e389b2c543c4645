// Consent: the page that says what is asked, and the decision (RFC 6749 section 4.1.1), which counts only for what was shown.
import type Koa from 'koa';
import type { AuditServices } from '../../audit/audit.ts';
import { revokedSince } from '../../clients/clients.ts';
import { holderOf } from '../../connectors/connector.ts';
import { hasUseLeft, releaseUseOf, type Stands, takeUse } from '../../connectors/connectors.ts';
import { denyConnection, narrowConnection } from '../../connections/connections.ts';
import { unusedAfter } from '../../grants/grant-life.ts';
import type { ClientSnapshot } from '../../grants/grant-record.ts';
import { endGrant, grantStands } from '../../grants/grants.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import { isLevel, levelsUpTo, OFFLINE_ACCESS } from '../../permission-level.ts';
import { makeGrant, type NewGrantOptions } from '../engine/new-grant.ts';
import { redirectDestination } from '../engine/redirect-uris.ts';
import { consentValues, noAccessValues } from './consent-page.ts';
import { finishFlow, type Flow, formToken, grantIdOf, requireFormToken } from './flow.ts';
import {
  type ConsentRequest,
  type ConsentRequestOptions,
  requireConsentRequest,
  shownIn,
} from './request.ts';
import { DENIED } from './second-answer.ts';
import { flowTrip, type SignInOptions, startSignIn } from './sign-in.ts';

export type ConsentOptions = ConsentRequestOptions &
  AuditServices &
  SignInOptions &
  NewGrantOptions & {
    authUrl: string;
    formKeys: KeyRing;
    stayConnected: 'offered' | 'on-request';
    /** From now on the client has been used. */
    prolongClient: (id: string) => Promise<void>;
  };

const USED_UP = 'this connect link was used up; ask for a fresh connect link';
const NOT_ENTITLED = 'the person may not use this connect link';

export async function showConsent(
  options: ConsentOptions,
  ctx: Koa.Context,
  flow: Flow,
  changed = false,
): Promise<void> {
  const request = await requireConsentRequest(options, flow);
  const token = formToken(options.formKeys, flow.uid, shownIn(request));
  const refusal = await refusalOf(options, request);
  if (refusal) {
    const values = noAccessValues(options, request, {
      action: ctx.path,
      token,
      reason: refusal.reason,
    });
    return options.pages.render(ctx, 'no-access', values, 403);
  }
  const values = consentValues(options, request, { action: ctx.path, token, changed });
  return options.pages.render(ctx, 'consent', values, changed ? 409 : 200);
}

type RefusalReason = { reason: 'not-entitled' | 'used-up'; description: string };

/** Why nothing can be approved, if so. The count is only looked at here; it is taken when the person approves. */
async function refusalOf(
  options: ConsentOptions,
  request: ConsentRequest,
): Promise<RefusalReason | undefined> {
  if (request.levels.length === 0) return { reason: 'not-entitled', description: NOT_ENTITLED };
  const uses = { now: options.now(), stands: standsIn(options) };
  if (await hasUseLeft(request.connector, holderOfRequest(request), uses)) return undefined;
  return { reason: 'used-up', description: USED_UP };
}

function holderOfRequest({ account, client }: ConsentRequest): string {
  return holderOf(account.id, client.id);
}

export async function decideConsent(
  options: ConsentOptions,
  ctx: Koa.Context,
  flow: Flow,
  form: Record<string, string>,
): Promise<void> {
  const { formKeys } = options;
  const request = await requireConsentRequest(options, flow);
  const isChanged = !requireFormToken(formKeys, flow.uid, form.token).showed(shownIn(request));
  const refusal = await refusalOf(options, request);
  switch (form.decision) {
    case 'deny':
      return deny(options, ctx, flow, request, refusal?.description);
    case 'switch':
      return switchAccount(options, ctx, flow);
    case 'approve':
      if (isChanged || refusal) return showConsent(options, ctx, flow, true);
      return approve(options, ctx, flow, request, form);
    default:
      throw new HttpError(400, 'invalid_request', 'choose to approve or to deny');
  }
}

/** With several providers the choice is a page of its own, so that going back to it sends no form again. */
function switchAccount(
  options: ConsentOptions,
  ctx: Koa.Context,
  flow: Flow,
): Promise<void> | void {
  const trip = flowTrip(flow);
  return options.identityProviders.length > 1
    ? seeOther(ctx, trip.action)
    : startSignIn(options, ctx, trip);
}

/** Also what an approval of the same interaction granted, or is about to grant. */
async function deny(
  options: ConsentOptions,
  ctx: Koa.Context,
  flow: Flow,
  request: ConsentRequest,
  description = DENIED,
): Promise<void> {
  const { client, connector, account } = request;
  const facts = {
    connector: connector.id,
    client: snapshotOf(request),
    clientId: client.id,
    accountId: account.id,
  };
  const grantId = grantIdOf(options.formKeys, flow.uid);
  await denyConnection(options, grantId, facts, Math.ceil(flow.exp - options.now()));
  await finishDenied(options, ctx, description);
}

function finishDenied(
  { provider }: ConsentOptions,
  ctx: Koa.Context,
  description: string,
): Promise<void> {
  return finishFlow(provider, ctx, { error: 'access_denied', error_description: description });
}

async function approve(
  options: ConsentOptions,
  ctx: Koa.Context,
  flow: Flow,
  request: ConsentRequest,
  form: Record<string, string>,
): Promise<void> {
  const { level } = form;
  if (!isLevel(level) || !request.levels.includes(level)) {
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  }
  const { store, now } = options;
  const grantId = grantIdOf(options.formKeys, flow.uid);
  const reservation = {
    grantId,
    holder: holderOfRequest(request),
    reservedUntil: now() + unusedAfter(options.lifetimes),
  };
  const uses = { now: now(), stands: standsIn(options) };
  if (!(await takeUse(store, request.connector.id, reservation, uses))) {
    return showConsent(options, ctx, flow, true);
  }
  const stays = options.stayConnected === 'offered' ? form.stay === 'on' : request.asksToStay;
  const scopes = [...levelsUpTo(level), ...(stays ? [OFFLINE_ACCESS] : [])];
  const client = { ...request.client, ...snapshotOf(request) };
  const [isNew] = await Promise.all([
    makeGrant(options, grantId, { ...request, client, scopes }),
    options.prolongClient(request.client.id),
  ]);
  // The person answered before, and that answer did not finish the interaction: nothing more is granted than by the first one.
  if (!isNew && (await narrowConnection(options, grantId, { level, stays })) === undefined) {
    await releaseUseOf(store, request.connector.id, grantId);
    return finishDenied(options, ctx, DENIED);
  }
  // Whoever revoked the client meanwhile may have looked for its grants before this one was there.
  if ((await revokedSince(store, request.client.id)) !== undefined) {
    await endGrant(store, grantId, 'client_revoked', now());
    await releaseUseOf(store, request.connector.id, grantId);
    return showConsent(options, ctx, flow, true);
  }
  await finishFlow(options.provider, ctx, { consent: { grantId } });
}

function snapshotOf({ client, redirectUri }: ConsentRequest): ClientSnapshot {
  return { name: client.name, redirectHost: redirectDestination(redirectUri) };
}

function standsIn({ store, lifetimes, now }: ConsentOptions): Stands {
  return (grantId) => grantStands(store, grantId, lifetimes, now());
}
