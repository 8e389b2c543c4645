import { Router } from '@koa/router';
import type Koa from 'koa';
import { verifiedEmailOf } from '../../people/account.ts';
import { prefersPage } from '../../http/prefers-page.ts';
import { limitRate } from '../../http/rate-limits.ts';
import { seeOther } from '../../http/see-other.ts';
import { requireNavigation } from '../../http/fetch-metadata.ts';
import type { ManagementRole } from '../../settings/management-roles.ts';
import { type ManagementContext, type ManagementHost, requireRole } from '../context.ts';
import { auditPage } from './audit-page.ts';
import { blockPages } from './block-pages.ts';
import { connectorPages } from './connector-pages.ts';
import { CONSOLE_CALLBACK_PATH, CONSOLE_PATH } from './address.ts';
import { accountManager, type ConsoleRoutes, type FormHandler, type Page } from './context.ts';
import { readDone } from './done.ts';
import { editPages } from './edit-pages.ts';
import { requireForm } from './forms.ts';
import { healthPage } from './health-page.ts';
import { listPages } from './lists.ts';
import { machinePages } from './machine-pages.ts';
import { overviewPage } from './overview-page.ts';
import { recordPages } from './record-pages.ts';
import { searchPage } from './search-page.ts';
import { closeSession, findSession, NotAdministrator, type Session } from './sessions.ts';
import { severalPages } from './several-page.ts';
import { serverPages } from './server-pages.ts';
import { settingsPage } from './settings-page.ts';
import { tokenPages } from './token-pages.ts';
import { toolAccessPages } from './tool-access-pages.ts';
import { type ConsoleSignIn, consoleSignIn, SIGN_IN_PATH } from './sign-in.ts';
import { requestContext } from '../../http/request-context.ts';

const SIGNED_OUT_PATH = '/console/signed-out';

export function isConsolePath(path: string): boolean {
  return path === CONSOLE_PATH || path.startsWith(`${CONSOLE_PATH}/`);
}

export function adminConsole(management: ManagementHost): Koa.Middleware {
  const signIn = consoleSignIn(management);
  const router = new Router({ sensitive: true, strict: true });
  router.use(setSecurityHeaders);
  signInRoutes(router, management, signIn);
  const routes: ConsoleRoutes = {
    page: (path, show) => router.get(CONSOLE_PATH + path, pageMiddleware(management, signIn, show)),
    form: (path, role, handle) =>
      router.post(CONSOLE_PATH + path, formMiddleware(management, role, handle)),
  };
  routes.page('', async ({ ctx }) => seeOther(ctx, `${CONSOLE_PATH}/overview`));
  overviewPage(routes);
  connectorPages(routes);
  editPages(routes);
  machinePages(routes);
  serverPages(routes);
  toolAccessPages(routes);
  tokenPages(routes);
  listPages(routes);
  severalPages(routes);
  blockPages(routes);
  auditPage(routes);
  recordPages(routes);
  searchPage(routes);
  healthPage(routes);
  settingsPage(routes);
  routes.form('/sign-out', 'viewer', async ({ ctx }) => {
    await closeSession(management, ctx);
    seeOther(ctx, SIGNED_OUT_PATH);
  });
  const dispatch = router.routes() as Koa.Middleware;
  return async (ctx, next) => {
    if (isConsolePath(ctx.path)) return dispatch(ctx, next);
    // A person who opens the bare address of the host is looking for the console.
    const isRoot = ctx.path === '/' && ctx.method === 'GET';
    return isRoot && prefersPage(ctx) ? seeOther(ctx, CONSOLE_PATH) : next();
  };
}

function signInRoutes(router: Router, management: ManagementHost, signIn: ConsoleSignIn): void {
  const { pages, rateLimits } = management.services;
  const guards = [requireNavigation('GET'), limitRate(rateLimits.signIns)];
  router.get(SIGN_IN_PATH, ...guards, signIn.switchAccount);
  router.get(`${SIGN_IN_PATH}/:provider`, ...guards, (ctx) =>
    signIn.startAt(ctx, ctx.params.provider),
  );
  for (const path of [CONSOLE_CALLBACK_PATH, `${CONSOLE_CALLBACK_PATH}/:provider`])
    router.get(path, ...guards, renderNotAdministrator(management), signIn.complete);
  router.get(SIGNED_OUT_PATH, (ctx) =>
    pages.render(ctx, 'console/signed-out', { reason: 'signed-out', signIn: SIGN_IN_PATH }),
  );
}

function pageMiddleware(
  management: ManagementHost,
  signIn: ConsoleSignIn,
  show: Page,
): Koa.Middleware {
  const { rateLimits } = management.services;
  const withRefusalPage = renderNotAdministrator(management);
  const requirePage = requireNavigation('GET');
  const limitSignIns = limitRate(rateLimits.signIns);
  return (ctx) =>
    withRefusalPage(ctx, async () => {
      const session = await findSession(management, ctx);
      if (session) {
        allowScript(ctx);
        const context = managementOf(management, session);
        return show({ management: context, ctx, session, done: await readDone(context, ctx) });
      }
      await requirePage(ctx, () => limitSignIns(ctx, () => signIn.start(ctx)));
    });
}

/** Without a session the form is dropped, so that the person sees the current state before acting again. */
function formMiddleware(
  management: ManagementHost,
  role: ManagementRole,
  handle: FormHandler,
): Koa.Middleware {
  return async (ctx) => {
    const session = await findSession(management, ctx);
    if (!session) return seeOther(ctx, CONSOLE_PATH);
    const form = await requireForm(ctx, session);
    const context = managementOf(management, session);
    requireRole(context, role);
    allowScript(ctx);
    await handle({ management: context, ctx, session }, form);
  };
}

function managementOf(host: ManagementHost, { account, role }: Session): ManagementContext {
  return { ...host, by: accountManager(account.id), role };
}

function renderNotAdministrator({ settings, services }: ManagementHost): Koa.Middleware {
  return async function renderRefusal(ctx, next) {
    try {
      await next();
    } catch (error) {
      if (!(error instanceof NotAdministrator)) throw error;
      requestContext(ctx).failure = { code: error.code };
      const { account } = error;
      const values = {
        reason: 'not-administrator',
        person: verifiedEmailOf(account) ?? (account.name || account.id),
        account: `${settings.authUrl}/account`,
        signIn: SIGN_IN_PATH,
      } as const;
      await services.pages.render(ctx, 'console/signed-out', values, error.status);
    }
  };
}

/** Pages of a session load a script of their own origin, which adds buttons that copy. */
function allowScript(ctx: Koa.Context): void {
  const policy = ctx.response.get('Content-Security-Policy');
  ctx.set('Content-Security-Policy', `${policy};script-src 'self'`);
}

/** Stricter than the consent page: forms never redirect to another site, and no other page opens the console in a window. */
async function setSecurityHeaders(ctx: Koa.Context, next: Koa.Next): Promise<void> {
  const policy = ctx.response.get('Content-Security-Policy');
  ctx.set('Content-Security-Policy', `${policy};form-action 'self'`);
  ctx.set('Cross-Origin-Opener-Policy', 'same-origin');
  ctx.set('Cache-Control', 'no-store');
  await next();
}
