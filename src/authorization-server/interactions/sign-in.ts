// Signing in: off to the identity provider, and back into the flow that this browser started, once.
import { randomUUID, type KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
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
  const checks = createSignInChecks(flow.uid);
  const url = await options.identityProvider.signInUrl(checks, {
    ...(prompt ? { prompt } : {}),
    ...uiLocalesOf(flow),
  });
  await options.store.set<SignInChecks>(signInKey(checks.state), checks, SIGN_IN_LIFETIME);
  seeOther(ctx, url.href);
}

/** The languages that the app asked for are the person's at the identity provider, too. */
function uiLocalesOf({ params }: Flow): { uiLocales?: string } {
  return typeof params.ui_locales === 'string' ? { uiLocales: params.ui_locales } : {};
}

/** The provider knows one callback; the flow's cookie is only sent below the flow's own path, so the answer is passed on to there. */
export function passToFlow(ctx: Koa.Context): void {
  const [, uid] = STATE.exec(String(ctx.query.state ?? '')) ?? [];
  if (uid === undefined)
    throw new HttpError(
      400,
      'expired',
      'the answer of the identity provider belongs to no sign-in',
    );
  seeOther(ctx, `/interaction/${uid}/callback${ctx.search}`);
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
  const { provider, store, identityProvider, accountKey, accountLifetime, now } = options;
  const state = String(ctx.query.state ?? '');
  const checks = state.startsWith(`${flow.uid}.`) ? await takeChecks(store, state) : undefined;
  if (!checks)
    throw new HttpError(
      400,
      'expired',
      'this answer of the identity provider was used already, or is too old',
    );
  const identity = await identityProvider.identify(ctx.search, checks);
  const account = await saveAccount(store, accountKey, identity, {
    now: now(),
    ttl: accountLifetime,
  });
  await finishFlow(provider, ctx, { login: { accountId: account.id, ts: Math.floor(now()) } });
  await switchAccount(options, ctx, account.id);
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
