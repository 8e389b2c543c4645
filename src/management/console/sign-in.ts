import type Koa from 'koa';
import type { Account } from '../../accounts/account.ts';
import { isAdministrator } from '../../accounts/entitlement.ts';
import { recordAudit } from '../../audit/audit.ts';
import { hostCookieName } from '../../http/cookies.ts';
import { seeOther } from '../../http/see-other.ts';
import {
  clearLoginCookie,
  ensureLoginUid,
  type LoginCookie,
  requireLoginUid,
} from '../../identity-providers/login-state.ts';
import {
  handleCallback,
  type LoginRequest,
  type SignInSite,
  startSignIn,
  startSignInAt,
} from '../../identity-providers/sign-in.ts';
import { CONSOLE_PATH, type ConsoleOptions } from './context.ts';
import { notAdministrator, openSession } from './sessions.ts';

export const CALLBACK_PATH = `${CONSOLE_PATH}/callback`;
export const SIGN_IN_PATH = `${CONSOLE_PATH}/sign-in`;

/** Starts a sign-in that returns to the requested page. */
export function startConsoleSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  return startSignIn(siteOf(options), ctx, loginRequest(options, ctx, { returnTo: ctx.path }));
}

/** After a refusal or a sign-out, the identity provider offers other accounts. */
export function switchConsoleAccount(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  return startSignIn(siteOf(options), ctx, loginRequest(options, ctx, SWITCH));
}

/** Redirects to the provider that the person chose. */
export function startConsoleSignInAt(
  options: ConsoleOptions,
  ctx: Koa.Context,
  id: string | undefined,
): Promise<void> {
  return startSignInAt(siteOf(options), ctx, loginRequest(options, ctx, SWITCH), id);
}

const SWITCH = { parameters: { prompt: 'switch' }, returnTo: CONSOLE_PATH } as const;

function loginRequest(
  options: ConsoleOptions,
  ctx: Koa.Context,
  { parameters = {}, returnTo }: { parameters?: LoginRequest['parameters']; returnTo: string },
): LoginRequest {
  const uid = ensureLoginUid(ctx, loginCookie(options));
  return { uid, action: SIGN_IN_PATH, parameters, returnTo };
}

function loginCookie(options: ConsoleOptions): LoginCookie {
  const name = hostCookieName('gatehouse-console-sign-in', options);
  return { name, prefix: 'console', signed: false };
}

function siteOf({ signIn, ...options }: ConsoleOptions): SignInSite {
  return {
    ...options,
    ...signIn,
    hasSharedCallback: false,
    renderChoice(ctx, { action, providers }) {
      const links = providers.map(({ id, name }) => ({ name, href: `${action}/${id}` }));
      return options.pages.render(ctx, 'console/sign-in', { providers: links });
    },
  };
}

export async function completeConsoleSignIn(
  options: ConsoleOptions,
  ctx: Koa.Context,
): Promise<void> {
  const uid = requireLoginUid(ctx, loginCookie(options));
  const request = { uid, action: SIGN_IN_PATH };
  await handleCallback(siteOf(options), ctx, request, async (account, returnTo = CONSOLE_PATH) => {
    clearLoginCookie(ctx, loginCookie(options));
    const isAllowed =
      account.disabledAt === undefined && isAdministrator(account, options.administrators);
    await recordSignIn(options, account, isAllowed ? 'done' : 'refused');
    if (!isAllowed) throw notAdministrator();
    await openSession(options, ctx, account);
    seeOther(ctx, returnTo);
  });
}

async function recordSignIn(options: ConsoleOptions, { id }: Account, outcome: string) {
  await recordAudit(options, { event: 'console_sign_in', account: id, by: id, outcome });
}
