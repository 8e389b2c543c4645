// The consent page and the decision (RFC 6749 section 4.1.1). An approval is valid only for the content that the page displayed.
import type Koa from 'koa';
import { isSessionRecent } from '../people/recheck.ts';
import { providerOf } from '../people/step-up.ts';
import { recordAudit } from '../audit/audit.ts';
import { appVersion } from '../clients/clients.ts';
import { denyConnection, narrowConnection } from '../connections/connections.ts';
import { isUnlimited } from '../links/connector.ts';
import { releaseReservedUse, acquireUse } from '../links/connectors.ts';
import { createGrant } from '../connections/create-grant.ts';
import { redemptionDeadline } from '../connections/grant-lifetime.ts';
import { HttpError } from '../http/errors.ts';
import { requestContext } from '../http/request-context.ts';
import { seeOther } from '../http/see-other.ts';
import type { ApprovalForm } from '../sign-in/login-state.ts';
import { startSignIn, startSignInAt } from '../sign-in/sign-in.ts';
import { saveInteractionResult } from '../oauth/engine/adapter.ts';
import { DENIED_DESCRIPTION } from '../oauth/engine/errors.ts';
import { noteAttempt } from '../oauth/engine/engine-request.ts';
import { levelsUpTo, OFFLINE_ACCESS } from '../permission-levels.ts';
import {
  finishInteraction,
  type Interaction,
  type InteractionContext,
  loginRequestOf,
  resumeInteraction,
  type SignInResult,
  signInResult,
  type ContentPart,
} from './interaction.ts';
import {
  findRefusal,
  holderOfRequest,
  requireOfferedLevel,
  snapshotOf,
  activeGrantCheck,
  type ConsentRequest,
  requireConsentRequest,
} from './load.ts';
import { recordRefusal } from './refusals.ts';
import { isFor } from '../credentials/credential.ts';
import { findCredential } from '../credentials/credentials.ts';
import {
  beginCredential,
  type CredentialTrouble,
  credentialUpstream,
  pageValues as credentialValues,
  troubleIn,
  type UpstreamWithCredential,
} from './credentials.ts';
import { approveRaise, finishRaise, NothingToRaise } from './raise.ts';
import { requireSignedIn } from './signed-in.ts';
import { displayedContent, consentToken, requireConsentToken, grantIdOf } from './token.ts';
import { accountValues, isContentPart, consentValues, refusalValues } from './values.ts';

/** Between the expiry of a device's code and the end of its reserved use. */
const CODE_MARGIN_SECONDS = 10;

export async function showConsent(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  change?: ContentPart,
): Promise<void> {
  const failure = change ?? signInResult(interaction).stepUpFailure;
  const action = `/interaction/${interaction.uid}`;
  if (isRaised(interaction)) return seeOther(ctx, interaction.returnTo);
  const request = await requireConsentRequest(context, interaction);
  noteConsent(ctx, request);
  const token = consentToken(
    context.services.keys.forms,
    interaction.uid,
    displayedContent(request),
  );
  const refusal = await findRefusal(context, request);
  if (refusal) {
    const { reason } = refusal;
    const reference = await recordRefusal(context, ctx, { reason, ...partiesOf(request) });
    const values = refusalValues(context, request, {
      action,
      token,
      reason: refusal.page,
      reference,
    });
    return context.services.pages.render(ctx, 'no-access', values, 403);
  }
  if (request.levels.length === 0) throw new NothingToRaise();
  const { address } = requestContext(ctx);
  const values = consentValues(context, request, { action, token, failure, address });
  const status = failure === undefined ? 200 : isContentPart(failure) ? 409 : 403;
  return context.services.pages.render(ctx, 'consent', values, status);
}

/** A repeated form of an approval that has raised its connection. */
function isRaised(interaction: Interaction): boolean {
  return (interaction.result as SignInResult | undefined)?.raised !== undefined;
}

function noteConsent(ctx: Koa.Context, { client, connector, account }: ConsentRequest): void {
  noteAttempt(ctx, {
    step: 'consent',
    clientName: client.name,
    connector: connector.id,
    account: account.id,
    groups: account.groups,
  });
}

