// Pending sign-ins: state, nonce and PKCE verifier of each, in one record for each login request. Each is single-use.
import { randomBytes, randomUUID } from 'node:crypto';
import type Koa from 'koa';
import { COOKIE } from '../http/cookies.ts';
import { HttpError } from '../http/errors.ts';
import { KEEP, type Store } from '../store/store.ts';
import { notTrusted } from './errors.ts';
import type { IdentityProvider, LoginState } from './provider.ts';

/** A login state with what it is bound to. */
export type PendingLogin = LoginState & {
  /** Id of the provider, if several are configured. */
  identityProvider?: string;
  /** Path to which the browser returns. */
  returnTo?: string;
  /** The consent form whose level needs this sign-in. */
  approval?: ApprovalForm;
};

/** Fields of the submitted consent form. */
export type ApprovalForm = { token?: string; level?: string; stay?: string };

/** `until` is in seconds since the epoch. `takenBy` is set by the only caller that may use the login state. */
type StoredLogin = PendingLogin & { takenBy?: string; until: number };

/** Oldest first. The name `checks` is that of records of earlier versions. */
type StoredLogins = { checks: StoredLogin[] };

export type LoginStateOptions = { store: Store; now: () => number };

const LIFETIME_SECONDS = 600;
/** Bounds the record when a page is loaded repeatedly. Four tabs or reloads can still complete. */
const MAX_PENDING = 4;

const STATE_WITH_UID = /^([\w-]{16,64})\.[\w-]{16,128}$/;
const pendingLoginsKey = (uid: string) => `sign-in:${uid}`;

/** Returns the uid of the login request for which a `state` was created, if it contains one. */
export function uidOfState(state: unknown): string | undefined {
  const [, uid] = STATE_WITH_UID.exec(String(state ?? '')) ?? [];
  return uid;
}

export async function savePendingLogin(
  { store, now }: LoginStateOptions,
  uid: string,
  login: PendingLogin,
): Promise<void> {
  const stored = { ...login, until: now() + LIFETIME_SECONDS };
  await store.update<StoredLogins>(pendingLoginsKey(uid), (record) => {
    const others = record?.checks.filter(({ state }) => state !== stored.state) ?? [];
    return { value: { checks: [...others, stored].slice(-MAX_PENDING) }, ttl: LIFETIME_SECONDS };
  });
}

/**
 * Returns the pending login to exactly one caller, also when the store command is retried. Throws 400 for a response with an unknown `state`
 * or at another provider's callback, which consumes nothing (RFC 9700 section 4.4.2.2).
 */
export async function consumePendingLogin(
  { store, now }: LoginStateOptions,
  uid: string,
  state: string,
  { id }: IdentityProvider,
): Promise<PendingLogin> {
  const takenBy = randomUUID();
  const isValid = (login: StoredLogin) =>
    login.state === state &&
    login.takenBy === undefined &&
    login.identityProvider === id &&
    now() < login.until;
  const after = await store.update<StoredLogins>(pendingLoginsKey(uid), (record) =>
    record?.checks.some(isValid)
      ? {
          value: { checks: record.checks.map((c) => (isValid(c) ? { ...c, takenBy } : c)) },
          ttl: LIFETIME_SECONDS,
        }
      : KEEP,
  );
  const found = after?.value.checks.find((login) => login.state === state);
  if (found && found.identityProvider !== id)
    throw notTrusted('the response came to the callback of another identity provider');
  if (found?.takenBy === takenBy) return found;
  throw new HttpError(400, 'expired', 'this sign-in was already completed or has expired');
}

/** Binds a login request to a browser where no interaction does. */
export type LoginCookie = {
  name: string;
  /** First part of the uid. Separates these uids from those of interactions and of other cookies. */
  prefix: string;
  signed: boolean;
};

/** Returns the uid of this browser's login request, or sets a new one. Reusing it lets other tabs complete and bounds what is stored. */
export function ensureLoginUid(ctx: Koa.Context, cookie: LoginCookie): string {
  const { name, prefix, signed } = cookie;
  const uid = findLoginUid(ctx, cookie) ?? `${prefix}-${randomBytes(16).toString('base64url')}`;
  ctx.cookies.set(name, uid, { ...COOKIE, signed, maxAge: LIFETIME_SECONDS * 1000 });
  return uid;
}

/** Throws 400 `expired` if this browser has no login request. */
export function requireLoginUid(ctx: Koa.Context, cookie: LoginCookie): string {
  const uid = findLoginUid(ctx, cookie);
  if (uid !== undefined) return uid;
  throw new HttpError(400, 'expired', 'this sign-in has expired or was started in another browser');
}

function findLoginUid(ctx: Koa.Context, { name, prefix, signed }: LoginCookie): string | undefined {
  const uid = ctx.cookies.get(name, { signed }) ?? '';
  return isLoginUid(uid, prefix) ? uid : undefined;
}

export function isLoginUid(uid: string, prefix: string): boolean {
  return uid.startsWith(`${prefix}-`) && /^[\w-]{22}$/.test(uid.slice(prefix.length + 1));
}

export function clearLoginCookie(ctx: Koa.Context, { name, signed }: LoginCookie): void {
  ctx.cookies.set(name, null, { ...COOKIE, signed });
}
