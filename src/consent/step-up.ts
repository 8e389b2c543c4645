// Approvals that need another sign-in first (RFC 9470).
import type Koa from 'koa';
import type { Authentication } from '../people/step-up.ts';
import { recordAudit } from '../audit/audit.ts';
import type { ApprovalForm } from '../sign-in/login-state.ts';
import { printable } from '../printable-text.ts';
import {
  finishInteraction,
  type Interaction,
  type InteractionContext,
  type SignInResult,
  type StepUpFailure,
} from './interaction.ts';
import { approve, recordLevelGone } from './decide.ts';
import {
  findRefusal,
  requireOfferedLevel,
  type ConsentRequest,
  requireConsentRequest,
} from './load.ts';
import { displayedContent, requireConsentToken } from './token.ts';

const MAX_LOGGED_ACR = 200;

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
  const refusal = await findRefusal(context, request);
  if (change && !refusal) await recordLevelGone(context, ctx, request, form.level);
  if (change || refusal) return change ?? 'levels';
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