export async function decideConsent(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  form: Record<string, string>,
): Promise<void> {
  const { forms: formKeys } = context.services.keys;
  if (isRaised(interaction)) return seeOther(ctx, interaction.returnTo);
  const request = await requireConsentRequest(context, interaction);
  const change = requireConsentToken(formKeys, interaction.uid, form.token).changeTo(
    displayedContent(request),
  );
  const refusal = await findRefusal(context, request);
  switch (form.decision) {
    case 'deny':
      return deny(context, ctx, interaction, request, refusal);
    case 'switch':
      // A connection stays with the person who made it.
      if (request.raise) throw new NothingToRaise();
      return switchAccount(context, ctx, interaction);
    case 'approve':
      if (request.raise && request.raise.level === form.level)
        return finishRaise(context, ctx, interaction, request.raise);
      if (change || refusal) {
        if (!refusal) await recordLevelGone(context, ctx, request, form.level);
        return showConsent(context, ctx, interaction, change ?? 'levels');
      }
      if (!isSignInRecent(context, request)) return signInAgain(context, ctx, interaction, request);
      const { needsSignIn } = requireOfferedLevel(request, form.level);
      if (await asksForCredential(context, ctx, interaction, request, form)) return;
      return needsSignIn
        ? startStepUp(context, ctx, interaction, request, form)
        : approve(context, ctx, interaction, request, form);
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

const approvalKey = (uid: string) => `credential-approval:${uid}`;

/** Before the app gets its code, the person is asked for the own account at the server behind the connector. Returns whether a response was sent. */
async function asksForCredential(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  { account, connector }: ConsentRequest,
  form: Record<string, string>,
): Promise<boolean> {
  const { settings, services } = context;
  const upstream = credentialUpstream(settings, connector);
  if (!upstream || form.credential === 'later') return false;
  // The sign-in gave it.
  if (upstream.credential.kind === 'exchange') return false;
  const owner = { account: account.id, upstream: upstream.id };
  const known = await findCredential(services.store, owner);
  if (known && isFor(known, upstream)) return false;
  const { token = '', level = '', stay } = form;
  const approval: ApprovalForm = { token, level, ...(stay === undefined ? {} : { stay }) };
  const show = (trouble?: CredentialTrouble) =>
    showCredentialPage(context, ctx, interaction, {
      upstream,
      account,
      connector,
      approval,
      trouble,
    });
  if (form.credential !== 'now') {
    await show();
    return true;
  }
  await requireSignedIn(context, interaction, account, signInResult(interaction));
  const ttl = Math.ceil(interaction.exp - services.now());
  await services.store.set(approvalKey(interaction.uid), approval, ttl);
  const began = await beginCredential(context, ctx, {
    account: account.id,
    upstream,
    level,
    returnTo: `/interaction/${interaction.uid}/credential`,
    key: form.key,
  });
  if (typeof began === 'string') await show(began);
  else seeOther(ctx, began.location);
  return true;
}

type AskedFor = {
  upstream: UpstreamWithCredential;
  account: ConsentRequest['account'];
  connector: ConsentRequest['connector'];
  approval: ApprovalForm;
  trouble: CredentialTrouble | undefined;
};

async function showCredentialPage(
  context: InteractionContext,
  ctx: Koa.Context,
  { uid }: Interaction,
  { upstream, account, connector, approval, trouble }: AskedFor,
): Promise<void> {
  const fields = Object.entries({ decision: 'approve', ...approval }).map(([name, value]) => ({
    name,
    value,
  }));
  const values = {
    ...credentialValues(context, upstream, approval.level ?? '', connector.name),
    action: `/interaction/${uid}`,
    fields,
    account: accountValues(context.site.identityProviders, account),
    ...(trouble ? { trouble } : {}),
  };
  await context.services.pages.render(ctx, 'credential', values, trouble ? 400 : 200);
}

/** Goes on with the approval when the person comes back from the service. */
export async function continueAfterCredential(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> {
  const approval = (await context.services.store.get<ApprovalForm>(approvalKey(interaction.uid)))
    ?.value;
  if (!approval) return showConsent(context, ctx, interaction);
  const trouble = troubleIn(ctx.query.trouble);
  if (!trouble)
    return decideConsent(context, ctx, interaction, {
      ...approval,
      decision: 'approve',
      credential: 'later',
    });
  const { account, connector } = await requireConsentRequest(context, interaction);
  const upstream = credentialUpstream(context.settings, connector);
  if (!upstream) return showConsent(context, ctx, interaction);
  const asked = { upstream, account, connector, approval, trouble };
  return showCredentialPage(context, ctx, interaction, asked);
}

/** The person chose a level that was taken away while the page was open. */
export async function recordLevelGone(
  context: InteractionContext,
  ctx: Koa.Context,
  request: ConsentRequest,
  chosen: string | undefined,
): Promise<void> {
  if (request.levels.some(({ level }) => level === chosen)) return;
  await recordRefusal(context, ctx, { reason: 'level_gone', ...partiesOf(request) });
}

function partiesOf({ account, client, connector }: ConsentRequest) {
  return { account: account.id, clientId: client.id, connector: connector.id };
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

/** Also ends the grant of an approval of the same interaction, finished or still running. */
async function deny(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  request: ConsentRequest,
  refusal: { description: string } | undefined,
): Promise<void> {
  // The connection keeps what it has.
  if (request.raise) return finishDenied(context, ctx, interaction, DENIED_DESCRIPTION);
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
  // Leaving the page of a refusal denies nothing.
  if (isFirst && !refusal) await recordDenial(context, grantId, request);
  await finishDenied(context, ctx, interaction, refusal?.description ?? DENIED_DESCRIPTION);
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

export async function approve(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  request: ConsentRequest,
  form: ApprovalForm,
  signIn: SignInResult = {},
): Promise<void> {
  const { level } = requireOfferedLevel(request, form.level);
  if (request.raise) {
    const isChanged = await approveRaise(context, ctx, interaction, request.raise, level);
    return isChanged ? showConsent(context, ctx, interaction, 'levels') : undefined;
  }
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
  const result = { ...signIn, consent: { grantId } };
  // A result without a grant approves nothing: the engine asks again.
  const [isNew, isSaved] = await Promise.all([
    createGrant(
      {
        store,
        now,
        lifetimes: engine.grantLifetimes,
        grantLifetime: settings.lifetimes.refreshTokenAbsolute,
      },
      grantId,
      { ...request, client, scopes, callerClaims: request.learned?.claims ?? [] },
    ),
    saveInteractionResult(store, interaction.uid, result),
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
  resumeInteraction(ctx, interaction, isSaved);
}
