// Console sessions: stored under a random id in a cookie. They expire after 30 minutes without a request and after 8 hours.
import { randomBytes } from 'node:crypto';
import type Koa from 'koa';
import { type Account, isValidSince } from '../../accounts/account.ts';
import { findAccount } from '../../accounts/accounts.ts';
import { isAdministrator } from '../../accounts/entitlement.ts';
import { COOKIE, hostCookieName } from '../../http/cookies.ts';
import { HttpError } from '../../http/errors.ts';
import { KEEP } from '../../store/store.ts';
import type { ConsoleOptions } from './context.ts';

/** Times are seconds since the epoch. */
type StoredSession = { accountId: string; startedAt: number; seenAt: number };

export type Session = { id: string; account: Account };

const MINUTE = 60;
const MAX_IDLE_SECONDS = 30 * MINUTE;
const MAX_SECONDS = 8 * 60 * MINUTE;
const UPDATE_SECONDS = MINUTE;

const sessionKey = (id: string) => `console-session:${id}`;
const SESSION_ID = /^[\w-]{43}$/;

function sessionCookie(options: ConsoleOptions): string {
  return hostCookieName('gatehouse-console', options);
}

/** Replaces this browser's previous session. */
export async function openSession(
  options: ConsoleOptions,
  ctx: Koa.Context,
  account: Account,
): Promise<void> {
  const previous = sessionId(options, ctx);
  if (previous !== undefined) await options.store.delete(sessionKey(previous));
  const id = randomToken();
  const seenAt = Math.floor(options.now());
  // Any change to the account after this time ends the session.
  const startedAt = Math.max(account.signedInAt, account.overBefore ?? 0);
  const session = { accountId: account.id, startedAt, seenAt };
  await options.store.set<StoredSession>(sessionKey(id), session, MAX_IDLE_SECONDS);
  ctx.cookies.set(sessionCookie(options), id, { ...COOKIE, signed: false });
}

/** Returns undefined if there is no valid session. Throws 403 if the account is no longer an administrator. */
export async function findSession(
  options: ConsoleOptions,
  ctx: Koa.Context,
): Promise<Session | undefined> {
  const id = sessionId(options, ctx);
  const stored = id && (await options.store.get<StoredSession>(sessionKey(id)))?.value;
  const now = Math.floor(options.now());
  if (!stored || now >= stored.startedAt + MAX_SECONDS || now >= stored.seenAt + MAX_IDLE_SECONDS)
    return undefined;
  const account = await findAccount(options.store, stored.accountId);
  if (!account || !isValidSince(account, stored.startedAt)) return undefined;
  if (!isAdministrator(account, options.administrators)) throw notAdministrator();
  if (now >= stored.seenAt + UPDATE_SECONDS) await updateLastSeen(options, id, now);
  return { id, account };
}

/** Does not recreate a session that was deleted in the meantime. */
async function updateLastSeen({ store }: ConsoleOptions, id: string, now: number): Promise<void> {
  await store.update<StoredSession>(sessionKey(id), (session) =>
    session ? { value: { ...session, seenAt: now }, ttl: MAX_IDLE_SECONDS } : KEEP,
  );
}

export async function closeSession(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const id = sessionId(options, ctx);
  if (id !== undefined) await options.store.delete(sessionKey(id));
  ctx.cookies.set(sessionCookie(options), null, { ...COOKIE, signed: false });
}

export function notAdministrator(): HttpError {
  return new HttpError(403, 'not_administrator', 'the account is not an administrator');
}

/** Binds the forms of the console to the session (`http/form-tokens.ts`). */
export function consoleFormContext({ id }: Session): string {
  return `console\n${id}`;
}

function sessionId(options: ConsoleOptions, ctx: Koa.Context): string | undefined {
  const id = ctx.cookies.get(sessionCookie(options), { signed: false }) ?? '';
  return SESSION_ID.test(id) ? id : undefined;
}

export function randomToken(): string {
  return randomBytes(32).toString('base64url');
}
