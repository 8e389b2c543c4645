// The console: pages for administrators on the management host, signed in through the identity provider; they call what the API calls.
import { Router } from '@koa/router';
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import { limitRate } from '../../http/rate-limits.ts';
import { seeOther } from '../../http/see-other.ts';
import { refuseUnseenRequests } from '../../http/unseen-requests.ts';
import { connectorPages } from './connector-pages.ts';
import { requireForm } from './forms.ts';
import { healthPage } from './health-page.ts';
import { listPages } from './list-pages.ts';
import { closeSession, findSession } from './sessions.ts';
import { tokenPages } from './token-pages.ts';
import {
  CALLBACK_PATH,
  choose,
  completeSignIn,
  leave,
  requireProvider,
  SIGN_IN_PATH,
  startSignIn,
} from './sign-in.ts';
import {
  CONSOLE,
  type ConsoleOptions,
  type Formlike,
  type Pagelike,
  type Sections,
} from './visit.ts';
import { requestContext } from '../../http/request-context.ts';

const SIGNED_OUT_PATH = '/console/signed-out';

export function isConsolePath(path: string): boolean {
  return path === CONSOLE || path.startsWith(`${CONSOLE}/`);
}

export function adminConsole(options: ConsoleOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(tightenHeaders);
  signInRoutes(router, options);
  const sections: Sections = {
    page: (path, show) => router.get(CONSOLE + path, visiting(options, show)),
    form: (path, act) => router.post(CONSOLE + path, acting(options, act)),
  };
  sections.page('', async ({ ctx }) => seeOther(ctx, `${CONSOLE}/connectors`));
  connectorPages(sections);
  tokenPages(sections);
  listPages(sections);
  healthPage(sections);
  sections.form('/sign-out', async ({ ctx }) => {
    await closeSession(options, ctx);
    seeOther(ctx, SIGNED_OUT_PATH);
  });
  const routes = router.routes() as Koa.Middleware;
  return async (ctx, next) => {
    if (isConsolePath(ctx.path)) return routes(ctx, next);
    // Whoever types the address of the host in a browser looks for this.
    return ctx.path === '/' && ctx.method === 'GET' ? seeOther(ctx, CONSOLE) : next();
  };
}

function signInRoutes(router: Router, options: ConsoleOptions): void {
  const bounded = [refuseUnseenRequests('GET'), limitRate(options.rateLimit)];
  const { pages } = options;
  // Whoever asks for this may be about to be somebody else, whom the identity provider does not ask for by itself.
  router.get(SIGN_IN_PATH, ...bounded, (ctx) => {
    const [provider, ...others] = options.signIn.providers;
    const isOnly = provider && others.length === 0;
    return isOnly ? leave(options, ctx, provider, 'switch') : choose(options, ctx);
  });
  router.get(`${SIGN_IN_PATH}/:provider`, ...bounded, (ctx) =>
    leave(options, ctx, requireProvider(options, ctx.params.provider), 'switch'),
  );
  for (const path of [CALLBACK_PATH, `${CALLBACK_PATH}/:provider`])
    router.get(path, ...bounded, notAdministratorAsPage(options), (ctx) =>
      completeSignIn(options, ctx),
    );
  router.get(SIGNED_OUT_PATH, (ctx) =>
    pages.render(ctx, 'console/signed-out', { reason: 'signed-out', signIn: SIGN_IN_PATH }),
  );
}

function visiting(options: ConsoleOptions, show: Pagelike): Koa.Middleware {
  const refusing = notAdministratorAsPage(options);
  return (ctx) =>
    refusing(ctx, async () => {
      const session = await findSession(options, ctx);
      if (!session) return beginSignIn(options, ctx);
      await show({ options: { ...options, by: session.account.id }, ctx, session });
    });
}

async function beginSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  await refuseUnseenRequests('GET')(ctx, async () => {});
  await limitRate(options.rateLimit)(ctx, async () => {});
  await startSignIn(options, ctx);
}

/** Whoever is not signed in any more sees what there is first, and decides again. */
function acting(options: ConsoleOptions, act: Formlike): Koa.Middleware {
  return async (ctx) => {
    const session = await findSession(options, ctx);
    if (!session) return seeOther(ctx, CONSOLE);
    const form = await requireForm(ctx, session);
    await act({ options: { ...options, by: session.account.id }, ctx, session }, form);
  };
}

function notAdministratorAsPage({ pages }: ConsoleOptions): Koa.Middleware {
  return async function refusedAsPage(ctx, next) {
    try {
      await next();
    } catch (error) {
      if (!(error instanceof HttpError) || error.code !== 'not_administrator') throw error;
      requestContext(ctx).failure = { code: error.code };
      const values = { reason: 'not-administrator', signIn: SIGN_IN_PATH } as const;
      await pages.render(ctx, 'console/signed-out', values, error.status);
    }
  };
}

/** Unlike consent, forms here never lead to another site, and no other page has a reason to open this one in a window of its own. */
async function tightenHeaders(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  const policy = ctx.response.get('Content-Security-Policy');
  ctx.set('Content-Security-Policy', `${policy};form-action 'self'`);
  ctx.set('Cross-Origin-Opener-Policy', 'same-origin');
  ctx.set('Cache-Control', 'no-store');
  await next();
}
