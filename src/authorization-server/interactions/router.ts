// Routes of an interaction: sign-in, callback, consent.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { readForm } from '../../http/body.ts';
import { HttpError, notFound } from '../../http/errors.ts';
import { limitRate, type RateLimit } from '../../http/rate-limits.ts';
import { requireNavigation } from '../../http/fetch-metadata.ts';
import { ACCOUNT_PATH, isAccountLogin } from './account-session.ts';
import { type ConsentOptions, decideConsent, showConsent } from './consent.ts';
import { findConsentResult } from './consent-result.ts';
import { CALLBACK_PATH, requireInteraction, requireSameOrigin } from './interaction.ts';
import { showProviderChoice } from './provider-choice.ts';
import { requireAllowedClient } from './consent-request.ts';
import { handleResubmission, showOutcome } from './resubmission.ts';
import {
  completeSignIn,
  loginRequestOf,
  forwardCallback,
  startSignInAt,
  startSignIn,
} from './sign-in.ts';

export type InteractionOptions = ConsentOptions & { authUrl: string; rateLimit: RateLimit };

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
        throw new HttpError(400, 'expired', 'nobody is signed in yet');
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
    return showProviderChoice(
      options,
      ctx,
      loginRequestOf(await requireAllowedInteraction(ctx)).action,
    );
  });
  router.post('/interaction/:uid/sign-in', async (ctx) => {
    requireSameOrigin(ctx, options.authUrl);
    const { provider } = await readForm(ctx);
    return startSignInAt(
      options,
      ctx,
      loginRequestOf(await requireAllowedInteraction(ctx)),
      provider,
    );
  });
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
