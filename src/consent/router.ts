// Routes of an interaction: sign-in, callback, consent.
import { Router } from '@koa/router';
import type Koa from 'koa';
import type { Account } from '../people/account.ts';
import { readForm } from '../http/body.ts';
import { requireSameOrigin } from '../http/same-origin.ts';
import { HttpError, notFound } from '../http/errors.ts';
import { seeOther } from '../http/see-other.ts';
import { limitRate, withinLimit } from '../http/rate-limits.ts';
import { requireNavigation } from '../http/fetch-metadata.ts';
import {
  type CompletedSignIn,
  forwardCallback,
  handleCallback,
  showProviderChoice,
  startSignIn,
  startSignInAt,
} from '../sign-in/sign-in.ts';
import { noteAttempt } from '../oauth/engine/engine-request.ts';
import { ACCOUNT_PATH, isAccountLogin } from './account-session.ts';
import { continueAfterCredential, decideConsent, showConsent } from './decide.ts';
import { beginReads, refuseEndedClient, withBegunReads } from './load.ts';
import { continueApproval, stopApproval } from './step-up.ts';
import {
  finishInteraction,
  type Interaction,
  type InteractionContext,
  loginRequestOf,
  raisedConnection,
  requireInteraction,
} from './interaction.ts';
import { CALLBACK_PATH } from './callback-path.ts';
import { NothingToRaise, resumeRaise } from './raise.ts';
import { findConsentResult, handleResubmission, showOutcome } from './resubmission.ts';

export function interactions(context: InteractionContext): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(requireNavigation('GET, POST'));
  const limitCallbacks = limitRate(context.services.rateLimits.signIns);
  router.get([CALLBACK_PATH, `${CALLBACK_PATH}/:provider`], limitCallbacks, (ctx) =>
    forwardCallback(context.site, ctx, (uid) =>
      isAccountLogin(uid) ? ACCOUNT_PATH : `/interaction/${uid}`,
    ),
  );
  router.use('/interaction/:uid', showOutcomeIfFinished(context));
  router.get('/interaction/:uid', async (ctx) => {
    const interaction = await interactionWithReads(context, ctx);
    if (interaction.prompt.name === 'consent') return showConsent(context, ctx, interaction);
    await refuseEndedApp(context, interaction);
    return startSignIn(context.site, ctx, loginRequestOf(interaction));
  });
  router.post('/interaction/:uid', async (ctx) => {
    requireSameOrigin(ctx, context.settings.authUrl);
    const uid = String(ctx.params.uid);
    const form = await readForm(ctx);
    try {
      const interaction = await interactionWithReads(context, ctx);
      if (interaction.prompt.name !== 'consent')
        throw new HttpError(400, 'expired', 'nobody has signed in yet');
      await decideConsent(context, ctx, interaction, form);
    } catch (error) {
      if (!isExpired(error) || !(await handleResubmission(context, ctx, uid, form))) throw error;
    }
  });
  router.get('/interaction/:uid/raise', async (ctx) => {
    const interaction = await interactionOf(context, ctx);
    if (raisedConnection(interaction) === undefined) throw notFound();
    return resumeRaise(ctx, interaction);
  });
  router.get('/interaction/:uid/credential', async (ctx) => {
    const interaction = await interactionOf(context, ctx);
    if (interaction.prompt.name !== 'consent') throw notFound();
    return continueAfterCredential(context, ctx, interaction);
  });
  const callback = '/interaction/:uid/callback';
  router.get([callback, `${callback}/:provider`], async (ctx) => {
    const interaction = await interactionOf(context, ctx);
    return completeSignIn(context, ctx, interaction);
  });
  providerChoiceRoutes(router, context);
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (ctx.path.startsWith('/interaction/') ? routes(ctx, next) : next());
}

