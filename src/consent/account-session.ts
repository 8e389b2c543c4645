// Sign-in to the account page, outside of any interaction. The session is the engine's.
import type Koa from 'koa';
import { type Account, isSessionValid } from '../people/account.ts';
import { isSessionRecent } from '../people/recheck.ts';
import { findAccount } from '../people/accounts.ts';
import { hostCookieName } from '../http/cookies.ts';
import { HttpError } from '../http/errors.ts';
import { seeOther } from '../http/see-other.ts';
import { COOKIE } from '../oauth/engine/configuration.ts';
import {
  clearLoginCookie,
  ensureLoginUid,
  isLoginUid,
  type LoginCookie,
  requireLoginUid,
} from '../sign-in/login-state.ts';
import {
  handleCallback,
  type LoginRequest,
  startSignIn,
  startSignInAt,
} from '../sign-in/sign-in.ts';
import type { InteractionContext } from './interaction.ts';

export const ACCOUNT_PATH = '/account';
export const SIGN_IN_PATH = `${ACCOUNT_PATH}/sign-in`;

/** `sessionUid` is constant from sign-in to sign-out. */
export type AccountSession = { account: Account; sessionUid: string };

const UID_PREFIX = 'account';

/** Returns undefined if there is no session, it has expired, or its account was disabled since. */
export async function findAccountSession(
  { settings, services, engine }: InteractionContext,
  ctx: Koa.Context,
): Promise<AccountSession | undefined> {
  const session = await engine.provider().Session.get(ctx);
  const { accountId, loginTs, uid } = session;
  if (accountId === undefined || loginTs === undefined || session.past(settings.lifetimes.session))
    return undefined;
  const account = await findAccount(services.store, accountId);
  const isValid =
    account &&
    isSessionValid(account, loginTs) &&
    isSessionRecent(settings, account, loginTs, services.now());
  return isValid ? { account, sessionUid: uid } : undefined;
}

/** Redirects to the identity provider or shows the provider choice. `switch` asks for another account. */
export function startAccountSignIn(
  context: InteractionContext,
  ctx: Koa.Context,
  prompt?: 'switch',
): Promise<void> {
  return startSignIn(context.site, ctx, loginRequest(context, ctx, prompt));
}

/** Redirects to the provider that the person chose. */
export function startAccountSignInAt(
  context: InteractionContext,
  ctx: Koa.Context,
  id: string | undefined,
  claims?: string,
): Promise<void> {
  const prompt = ctx.query.prompt === 'switch' ? 'switch' : undefined;
  const request = loginRequest(context, ctx, prompt);
  const parameters = { ...request.parameters, ...(claims === undefined ? {} : { claims }) };
  return startSignInAt(context.site, ctx, { ...request, parameters }, id);
}

function loginRequest(
  context: InteractionContext,
  ctx: Koa.Context,
  prompt: 'switch' | undefined,
): LoginRequest {
  return {
    uid: ensureLoginUid(ctx, loginCookie(context)),
    to: 'account',
    action: prompt ? `${SIGN_IN_PATH}?prompt=${prompt}` : SIGN_IN_PATH,
    parameters: prompt ? { prompt } : {},
  };
}

function loginCookie({ site }: InteractionContext): LoginCookie {
  return { name: hostCookieName('gatehouse-account', site), prefix: UID_PREFIX, signed: true };
}

/** Whether the uid belongs to a sign-in to the account page and not to an interaction. */
export function isAccountLogin(uid: string): boolean {
  return isLoginUid(uid, UID_PREFIX);
}

export async function completeAccountSignIn(
  context: InteractionContext,
  ctx: Koa.Context,
): Promise<void> {
  const uid = requireLoginUid(ctx, loginCookie(context));
  const pending = { uid, to: 'account', action: SIGN_IN_PATH } as const;
  await handleCallback(context.site, ctx, pending, async (account) => {
    clearLoginCookie(ctx, loginCookie(context));
    if (account.disabledAt !== undefined)
      throw new HttpError(403, 'account_disabled', 'the account was disabled');
    await openSession(context, ctx, account);
    seeOther(ctx, takeReturn(context, ctx) ?? ACCOUNT_PATH);
  });
}

const RETURN_SECONDS = 900;
/** Pages of ours that a sign-in may lead back to. */
const RETURN_PATH = /^\/credentials\/[a-z][a-z0-9-]{0,31}\?for=[\w-]{1,32}$/;

function returnCookie({ site }: InteractionContext): string {
  return hostCookieName('gatehouse-return', site);
}

/** Leads this browser back to a page after it signed in to the account page. */
export function rememberReturn(context: InteractionContext, ctx: Koa.Context, path: string): void {
  if (!RETURN_PATH.test(path)) return;
  const options = { ...COOKIE, signed: true, maxAge: RETURN_SECONDS * 1000 };
  ctx.cookies.set(returnCookie(context), Buffer.from(path).toString('base64url'), options);
}

function takeReturn(context: InteractionContext, ctx: Koa.Context): string | undefined {
  const stored = ctx.cookies.get(returnCookie(context), { signed: true });
  if (stored === undefined) return undefined;
  ctx.cookies.set(returnCookie(context), null, { ...COOKIE, signed: true });
  const path = Buffer.from(stored, 'base64url').toString();
  return RETURN_PATH.test(path) ? path : undefined;
}

/** Rotates the session id, which prevents session fixation. */
async function openSession(
  { settings, engine }: InteractionContext,
  ctx: Koa.Context,
  { id: accountId, signedInAt: loginTs }: Account,
): Promise<void> {
  const provider = engine.provider();
  const sessionLifetime = settings.lifetimes.session;
  const session = await provider.Session.get(ctx);
  session.resetIdentifier();
  if (session.accountId !== accountId) session.authorizations = {};
  session.loginAccount({ accountId, loginTs });
  await session.save(sessionLifetime);
  ctx.cookies.set(provider.cookieName('session'), session.jti, {
    ...COOKIE,
    maxAge: sessionLifetime * 1000,
  });
}

/** Ends the session of this browser. The session at the identity provider continues. */
export async function signOut({ engine }: InteractionContext, ctx: Koa.Context): Promise<void> {
  const provider = engine.provider();
  const session = await provider.Session.get(ctx);
  if (session.accountId !== undefined) await session.destroy();
  ctx.cookies.set(provider.cookieName('session'), null, COOKIE);
}

/** Binds the page's forms to the session and the account (`http/form-tokens.ts`). */
export function accountFormContext({ account, sessionUid }: AccountSession): string {
  return `account\n${sessionUid}\n${account.id}`;
}
