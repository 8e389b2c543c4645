import type Koa from 'koa';
import { accountLifetime, sessionLifetime } from '../../people/account.ts';
import { consoleRole, hasAnyAccess } from '../../people/entitlement.ts';
import { recordAudit } from '../../audit/audit.ts';
import { hostCookieName } from '../../http/cookies.ts';
import { seeOther } from '../../http/see-other.ts';
import { ensureLoginUid, type LoginCookie, requireLoginUid } from '../../sign-in/login-state.ts';
import { openIdentityProviders } from '../../sign-in/provider.ts';
import {
  handleCallback,
  type LoginRequest,
  type SignInSite,
  startSignIn,
  startSignInAt,
} from '../../sign-in/sign-in.ts';
import type { ManagementHost } from '../context.ts';
import { CONSOLE_CALLBACK_PATH, CONSOLE_PATH } from './address.ts';
import { accountManager } from './context.ts';
import { isHttps, NotAdministrator, openSession } from './sessions.ts';

export const SIGN_IN_PATH = `${CONSOLE_PATH}/sign-in`;

export type ConsoleSignIn = {
  /** Returns to the requested page. */
  start: (ctx: Koa.Context) => Promise<void>;
  /** After a refusal or a sign-out, the identity provider offers other accounts. */
  switchAccount: (ctx: Koa.Context) => Promise<void>;
  /** Redirects to the provider that the person chose. */
  startAt: (ctx: Koa.Context, provider: string | undefined) => Promise<void>;
  /** Throws 403 if the person is not an administrator. */
  complete: (ctx: Koa.Context) => Promise<void>;
};

const SIGN_IN = { to: 'console', action: SIGN_IN_PATH } as const;
const SWITCH = { parameters: { prompt: 'switch' }, returnTo: CONSOLE_PATH } as const;

export function consoleSignIn(management: ManagementHost): ConsoleSignIn {
  const { settings, services } = management;
  const site = signInSite(management);
  const cookie: LoginCookie = {
    name: hostCookieName('gatehouse-console-sign-in', site),
    prefix: 'console',
    // The uid is random, and `state` does not reveal it.
    signed: false,
  };
  const loginRequest = (
    ctx: Koa.Context,
    details: Pick<LoginRequest, 'parameters' | 'returnTo'>,
  ): LoginRequest => ({ ...SIGN_IN, uid: ensureLoginUid(ctx, cookie), ...details });
  return {
    start: (ctx) =>
      startSignIn(site, ctx, loginRequest(ctx, { parameters: {}, returnTo: ctx.path })),
    switchAccount: (ctx) => startSignIn(site, ctx, loginRequest(ctx, SWITCH)),
    startAt: (ctx, id) => startSignInAt(site, ctx, loginRequest(ctx, SWITCH), id),
    complete(ctx) {
      const pending = { ...SIGN_IN, uid: requireLoginUid(ctx, cookie) };
      // The login cookie stays until it expires, for sign-ins in other tabs.
      return handleCallback(site, ctx, pending, async (account, { returnTo = CONSOLE_PATH }) => {
        const { id, disabledAt } = account;
        const { administrators } = settings.management;
        const isAllowed =
          disabledAt === undefined && consoleRole(account, administrators) !== undefined;
        const outcome = isAllowed ? 'done' : 'refused';
        await recordAudit(services, {
          event: 'console_sign_in',
          account: id,
          by: accountManager(id),
          outcome,
        });
        if (!isAllowed) throw new NotAdministrator(account);
        await openSession(management, ctx, account);
        seeOther(ctx, returnTo);
      });
    },
  };
}

function signInSite({ settings, services }: ManagementHost): SignInSite {
  const { store, logger, metrics, auditLog, pages, keys, now } = services;
  return {
    store,
    logger,
    metrics,
    auditLog,
    pages,
    now,
    identityProviders: openIdentityProviders(
      settings,
      settings.managementUrl + CONSOLE_CALLBACK_PATH,
    ),
    isHttps: isHttps(settings),
    accountKey: keys.accountIds,
    accountLifetime: accountLifetime(settings),
    sessionLifetime: sessionLifetime(settings),
    hasSharedCallback: false,
    rateLimits: services.rateLimits,
    mayHaveAccess: (account) => hasAnyAccess(settings, account),
    renderChoice(ctx, { action, providers }) {
      const links = providers.map(({ id, name }) => ({ name, href: `${action}/${id}` }));
      return pages.render(ctx, 'console/sign-in', { providers: links });
    },
  };
}