/** Counts the request. Every route of an interaction calls this or `interactionWithReads` before anything else that costs something. */
async function interactionOf(
  { engine, services: { rateLimits } }: InteractionContext,
  ctx: Koa.Context,
  begin: () => Interaction['begunReads'] = () => undefined,
): Promise<Interaction> {
  const read = async (): Promise<Interaction> => {
    const begunReads = begin();
    const interaction = await requireInteraction(engine.provider(), ctx, String(ctx.params.uid));
    return Object.assign(interaction, { begunReads });
  };
  const interaction = await withinLimit(rateLimits.signIns, ctx, read);
  if (!interaction) throw new Error('an interaction is found or rejected');
  return interaction;
}

/** For routes that read at once what the interaction names: after a request to an identity provider, these reads would be old. */
function interactionWithReads(context: InteractionContext, ctx: Koa.Context): Promise<Interaction> {
  return interactionOf(context, ctx, () => beginReads(context, String(ctx.params.uid)));
}

function refuseEndedApp(context: InteractionContext, interaction: Interaction): Promise<void> {
  const { client_id: id } = interaction.params;
  return refuseEndedClient(withBegunReads(context, interaction), String(id));
}

function providerChoiceRoutes(router: Router, context: InteractionContext): void {
  const requireOpenInteraction = async (ctx: Koa.Context) => {
    const interaction = await interactionOf(context, ctx);
    await refuseEndedApp(context, interaction);
    return interaction;
  };
  router.get('/interaction/:uid/sign-in', async (ctx) => {
    if (context.site.identityProviders.length < 2) throw notFound();
    const interaction = await requireOpenInteraction(ctx);
    return showProviderChoice(context.site, ctx, loginRequestOf(interaction));
  });
  router.post('/interaction/:uid/sign-in', async (ctx) => {
    requireSameOrigin(ctx, context.settings.authUrl);
    const { provider } = await readForm(ctx);
    const interaction = await requireOpenInteraction(ctx);
    return startSignInAt(context.site, ctx, loginRequestOf(interaction), provider);
  });
}

function completeSignIn(
  context: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> {
  const done = async (account: Account, { approval, authentication }: CompletedSignIn) => {
    const { id: accountId, signedInAt: ts } = account;
    noteAttempt(ctx, { account: accountId, groups: account.groups });
    const signIn = { login: { accountId, ts }, authentication };
    const stepUpFailure =
      approval && (await continueApproval(context, ctx, interaction, signIn, approval));
    if (approval && !stepUpFailure) return;
    await finishInteraction(context, ctx, interaction, { ...signIn, stepUpFailure });
    await switchAccount(context, ctx, account);
  };
  const stopped = () => stopApproval(context, ctx, interaction);
  return handleCallback(context.site, ctx, loginRequestOf(interaction), done, stopped);
}

/** The engine does not resume a session under another account, so the account is changed before it resumes. */
async function switchAccount(
  { settings, engine }: InteractionContext,
  ctx: Koa.Context,
  { id: accountId, signedInAt: loginTs }: Account,
): Promise<void> {
  const session = await engine.provider().Session.get(ctx);
  if (session.accountId === undefined || session.accountId === accountId) return;
  session.authorizations = {};
  session.loginAccount({ accountId, loginTs });
  await session.save(settings.lifetimes.session);
}

/** For an interaction that this browser has finished, shows its outcome in place of the error `expired`. */
function showOutcomeIfFinished(context: InteractionContext): Koa.Middleware {
  return async function outcomeShown(ctx, next) {
    try {
      await next();
    } catch (error) {
      if (error instanceof NothingToRaise) return seeOther(ctx, ACCOUNT_PATH);
      if (!isExpired(error)) throw error;
      const uid = String(ctx.params.uid);
      const result = await findConsentResult(context, ctx, uid, { isFinishing: false });
      if (!result) throw error;
      await showOutcome(context, ctx, result.outcome, error.status);
    }
  };
}

function isExpired(error: unknown): error is HttpError {
  return (
    error instanceof HttpError && (error.code === 'expired' || error.code === 'device_expired')
  );
}
