// Console sessions: stored under a random id in a cookie. They expire after 30 minutes without a request and after 8 hours.
import { randomBytes } from 'node:crypto';
import type Koa from 'koa';
import { constantTimeEqual } from '../../constant-time.ts';
import { type Account, isSessionValid } from '../../people/account.ts';
import { findAccount } from '../../people/accounts.ts';
import { isSessionRecent } from '../../people/recheck.ts';
import { consoleRole } from '../../people/entitlement.ts';
import { COOKIE, hostCookieName } from '../../http/cookies.ts';
import { HttpError } from '../../http/errors.ts';
import { createFormToken } from '../../http/form-tokens.ts';
import { KEEP, type Store } from '../../store/store.ts';
import type { ManagementRole } from '../../settings/management-roles.ts';
import type { Settings } from '../../settings/settings.ts';
import type { ManagementHost } from '../context.ts';

/** Times are seconds since the epoch. */
type StoredSession = {
  accountId: string;
  startedAt: number;
  seenAt: number;
  formToken: string;
};

export type Session = { account: Account; role: ManagementRole; formToken: string };

const MINUTE = 60;
const MAX_IDLE_SECONDS = 30 * MINUTE;
const MAX_SECONDS = 8 * 60 * MINUTE;
const UPDATE_SECONDS = MINUTE;

const sessionKey = (id: string) => `console-session:${id}`;
const SESSION_ID = /^[\w-]{43}$/;

function sessionCookie({ settings }: ManagementHost): string {
  return hostCookieName('gatehouse-console', { isHttps: isHttps(settings) });
}

export function isHttps({ managementUrl }: Settings): boolean {
  return managementUrl.startsWith('https:');
}

/** Replaces this browser's previous session. */
export async function openSession(
  management: ManagementHost,
  ctx: Koa.Context,
  account: Account,
): Promise<void> {
  const { store, keys, now } = management.services;
  const previous = sessionId(management, ctx);
  if (previous !== undefined) await store.delete(sessionKey(previous));
  const id = randomToken();
  const seenAt = Math.floor(now());
  // Any change to the account after this time ends the session.
  const startedAt = account.signedInAt;
  const formToken = createFormToken(keys.forms, `console\n${id}`);
  const session = { accountId: account.id, startedAt, seenAt, formToken };
  await store.set<StoredSession>(sessionKey(id), session, MAX_IDLE_SECONDS);
  ctx.cookies.set(sessionCookie(management), id, { ...COOKIE, signed: false });
}

/** Returns undefined if there is no valid session. Throws 403 if the account is no longer an administrator. */
export async function findSession(
  management: ManagementHost,
  ctx: Koa.Context,
): Promise<Session | undefined> {
  const { settings, services } = management;
  const { store } = services;
  const id = sessionId(management, ctx);
  const stored = id && (await store.get<StoredSession>(sessionKey(id)))?.value;
  const now = Math.floor(services.now());
  if (!stored || now >= stored.startedAt + MAX_SECONDS || now >= stored.seenAt + MAX_IDLE_SECONDS)
    return undefined;
  const account = await findAccount(store, stored.accountId);
  const { startedAt } = stored;
  if (!account || !isSessionValid(account, startedAt)) return undefined;
  if (!isSessionRecent(settings, account, startedAt, now)) return undefined;
  // The settings and the account decide at every request, so a lowered role also applies to open sessions.
  const role = consoleRole(account, settings.management.administrators);
  if (!role) throw new NotAdministrator(account);
  if (now >= stored.seenAt + UPDATE_SECONDS) await updateLastSeen(store, id, now);
  return { account, role, formToken: stored.formToken };
}

/** Does not recreate a session that was deleted in the meantime. */
async function updateLastSeen(store: Store, id: string, now: number): Promise<void> {
  await store.update<StoredSession>(sessionKey(id), (session) =>
    session ? { value: { ...session, seenAt: now }, ttl: MAX_IDLE_SECONDS } : KEEP,
  );
}

export async function closeSession(management: ManagementHost, ctx: Koa.Context): Promise<void> {
  const id = sessionId(management, ctx);
  if (id !== undefined) await management.services.store.delete(sessionKey(id));
  ctx.cookies.set(sessionCookie(management), null, { ...COOKIE, signed: false });
}

export class NotAdministrator extends HttpError {
  readonly account: Account;

  constructor(account: Account) {
    super(403, 'not_administrator', 'the account is not an administrator');
    this.account = account;
  }
}

/** Throws 403 if the form is not from a page of this session. */
export function requireConsoleForm({ formToken }: Session, token = ''): void {
  if (constantTimeEqual(token, formToken)) return;
  throw new HttpError(403, 'forbidden', 'the form does not belong to this session');
}

function sessionId(management: ManagementHost, ctx: Koa.Context): string | undefined {
  const id = ctx.cookies.get(sessionCookie(management), { signed: false }) ?? '';
  return SESSION_ID.test(id) ? id : undefined;
}

export function randomToken(): string {
  return randomBytes(32).toString('base64url');
}
