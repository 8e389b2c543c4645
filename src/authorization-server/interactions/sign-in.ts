// Signing in: off to the identity provider, and back into the flow that this browser started, once.
import { randomUUID, type KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import type { Account } from '../../accounts/account.ts';
import { saveAccount } from '../../accounts/accounts.ts';
import { HttpError } from '../../http/errors.ts';
import { KEEP, type Store } from '../../store/store.ts';
import { finishFlow, type Flow, seeOther } from './flow.ts';
import {
  createSignInChecks,
  type IdentityProvider,
  type SignInChecks,
  type SignInPrompt,
} from './identity-provider.ts';

export type SignInOptions = {
  provider: Provider;
  store: Store;
  identityProvider: IdentityProvider;
  accountKey: KeyObject;
  /** In seconds. */
  accountLifetime: number;
  sessionLifetime: number;
  now: () => number;
};

const SIGN_IN_LIFETIME = 600;
const STATE = /^([\w-]{16,64})\.[\w-]{16,128}$/;
const signInKey = (state: string) => `sign-in:${state}`;

/** `prompt`: what the identity provider should ask although it remembers the person. */
export async function startSignIn(
  options: SignInOptions,
  ctx: Koa.Context,
  flow: Flow,
  prompt?: SignInPrompt,
): Promise<void> {
  const url = await beginSignIn(options, flow.uid, {
    ...(prompt ? { prompt } : {}),
    ...uiLocalesOf(flow),
  });
  seeOther(ctx, url.href);
}

/** Where to send the person, whose answer is good for `uid` only. */
export async function beginSignIn(
  { identityProvider, store }: SignInOptions,
  uid: string,
  wishes: Parameters<IdentityProvider['signInUrl']>[1] = {},
): Promise<URL> {
  const checks = createSignInChecks(uid);
  const url = await identityProvider.signInUrl(checks, wishes);
  await store.set<SignInChecks>(signInKey(checks.state), checks, SIGN_IN_LIFETIME);
  return url;
}

/** The languages that the app asked for are the person's at the identity provider, too. */
function uiLocalesOf({ params }: Flow): { uiLocales?: string } {
  return typeof params.ui_locales === 'string' ? { uiLocales: params.ui_locales } : {};
}

/** The provider knows one callback; the flow's cookie is only sent below the flow's own path, so the answer is passed on to there. */
export function passToFlow(ctx: Koa.Context, pathOf: (uid: string) => string): void {
  const [, uid] = STATE.exec(String(ctx.query.state ?? '')) ?? [];
  if (uid === undefined)
    throw new HttpError(
      400,
      'expired',
      'the answer of the identity provider belongs to no sign-in',
    );
  seeOther(ctx, `${pathOf(uid)}/callback${ctx.search}`);
}

type StoredChecks = SignInChecks & { takenBy?: string };

/** Of all who ask, one gets them, also when its question had to be sent again over a new connection. */
async function takeChecks(store: Store, state: string): Promise<SignInChecks | undefined> {
  const takenBy = randomUUID();
  const after = await store.update<StoredChecks>(signInKey(state), (checks) =>
    checks && checks.takenBy === undefined
      ? { value: { ...checks, takenBy }, ttl: SIGN_IN_LIFETIME }
      : KEEP,
  );
  return after?.value.takenBy === takenBy ? after.value : undefined;
}

export async function completeSignIn(
  options: SignInOptions,
  ctx: Koa.Context,
  flow: Flow,
): Promise<void> {
  const account = await endSignIn(options, ctx, flow.uid);
  const ts = Math.floor(options.now());
  await finishFlow(options.provider, ctx, { login: { accountId: account.id, ts } });
  await switchAccount(options, ctx, account.id);
}

/** Who came back from the trip that began with `uid`: remembered, once. */
export async function endSignIn(
  { store, identityProvider, accountKey, accountLifetime, now }: SignInOptions,
  ctx: Koa.Context,
  uid: string,
): Promise<Account> {
  const state = String(ctx.query.state ?? '');
  const checks = state.startsWith(`${uid}.`) ? await takeChecks(store, state) : undefined;
  if (!checks)
    throw new HttpError(
      400,
      'expired',
      'this answer of the identity provider was used already, or is too old',
    );
  const identity = await identityProvider.identify(ctx.search, checks);
  return saveAccount(store, accountKey, identity, { now: now(), ttl: accountLifetime });
}

/** The engine refuses to change the account of a session when it resumes, so the session is given to the new one before. */
async function switchAccount(
  { provider, sessionLifetime, now }: SignInOptions,
  ctx: Koa.Context,
  accountId: string,
): Promise<void> {
  const session = await provider.Session.get(ctx);
  if (session.accountId === undefined || session.accountId === accountId) return;
  session.authorizations = {};
  session.loginAccount({ accountId, loginTs: Math.floor(now()) });
  await session.save(sessionLifetime);
}
