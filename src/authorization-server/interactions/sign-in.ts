// Signing in: off to the identity provider, and back into the flow that this browser started, once.
import type { KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { type Account, isHonoured } from '../../accounts/account.ts';
import { saveAccount } from '../../accounts/accounts.ts';
import { HttpError, unavailable } from '../../http/errors.ts';
import type { Pages } from '../../http/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import type { Store } from '../../store/store.ts';
import { finishInteraction, type Interaction } from './interaction.ts';
import {
  createSignInChecks,
  type IdentityProvider,
  type SignInWishes,
} from './identity-provider.ts';
import {
  belowPath,
  findOwner,
  findProviderFor,
  type IdentityProviders,
  requireProvider,
} from './identity-providers.ts';
import { chooseInstead, rememberChoice, showChoice } from './provider-choice.ts';
import { keepChecks, takeChecks, tripIn } from './sign-in-checks.ts';

export type SignInOptions = {
  provider: Provider;
  store: Store;
  pages: Pages;
  identityProviders: IdentityProviders;
  isHttps: boolean;
  accountKey: KeyObject;
  /** In seconds. */
  accountLifetime: number;
  sessionLifetime: number;
  now: () => number;
};

/** On the way to an identity provider and back: the answer is good for `uid` only, and a choice is posted to `action`. */
export type Trip = { uid: string; action: string; wishes: SignInWishes };

const LONGEST_HINT = 320;

/** Where a flow's sign-in belongs. Whoever has signed in, or is to do so again, is asked by the provider although it remembers them. */
export function flowTrip({ uid, prompt, params }: Interaction): Trip {
  const { ui_locales: uiLocales, login_hint: loginHint } = params;
  const isSwitch = prompt.name === 'consent';
  const isAsked = prompt.reasons.includes('login_prompt');
  const isHint = typeof loginHint === 'string' && loginHint.length <= LONGEST_HINT;
  return {
    uid,
    action: `/interaction/${uid}/sign-in`,
    wishes: {
      ...(isSwitch ? { prompt: 'switch' } : isAsked ? { prompt: 'login' } : {}),
      ...(typeof uiLocales === 'string' ? { uiLocales } : {}),
      // Whoever wants another account is not led back to the one that the app named.
      ...(isHint && !isSwitch ? { loginHint } : {}),
    },
  };
}

/** Off to the only provider, or to the one of the address that the app named; otherwise the person chooses. */
export function startSignIn(options: SignInOptions, ctx: Koa.Context, trip: Trip): Promise<void> {
  const provider = findProviderFor(options.identityProviders, trip.wishes.loginHint);
  return provider ? leave(options, ctx, trip, provider) : showChoice(options, ctx, trip.action);
}

/** Off to the provider that the person chose. */
export function signInAt(
  options: SignInOptions,
  ctx: Koa.Context,
  trip: Trip,
  id: string | undefined,
): Promise<void> {
  return leave(options, ctx, trip, requireProvider(options.identityProviders, id));
}

function leave(
  options: SignInOptions,
  ctx: Koa.Context,
  trip: Trip,
  provider: IdentityProvider,
): Promise<void> {
  return chooseInstead(options, ctx, trip.action, provider, async () => {
    const checks = createSignInChecks(trip.uid);
    const url = await provider.signInUrl(checks, wishesAt(options, provider, trip.wishes));
    await keepChecks(options, trip.uid, checks, provider);
    seeOther(ctx, url.href);
  });
}

/** An address is nothing to a provider whose it is not. */
function wishesAt(
  { identityProviders }: SignInOptions,
  provider: IdentityProvider,
  { loginHint, ...wishes }: SignInWishes,
): SignInWishes {
  const owner = findOwner(identityProviders, loginHint) ?? provider;
  return loginHint !== undefined && owner === provider ? { ...wishes, loginHint } : wishes;
}

/** Answers come to the provider's callback; the flow's cookie is only sent below the flow's own path, so the answer is passed on to there. */
export function passToFlow(
  { identityProviders }: SignInOptions,
  ctx: Koa.Context,
  pathOf: (uid: string) => string,
): void {
  const { id } = requireProvider(identityProviders, ctx.params.provider);
  const uid = tripIn(ctx.query.state);
  if (uid === undefined)
    throw new HttpError(
      400,
      'expired',
      'the answer of the identity provider belongs to no sign-in',
    );
  seeOther(ctx, belowPath(`${pathOf(uid)}/callback`, id) + ctx.search);
}

/** Takes the answer that came to a provider's callback: `done` gets who it is. A provider that failed is a reason to choose another. */
export function endSignIn(
  options: SignInOptions,
  ctx: Koa.Context,
  { uid, action }: Pick<Trip, 'uid' | 'action'>,
  done: (account: Account) => Promise<void>,
): Promise<void> {
  const provider = requireProvider(options.identityProviders, ctx.params.provider);
  return chooseInstead(options, ctx, action, provider, async () => {
    const account = await accountIn(options, ctx, uid, provider);
    rememberChoice(options, ctx, provider);
    await done(account);
  });
}

async function accountIn(
  options: SignInOptions,
  ctx: Koa.Context,
  uid: string,
  provider: IdentityProvider,
): Promise<Account> {
  const { store, accountKey, accountLifetime, now } = options;
  const checks = await takeChecks(options, uid, String(ctx.query.state ?? ''), provider);
  const identity = await provider.identify(ctx.search, checks);
  const account = await saveAccount(store, accountKey, identity, {
    now: now(),
    ttl: accountLifetime,
  });
  refuseTooEarly(account, Math.floor(now()));
  return account;
}

/** Enabled in this very second, or by a clock ahead of ours: the sign-in would not count, and another one would be asked for at once. */
function refuseTooEarly(account: Account, now: number): void {
  if (account.disabledAt !== undefined || isHonoured(account, now)) return;
  throw unavailable(new Error('the account was enabled at a time that is still to come'));
}

export function completeSignIn(
  options: SignInOptions,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> {
  return endSignIn(options, ctx, flowTrip(interaction), async (account) => {
    const ts = Math.floor(options.now());
    await finishInteraction(options.provider, ctx, { login: { accountId: account.id, ts } });
    await switchAccount(options, ctx, account.id);
  });
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
