import { Router } from '@koa/router';
import type Koa from 'koa';
import { HttpError } from '../../http/errors.ts';
import { limitRate } from '../../http/rate-limits.ts';
import { seeOther } from '../../http/see-other.ts';
import { requireNavigation } from '../../http/fetch-metadata.ts';
import { connectorPages } from './connector-pages.ts';
import {
  CONSOLE_PATH,
  type ConsoleOptions,
  type ConsoleRoutes,
  type FormHandler,
  type Page,
} from './context.ts';
import { requireForm } from './forms.ts';
import { healthPage } from './health-page.ts';
import { listPages } from './list-pages.ts';
import { closeSession, findSession } from './sessions.ts';
import { tokenPages } from './token-pages.ts';
import {
  CALLBACK_PATH,
  completeConsoleSignIn,
  SIGN_IN_PATH,
  startConsoleSignIn,
  startConsoleSignInAt,
  switchConsoleAccount,
} from './sign-in.ts';
import { requestContext } from '../../http/request-context.ts';

const SIGNED_OUT_PATH = '/console/signed-out';

export function isConsolePath(path: string): boolean {
  return path === CONSOLE_PATH || path.startsWith(`${CONSOLE_PATH}/`);
}

export function adminConsole(options: ConsoleOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(setSecurityHeaders);
  signInRoutes(router, options);
  const routes: ConsoleRoutes = {
    page: (path, show) => router.get(CONSOLE_PATH + path, pageMiddleware(options, show)),
    form: (path, handle) => router.post(CONSOLE_PATH + path, formMiddleware(options, handle)),
  };
  routes.page('', async ({ ctx }) => seeOther(ctx, `${CONSOLE_PATH}/connectors`));
  connectorPages(routes);
  tokenPages(routes);
  listPages(routes);
  healthPage(routes);
  routes.form('/sign-out', async ({ ctx }) => {
    await closeSession(options, ctx);
    seeOther(ctx, SIGNED_OUT_PATH);
  });
  const dispatch = router.routes() as Koa.Middleware;
  return async (ctx, next) => {
    if (isConsolePath(ctx.path)) return dispatch(ctx, next);
    // A person who opens the bare address of the host is looking for the console.
    return ctx.path === '/' && ctx.method === 'GET' ? seeOther(ctx, CONSOLE_PATH) : next();
  };
}

function signInRoutes(router: Router, options: ConsoleOptions): void {
  const guards = [requireNavigation('GET'), limitRate(options.rateLimit)];
  const { pages } = options;
  router.get(SIGN_IN_PATH, ...guards, (ctx) => switchConsoleAccount(options, ctx));
  router.get(`${SIGN_IN_PATH}/:provider`, ...guards, (ctx) =>
    startConsoleSignInAt(options, ctx, ctx.params.provider),
  );
  for (const path of [CALLBACK_PATH, `${CALLBACK_PATH}/:provider`])
    router.get(path, ...guards, renderNotAdministrator(options), (ctx) =>
      completeConsoleSignIn(options, ctx),
    );
  router.get(SIGNED_OUT_PATH, (ctx) =>
    pages.render(ctx, 'console/signed-out', { reason: 'signed-out', signIn: SIGN_IN_PATH }),
  );
}

function pageMiddleware(options: ConsoleOptions, show: Page): Koa.Middleware {
  const withRefusalPage = renderNotAdministrator(options);
  return (ctx) =>
    withRefusalPage(ctx, async () => {
      const session = await findSession(options, ctx);
      if (!session) return redirectToSignIn(options, ctx);
      await show({ options: { ...options, by: session.account.id }, ctx, session });
    });
}

async function redirectToSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  await requireNavigation('GET')(ctx, async () => {});
  await limitRate(options.rateLimit)(ctx, async () => {});
  await startConsoleSignIn(options, ctx);
}

/** Without a session the form is dropped, so that the person sees the current state before acting again. */
function formMiddleware(options: ConsoleOptions, handle: FormHandler): Koa.Middleware {
  return async (ctx) => {
    const session = await findSession(options, ctx);
    if (!session) return seeOther(ctx, CONSOLE_PATH);
    const form = await requireForm(options, ctx, session);
    await handle({ options: { ...options, by: session.account.id }, ctx, session }, form);
  };
}

function renderNotAdministrator({ pages }: ConsoleOptions): Koa.Middleware {
  return async function renderRefusal(ctx, next) {
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

/** Stricter than the consent page: forms never redirect to another site, and no other page opens the console in a window. */
async function setSecurityHeaders(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  const policy = ctx.response.get('Content-Security-Policy');
  ctx.set('Content-Security-Policy', `${policy};form-action 'self'`);
  ctx.set('Cross-Origin-Opener-Policy', 'same-origin');
  ctx.set('Cache-Control', 'no-store');
  await next();
}
