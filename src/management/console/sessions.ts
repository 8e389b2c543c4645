// Who is signed in to the console: a session of its own in the store, known by a cookie; 30 minutes idle, 8 hours at most.
import { randomBytes, timingSafeEqual } from 'node:crypto';
import type Koa from 'koa';
import { type Account, isHonoured } from '../../accounts/account.ts';
import { findAccount } from '../../accounts/accounts.ts';
import { isAdministrator } from '../../accounts/entitlement.ts';
import { HttpError } from '../../http/errors.ts';
import { KEEP } from '../../store/store.ts';
import type { ConsoleOptions } from './context.ts';

/** Times are seconds since the epoch. */
type StoredSession = { accountId: string; startedAt: number; seenAt: number; formToken: string };

export type Session = { account: Account; formToken: string };

const MINUTE = 60;
const IDLE = 30 * MINUTE;
const LONGEST = 8 * 60 * MINUTE;
const NOTED_EVERY = MINUTE;

const sessionKey = (id: string) => `console-session:${id}`;
const SESSION_ID = /^[\w-]{43}$/;

/** Lax: the browser comes back from the identity provider, which is another site. Forms have a token besides. */
export const COOKIE = {
  httpOnly: true,
  sameSite: 'lax',
  overwrite: true,
  signed: false,
  path: '/',
} as const;

/** `__Host-` keeps other hosts of the domain from setting it, and wants https. */
export function cookieName({ url }: Pick<ConsoleOptions, 'url'>, name: string): string {
  return `${url.startsWith('https:') ? '__Host-' : ''}gatehouse-console${name}`;
}

/** The one that this browser had before is over. */
export async function openSession(
  options: ConsoleOptions,
  ctx: Koa.Context,
  account: Account,
): Promise<void> {
  const before = sessionId(options, ctx);
  if (before !== undefined) await options.store.delete(sessionKey(before));
  const id = secret();
  const seenAt = Math.floor(options.now());
  // Since the sign-in was recorded, which came after whatever the record says: what is done to the account from then on ends the session.
  const startedAt = Math.max(account.signedInAt, account.overBefore ?? 0);
  const session = { accountId: account.id, startedAt, seenAt, formToken: secret() };
  await options.store.set<StoredSession>(sessionKey(id), session, IDLE);
  ctx.cookies.set(cookieName(options, ''), id, COOKIE);
}

/** Undefined when nobody is signed in, or was for too long. Refuses whoever is no administrator any more. */
export async function findSession(
  options: ConsoleOptions,
  ctx: Koa.Context,
): Promise<Session | undefined> {
  const id = sessionId(options, ctx);
  const stored = id && (await options.store.get<StoredSession>(sessionKey(id)))?.value;
  const now = Math.floor(options.now());
  if (!stored || now >= stored.startedAt + LONGEST || now >= stored.seenAt + IDLE) return undefined;
  const account = await findAccount(options.store, stored.accountId);
  if (!account || !isHonoured(account, stored.startedAt)) return undefined;
  if (!isAdministrator(account, options.administrators)) throw notAdministrator();
  if (now >= stored.seenAt + NOTED_EVERY) await noteSeen(options, id, now);
  return { account, formToken: stored.formToken };
}

/** A session that was ended meanwhile stays over. */
async function noteSeen({ store }: ConsoleOptions, id: string, now: number): Promise<void> {
  await store.update<StoredSession>(sessionKey(id), (session) =>
    session ? { value: { ...session, seenAt: now }, ttl: IDLE } : KEEP,
  );
}

export async function closeSession(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const id = sessionId(options, ctx);
  if (id !== undefined) await options.store.delete(sessionKey(id));
  ctx.cookies.set(cookieName(options, ''), null, COOKIE);
}

export function notAdministrator(): HttpError {
  return new HttpError(403, 'not_administrator', 'the account is not one of the administrators');
}

/** Refuses a form that is not from a page of this session. */
export function requireFormToken({ formToken }: Session, sent = ''): void {
  const [given, expected] = [Buffer.from(sent), Buffer.from(formToken)];
  if (given.length === expected.length && timingSafeEqual(given, expected)) return;
  throw new HttpError(403, 'forbidden', 'the form does not belong to this session');
}

function sessionId(options: ConsoleOptions, ctx: Koa.Context): string | undefined {
  const id = ctx.cookies.get(cookieName(options, ''), { signed: false }) ?? '';
  return SESSION_ID.test(id) ? id : undefined;
}

export function secret(): string {
  return randomBytes(32).toString('base64url');
}
