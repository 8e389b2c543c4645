// The consent page and the decision (RFC 6749 section 4.1.1). An approval is valid only for the content that the page displayed.
import type Koa from 'koa';
import type { AuditServices } from '../../audit/audit.ts';
import { revokedSince } from '../../clients/clients.ts';
import { redeemerOf } from '../../connectors/connector.ts';
import {
  hasUseLeft,
  releaseReservedUse,
  type IsGrantActive,
  acquireUse,
} from '../../connectors/connectors.ts';
import { denyConnection, narrowConnection } from '../../connections/connections.ts';
import { redemptionDeadline } from '../../grants/grant-lifetime.ts';
import type { ClientSnapshot } from '../../grants/grant-record.ts';
import { endGrant, isGrantActive } from '../../grants/grants.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import { type SignInSite, startSignIn } from '../../identity-providers/sign-in.ts';
import { isLevel, levelsUpTo, OFFLINE_ACCESS } from '../../permission-level.ts';
import { createGrant, type NewGrantOptions } from '../engine/grant-models.ts';
import { redirectDestination } from '../engine/redirect-uris.ts';
import { consentValues, refusalValues } from './consent-page-values.ts';
import {
  finishInteraction,
  type Interaction,
  consentToken,
  grantIdOf,
  loginRequestOf,
  requireConsentToken,
} from './interaction.ts';
import {
  type ConsentRequest,
  type ConsentRequestOptions,
  requireConsentRequest,
  displayedContent,
} from './consent-request.ts';
import { DENIED_DESCRIPTION } from './resubmission.ts';

export type ConsentOptions = ConsentRequestOptions &
  AuditServices &
  SignInSite &
  NewGrantOptions & {
    authUrl: string;
    formKeys: KeyRing;
    stayConnected: 'offered' | 'on-request';
    /** Extends the registration of a client that was used. */
    prolongClient: (id: string) => Promise<void>;
  };

const USED_UP_DESCRIPTION = 'this connect link was used up; ask for a fresh connect link';
const NOT_ENTITLED_DESCRIPTION = 'the person may not use this connect link';

export async function showConsent(
  options: ConsentOptions,
  ctx: Koa.Context,
  interaction: Interaction,
  changed = false,
): Promise<void> {
  const request = await requireConsentRequest(options, interaction);
  const token = consentToken(options.formKeys, interaction.uid, displayedContent(request));
  const refusal = await findRefusal(options, request);
  if (refusal) {
    const values = refusalValues(options, request, {
      action: ctx.path,
      token,
      reason: refusal.reason,
    });
    return options.pages.render(ctx, 'no-access', values, 403);
  }
  const values = consentValues(options, request, { action: ctx.path, token, changed });
  return options.pages.render(ctx, 'consent', values, changed ? 409 : 200);
}

type Refusal = { reason: 'not-entitled' | 'used-up'; description: string };

/** Why the request cannot be approved. Checks for a remaining use without reserving one. */
async function findRefusal(
  options: ConsentOptions,
  request: ConsentRequest,
): Promise<Refusal | undefined> {
  if (request.levels.length === 0)
    return { reason: 'not-entitled', description: NOT_ENTITLED_DESCRIPTION };
  const uses = { now: options.now(), isActive: activeGrantCheck(options) };
  if (await hasUseLeft(request.connector, holderOfRequest(request), uses)) return undefined;
  return { reason: 'used-up', description: USED_UP_DESCRIPTION };
}

function holderOfRequest({ account, client }: ConsentRequest): string {
  return redeemerOf(account.id, client.id);
}

export async function decideConsent(
  options: ConsentOptions,
  ctx: Koa.Context,
  interaction: Interaction,
  form: Record<string, string>,
): Promise<void> {
  const { formKeys } = options;
  const request = await requireConsentRequest(options, interaction);
  const isChanged = !requireConsentToken(formKeys, interaction.uid, form.token).isForContent(
    displayedContent(request),
  );
  const refusal = await findRefusal(options, request);
  switch (form.decision) {
    case 'deny':
      return deny(options, ctx, interaction, request, refusal?.description);
    case 'switch':
      return switchAccount(options, ctx, interaction);
    case 'approve':
      if (isChanged || refusal) return showConsent(options, ctx, interaction, true);
      return approve(options, ctx, interaction, request, form);
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

/** Redirects to the provider choice instead of rendering it, so that the browser's Back button does not resubmit the form. */
function switchAccount(
  options: ConsentOptions,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> | void {
  const loginRequest = loginRequestOf(interaction);
  return options.identityProviders.length > 1
    ? seeOther(ctx, loginRequest.action)
    : startSignIn(options, ctx, loginRequest);
}

/** Also ends the grant of an approval of the same interaction, finished or still running. */
async function deny(
  options: ConsentOptions,
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
  const grantId = grantIdOf(options.formKeys, interaction.uid);
  await denyConnection(options, grantId, facts, Math.ceil(interaction.exp - options.now()));
  await finishDenied(options, ctx, description);
}

function finishDenied(
  { provider }: ConsentOptions,
  ctx: Koa.Context,
  description: string,
): Promise<void> {
  return finishInteraction(provider, ctx, {
    error: 'access_denied',
    error_description: description,
  });
}

async function approve(
  options: ConsentOptions,
  ctx: Koa.Context,
  interaction: Interaction,
  request: ConsentRequest,
  form: Record<string, string>,
): Promise<void> {
  const { level } = form;
  if (!isLevel(level) || !request.levels.includes(level)) {
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  }
  const { store, now } = options;
  const grantId = grantIdOf(options.formKeys, interaction.uid);
  const reservation = {
    grantId,
    holder: holderOfRequest(request),
    reservedUntil: now() + redemptionDeadline(options.lifetimes),
  };
  const uses = { now: now(), isActive: activeGrantCheck(options) };
  if (!(await acquireUse(store, request.connector.id, reservation, uses))) {
    return showConsent(options, ctx, interaction, true);
  }
  const stays =
    options.stayConnected === 'offered' ? form.stay === 'on' : request.requestsOfflineAccess;
  const scopes = [...levelsUpTo(level), ...(stays ? [OFFLINE_ACCESS] : [])];
  const client = { ...request.client, ...snapshotOf(request) };
  const [isNew] = await Promise.all([
    createGrant(options, grantId, { ...request, client, scopes }),
    options.prolongClient(request.client.id),
  ]);
  // A previous approval created the grant but did not finish the interaction: this one may only narrow it.
  if (!isNew && (await narrowConnection(options, grantId, { level, stays })) === undefined) {
    await releaseReservedUse(store, request.connector.id, grantId);
    return finishDenied(options, ctx, DENIED_DESCRIPTION);
  }
  // A concurrent revocation of the client may have listed its grants before this grant existed.
  if ((await revokedSince(store, request.client.id)) !== undefined) {
    await endGrant(store, grantId, 'client_revoked', now());
    await releaseReservedUse(store, request.connector.id, grantId);
    return showConsent(options, ctx, interaction, true);
  }
  await finishInteraction(options.provider, ctx, { consent: { grantId } });
}

function snapshotOf({ client, redirectUri }: ConsentRequest): ClientSnapshot {
  return { name: client.name, redirectHost: redirectDestination(redirectUri) };
}

function activeGrantCheck({ store, lifetimes, now }: ConsentOptions): IsGrantActive {
  return (grantId) => isGrantActive(store, grantId, lifetimes, now());
}
