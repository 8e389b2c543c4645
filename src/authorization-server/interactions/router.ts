// The browser's side of an authorization: sign in, be asked, decide.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { readForm } from '../../http/body.ts';
import { HttpError, notFound } from '../../http/errors.ts';
import { limitRate, type RateLimit } from '../../http/rate-limits.ts';
import { seeOther } from '../../http/see-other.ts';
import { refuseUnseenRequests } from '../../http/unseen-requests.ts';
import { ACCOUNT_PATH, isAccountTrip } from './account-session.ts';
import { type ConsentOptions, decideConsent, showConsent } from './consent.ts';
import { findAnswer, findOutcome, requireFlow, requireOwnForm } from './flow.ts';
import { CALLBACK_PATH } from './identity-providers.ts';
import { showChoice } from './provider-choice.ts';
import { requireAllowedClient } from './request.ts';
import { completeSignIn, flowTrip, passToFlow, signInAt, startSignIn } from './sign-in.ts';

export type InteractionOptions = ConsentOptions & { authUrl: string; rateLimit: RateLimit };

export function interactions(options: InteractionOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(refuseUnseenRequests('GET, POST'));
  router.use(limitRate(options.rateLimit));
  router.get([CALLBACK_PATH, `${CALLBACK_PATH}/:provider`], (ctx) =>
    passToFlow(options, ctx, (uid) => (isAccountTrip(uid) ? ACCOUNT_PATH : `/interaction/${uid}`)),
  );
  router.use('/interaction/:uid', doneInsteadOfExpired(options));
  router.get('/interaction/:uid', async (ctx) => {
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    if (flow.prompt.name === 'consent') return showConsent(options, ctx, flow);
    await requireAllowedClient(options.store, String(flow.params.client_id));
    return startSignIn(options, ctx, flowTrip(flow));
  });
  router.post('/interaction/:uid', answerInsteadOfExpired(options), async (ctx) => {
    requireOwnForm(ctx, options.authUrl);
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    if (flow.prompt.name !== 'consent')
      throw new HttpError(400, 'expired', 'nobody is signed in yet');
    return decideConsent(options, ctx, flow);
  });
  const callback = '/interaction/:uid/callback';
  router.get([callback, `${callback}/:provider`], async (ctx) => {
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    return completeSignIn(options, ctx, flow);
  });
  choices(router, options);
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (ctx.path.startsWith('/interaction/') ? routes(ctx, next) : next());
}

/** Where to sign in: a page, and its form. */
function choices(router: Router, options: InteractionOptions): void {
  const flowOf = async (ctx: Koa.Context) => {
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    await requireAllowedClient(options.store, String(flow.params.client_id));
    return flow;
  };
  router.get('/interaction/:uid/sign-in', async (ctx) => {
    if (options.identityProviders.length < 2) throw notFound();
    return showChoice(options, ctx, flowTrip(await flowOf(ctx)).action);
  });
  router.post('/interaction/:uid/sign-in', async (ctx) => {
    requireOwnForm(ctx, options.authUrl);
    const { provider } = await readForm(ctx);
    return signInAt(options, ctx, flowTrip(await flowOf(ctx)), provider);
  });
}

/** The second of two clicks goes where the first did. */
function answerInsteadOfExpired(options: InteractionOptions): Koa.Middleware {
  return insteadOfExpired(async (ctx) => {
    const answer = await findAnswer(options, ctx, String(ctx.params.uid));
    if (answer !== undefined) seeOther(ctx, answer);
    return answer !== undefined;
  });
}

/** Who comes back to a flow that they have answered is told so, and not that something is wrong. */
function doneInsteadOfExpired(options: InteractionOptions): Koa.Middleware {
  return insteadOfExpired(async (ctx, { status }) => {
    const outcome = await findOutcome(options, ctx, String(ctx.params.uid));
    if (outcome) await options.pages.render(ctx, 'done', outcome, status);
    return outcome !== undefined;
  });
}

/** `answer` resolves to whether it did. */
function insteadOfExpired(
  answer: (ctx: Koa.Context, error: HttpError) => Promise<boolean>,
): Koa.Middleware {
  return async function expiredAnswered(ctx, next) {
    try {
      await next();
    } catch (error) {
      const isExpired = error instanceof HttpError && error.code === 'expired';
      if (!isExpired || !(await answer(ctx, error))) throw error;
    }
  };
}
