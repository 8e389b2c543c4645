// The browser's side of an authorization: sign in, be asked, decide.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import { limitRate, type RateLimit } from '../../http/rate-limits.ts';
import { refuseUnseenRequests } from '../../http/unseen-requests.ts';
import { ACCOUNT_PATH, isAccountTrip } from './account-session.ts';
import { type ConsentOptions, decideConsent, showConsent } from './consent.ts';
import { findAnswer, findOutcome, requireFlow, requireOwnForm, seeOther } from './flow.ts';
import { requireAllowedClient } from './request.ts';
import { completeSignIn, passToFlow, startSignIn } from './sign-in.ts';

export const CALLBACK_PATH = '/interaction/callback';

export type InteractionOptions = ConsentOptions & { authUrl: string; rateLimit: RateLimit };

export function interactions(options: InteractionOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(refuseUnseenRequests('GET, POST'));
  router.use(limitRate(options.rateLimit));
  router.get(CALLBACK_PATH, (ctx) =>
    passToFlow(ctx, (uid) => (isAccountTrip(uid) ? ACCOUNT_PATH : `/interaction/${uid}`)),
  );
  router.use('/interaction/:uid', doneInsteadOfExpired(options));
  router.get('/interaction/:uid', async (ctx) => {
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    if (flow.prompt.name === 'consent') return showConsent(options, ctx, flow);
    await requireAllowedClient(options.store, String(flow.params.client_id));
    const isAsked = flow.prompt.reasons.includes('login_prompt');
    return startSignIn(options, ctx, flow, isAsked ? 'login' : undefined);
  });
  router.post('/interaction/:uid', async (ctx) => {
    requireOwnForm(ctx, options.authUrl);
    const answer = await findAnswer(options, ctx, String(ctx.params.uid));
    if (answer !== undefined) return seeOther(ctx, answer);
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    if (flow.prompt.name !== 'consent')
      throw new HttpError(400, 'expired', 'nobody is signed in yet');
    return decideConsent(options, ctx, flow);
  });
  router.get('/interaction/:uid/callback', async (ctx) => {
    const flow = await requireFlow(options.provider, ctx, String(ctx.params.uid));
    return completeSignIn(options, ctx, flow);
  });
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (ctx.path.startsWith('/interaction/') ? routes(ctx, next) : next());
}

/** Who comes back to a flow that they have answered is told so, and not that something is wrong. */
function doneInsteadOfExpired(options: InteractionOptions): Koa.Middleware {
  return async function doneAsPage(ctx, next) {
    try {
      await next();
    } catch (error) {
      if (!(error instanceof HttpError) || error.code !== 'expired') throw error;
      const outcome = await findOutcome(options, ctx, String(ctx.params.uid));
      if (!outcome) throw error;
      await options.pages.render(ctx, 'done', outcome, error.status);
    }
  };
}
