// Routes of an interaction: sign-in, callback, consent.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { readForm } from '../../http/body.ts';
import { HttpError, notFound } from '../../http/errors.ts';
import { limitRate, type RateLimit } from '../../http/rate-limits.ts';
import { requireNavigation } from '../../http/fetch-metadata.ts';
import {
  forwardCallback,
  handleCallback,
  showProviderChoice,
  startSignIn,
  startSignInAt,
} from '../../identity-providers/sign-in.ts';
import { ACCOUNT_PATH, isAccountLogin } from './account-session.ts';
import {
  type ConsentOptions,
  decideConsent,
  requireAllowedClient,
  showConsent,
} from './consent.ts';
import {
  CALLBACK_PATH,
  finishInteraction,
  type Interaction,
  loginRequestOf,
  requireEnabledBefore,
  requireInteraction,
  requireSameOrigin,
} from './interaction.ts';
import { findConsentResult, handleResubmission, showOutcome } from './resubmission.ts';

export type InteractionOptions = ConsentOptions & {
  authUrl: string;
  rateLimit: RateLimit;
  /** In seconds. */
  sessionLifetime: number;
};

export function interactions(options: InteractionOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(requireNavigation('GET, POST'));
  router.use(limitRate(options.rateLimit));
  router.get([CALLBACK_PATH, `${CALLBACK_PATH}/:provider`], (ctx) =>
    forwardCallback(options, ctx, (uid) =>
      isAccountLogin(uid) ? ACCOUNT_PATH : `/interaction/${uid}`,
    ),
  );
  router.use('/interaction/:uid', showOutcomeIfFinished(options));
  router.get('/interaction/:uid', async (ctx) => {
    const interaction = await requireInteraction(options.provider, ctx, String(ctx.params.uid));
    if (interaction.prompt.name === 'consent') return showConsent(options, ctx, interaction);
    await requireAllowedClient(options.store, String(interaction.params.client_id));
    return startSignIn(options, ctx, loginRequestOf(interaction));
  });
  router.post('/interaction/:uid', async (ctx) => {
    requireSameOrigin(ctx, options.authUrl);
    const uid = String(ctx.params.uid);
    const form = await readForm(ctx);
    try {
      const interaction = await requireInteraction(options.provider, ctx, uid);
      if (interaction.prompt.name !== 'consent')
        throw new HttpError(400, 'expired', 'no person has signed in yet');
      await decideConsent(options, ctx, interaction, form);
    } catch (error) {
      if (!isExpired(error) || !(await handleResubmission(options, ctx, uid, form))) throw error;
    }
  });
  const callback = '/interaction/:uid/callback';
  router.get([callback, `${callback}/:provider`], async (ctx) => {
    const interaction = await requireInteraction(options.provider, ctx, String(ctx.params.uid));
    return completeSignIn(options, ctx, interaction);
  });
  providerChoiceRoutes(router, options);
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (ctx.path.startsWith('/interaction/') ? routes(ctx, next) : next());
}

function providerChoiceRoutes(router: Router, options: InteractionOptions): void {
  const requireAllowedInteraction = async (ctx: Koa.Context) => {
    const interaction = await requireInteraction(options.provider, ctx, String(ctx.params.uid));
    await requireAllowedClient(options.store, String(interaction.params.client_id));
    return interaction;
  };
  router.get('/interaction/:uid/sign-in', async (ctx) => {
    if (options.identityProviders.length < 2) throw notFound();
    const interaction = await requireAllowedInteraction(ctx);
    return showProviderChoice(options, ctx, loginRequestOf(interaction));
  });
  router.post('/interaction/:uid/sign-in', async (ctx) => {
    requireSameOrigin(ctx, options.authUrl);
    const { provider } = await readForm(ctx);
    const interaction = await requireAllowedInteraction(ctx);
    return startSignInAt(options, ctx, loginRequestOf(interaction), provider);
  });
}

function completeSignIn(
  options: InteractionOptions,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> {
  return handleCallback(options, ctx, loginRequestOf(interaction), async (account) => {
    const { id } = account;
    const ts = Math.floor(options.now());
    requireEnabledBefore(account, ts);
    await finishInteraction(options.provider, ctx, { login: { accountId: id, ts } });
    await switchAccount(options, ctx, id);
  });
}

/** The engine does not resume a session under another account, so the account is changed before it resumes. */
async function switchAccount(
  { provider, sessionLifetime, now }: InteractionOptions,
  ctx: Koa.Context,
  accountId: string,
): Promise<void> {
  const session = await provider.Session.get(ctx);
  if (session.accountId === undefined || session.accountId === accountId) return;
  session.authorizations = {};
  session.loginAccount({ accountId, loginTs: Math.floor(now()) });
  await session.save(sessionLifetime);
}

/** For an interaction that this browser has finished, shows its outcome in place of the error `expired`. */
function showOutcomeIfFinished(options: InteractionOptions): Koa.Middleware {
  return async function outcomeShown(ctx, next) {
    try {
      await next();
    } catch (error) {
      if (!isExpired(error)) throw error;
      const uid = String(ctx.params.uid);
      const result = await findConsentResult(options, ctx, uid, { isFinishing: false });
      if (!result) throw error;
      await showOutcome(options, ctx, result.outcome, error.status);
    }
  };
}

function isExpired(error: unknown): error is HttpError {
  return error instanceof HttpError && error.code === 'expired';
}
