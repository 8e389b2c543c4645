// Who is signed in outside any authorization: the engine's session of this browser, and a trip to the identity provider to get one.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type Koa from 'koa';
import { type Account, isHonoured } from '../../accounts/account.ts';
import { findAccount } from '../../accounts/accounts.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import { COOKIE } from '../engine/configuration.ts';
import type { SignInPrompt } from './identity-provider.ts';
import { endSignIn, signInAt, type SignInOptions, startSignIn, type Trip } from './sign-in.ts';

export const ACCOUNT_PATH = '/account';
export const SIGN_IN_PATH = `${ACCOUNT_PATH}/sign-in`;

export type AccountSessionOptions = SignInOptions & { formKeys: KeyRing };

/** `sessionUid` stays the same from the sign-in to the sign-out. */
export type SignedIn = { account: Account; sessionUid: string };

const TRIP = /^account-[\w-]{22}$/;
const TRIP_LIFETIME = 600;

/** Undefined when nobody is signed in, or that was too long ago, or the account was disabled since. */
export async function findSignedIn(
  { provider, store, sessionLifetime }: AccountSessionOptions,
  ctx: Koa.Context,
): Promise<SignedIn | undefined> {
  const session = await provider.Session.get(ctx);
  const { accountId, loginTs, uid } = session;
  if (accountId === undefined || loginTs === undefined || session.past(sessionLifetime))
    return undefined;
  const account = await findAccount(store, accountId);
  return account && isHonoured(account, loginTs) ? { account, sessionUid: uid } : undefined;
}

/** Off to the identity provider, or to the choice of one: the cookie makes the answer good in this browser only. */
export function startAccountSignIn(
  options: AccountSessionOptions,
  ctx: Koa.Context,
  prompt?: SignInPrompt,
): Promise<void> {
  return startSignIn(options, ctx, openTrip(options, ctx, prompt));
}

/** Off to the one that the person chose. */
export function startAccountSignInAt(
  options: AccountSessionOptions,
  ctx: Koa.Context,
  id: string | undefined,
): Promise<void> {
  const prompt = ctx.query.prompt === 'switch' ? 'switch' : undefined;
  return signInAt(options, ctx, openTrip(options, ctx, prompt), id);
}

/** The one under way in this browser goes on, so that its other tabs can end it too, and loading a page again leaves nothing more. */
function openTrip(options: AccountSessionOptions, ctx: Koa.Context, prompt?: SignInPrompt): Trip {
  const underWay = ctx.cookies.get(tripCookie(options), { signed: true }) ?? '';
  const uid = isAccountTrip(underWay)
    ? underWay
    : `account-${randomBytes(16).toString('base64url')}`;
  ctx.cookies.set(tripCookie(options), uid, { ...COOKIE, maxAge: TRIP_LIFETIME * 1000 });
  return {
    uid,
    action: prompt ? `${SIGN_IN_PATH}?prompt=${prompt}` : SIGN_IN_PATH,
    wishes: prompt ? { prompt } : {},
  };
}

/** Whether an answer of the identity provider is about a trip that began here. */
export function isAccountTrip(uid: string): boolean {
  return TRIP.test(uid);
}

export async function completeAccountSignIn(
  options: AccountSessionOptions,
  ctx: Koa.Context,
): Promise<void> {
  const trip = ctx.cookies.get(tripCookie(options), { signed: true });
  if (trip === undefined || !isAccountTrip(trip))
    throw new HttpError(400, 'expired', 'this sign-in is over, or belongs to another browser');
  await endSignIn(options, ctx, { uid: trip, action: SIGN_IN_PATH }, async (account) => {
    ctx.cookies.set(tripCookie(options), null, COOKIE);
    const now = Math.floor(options.now());
    if (!isHonoured(account, now))
      throw new HttpError(403, 'account_disabled', 'the account was disabled');
    await openSession(options, ctx, account.id, now);
    seeOther(ctx, ACCOUNT_PATH);
  });
}

/** Under a new id: whoever planted one before has nothing of it. */
async function openSession(
  { provider, sessionLifetime }: AccountSessionOptions,
  ctx: Koa.Context,
  accountId: string,
  now: number,
): Promise<void> {
  const session = await provider.Session.get(ctx);
  session.resetIdentifier();
  if (session.accountId !== accountId) session.authorizations = {};
  session.loginAccount({ accountId, loginTs: now });
  await session.save(sessionLifetime);
  ctx.cookies.set(provider.cookieName('session'), session.jti, {
    ...COOKIE,
    maxAge: sessionLifetime * 1000,
  });
}

/** In this browser: the identity provider may remember the person all the same. */
export async function signOut(
  { provider }: AccountSessionOptions,
  ctx: Koa.Context,
): Promise<void> {
  const session = await provider.Session.get(ctx);
  if (session.accountId !== undefined) await session.destroy();
  ctx.cookies.set(provider.cookieName('session'), null, COOKIE);
}

/** Binds the forms of the page to the session and the person. */
export function accountFormToken([key]: KeyRing, signedIn: SignedIn): string {
  return createHmac('sha256', key).update(subjectOf(signedIn)).digest('base64url');
}

export function requireAccountForm(keys: KeyRing, signedIn: SignedIn, token = ''): void {
  const sent = Buffer.from(token);
  const isOurs = keys.some((key) => {
    const expected = Buffer.from(accountFormToken([key], signedIn));
    return sent.length === expected.length && timingSafeEqual(sent, expected);
  });
  if (!isOurs) throw new HttpError(403, 'forbidden', 'the form does not belong to this session');
}

function subjectOf({ account, sessionUid }: SignedIn): string {
  return `account\n${sessionUid}\n${account.id}`;
}

function tripCookie({ isHttps }: AccountSessionOptions): string {
  return `${isHttps ? '__Host-' : ''}gatehouse-account`;
}
