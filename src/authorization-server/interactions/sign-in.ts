// Sign-in at an identity provider: the authentication request and its callback.
import type { KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { type Account, isValidSince } from '../../accounts/account.ts';
import { saveAccount } from '../../accounts/accounts.ts';
import { HttpError, unavailable } from '../../http/errors.ts';
import type { Pages } from '../../pages/pages.ts';
import { seeOther } from '../../http/see-other.ts';
import type { Store } from '../../store/store.ts';
import { finishInteraction, type Interaction } from './interaction.ts';
import {
  createLoginState,
  findDefaultProvider,
  findProviderForEmail,
  type IdentityProvider,
  type IdentityProviders,
  type LoginParameters,
  pathOfProvider,
  requireProvider,
} from '../../identity-providers/provider.ts';
import {
  offerChoiceOnFailure,
  rememberProviderChoice,
  showProviderChoice,
} from './provider-choice.ts';
import {
  saveLoginState,
  consumeLoginState,
  uidOfState,
} from '../../identity-providers/login-state.ts';

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

/** A sign-in that was started. The response is valid only for `uid`; the form of the provider choice is posted to `action`. */
export type LoginRequest = { uid: string; action: string; parameters: LoginParameters };

const MAX_LOGIN_HINT = 320;

/** Returns the login request of an interaction. A switch of account, or `prompt=login`, makes the provider ask even if it has a session. */
export function loginRequestOf({ uid, prompt, params }: Interaction): LoginRequest {
  const { ui_locales: uiLocales, login_hint: loginHint } = params;
  const isSwitch = prompt.name === 'consent';
  const isForced = prompt.reasons.includes('login_prompt');
  const isHint = typeof loginHint === 'string' && loginHint.length <= MAX_LOGIN_HINT;
  return {
    uid,
    action: `/interaction/${uid}/sign-in`,
    parameters: {
      ...(isSwitch ? { prompt: 'switch' } : isForced ? { prompt: 'login' } : {}),
      ...(typeof uiLocales === 'string' ? { uiLocales } : {}),
      // A person who switches the account does not want the one that the app named.
      ...(isHint && !isSwitch ? { loginHint } : {}),
    },
  };
}

/** Redirects to the only provider, or to the one that `login_hint` selects; otherwise shows the provider choice. */
export function startSignIn(
  options: SignInOptions,
  ctx: Koa.Context,
  loginRequest: LoginRequest,
): Promise<void> {
  const provider = findDefaultProvider(
    options.identityProviders,
    loginRequest.parameters.loginHint,
  );
  return provider
    ? redirectToProvider(options, ctx, loginRequest, provider)
    : showProviderChoice(options, ctx, loginRequest.action);
}

/** Redirects to the provider that the person chose. */
export function startSignInAt(
  options: SignInOptions,
  ctx: Koa.Context,
  loginRequest: LoginRequest,
  id: string | undefined,
): Promise<void> {
  return redirectToProvider(
    options,
    ctx,
    loginRequest,
    requireProvider(options.identityProviders, id),
  );
}

function redirectToProvider(
  options: SignInOptions,
  ctx: Koa.Context,
  loginRequest: LoginRequest,
  provider: IdentityProvider,
): Promise<void> {
  return offerChoiceOnFailure(options, ctx, loginRequest.action, provider, async () => {
    const loginState = createLoginState(loginRequest.uid);
    const url = await provider.authorizationUrl(
      loginState,
      parametersFor(options, provider, loginRequest.parameters),
    );
    await saveLoginState(options, loginRequest.uid, loginState, provider);
    seeOther(ctx, url.href);
  });
}

/** Omits `login_hint` if its e-mail domain belongs to another provider. */
function parametersFor(
  { identityProviders }: SignInOptions,
  provider: IdentityProvider,
  { loginHint, ...parameters }: LoginParameters,
): LoginParameters {
  const hinted = findProviderForEmail(identityProviders, loginHint) ?? provider;
  return loginHint !== undefined && hinted === provider ? { ...parameters, loginHint } : parameters;
}

/** Redirects the provider's response to the callback below the interaction's path: browsers send its cookie only there. */
export function forwardCallback(
  { identityProviders }: SignInOptions,
  ctx: Koa.Context,
  pathOf: (uid: string) => string,
): void {
  const { id } = requireProvider(identityProviders, ctx.params.provider);
  const uid = uidOfState(ctx.query.state);
  if (uid === undefined)
    throw new HttpError(
      400,
      'expired',
      'the answer of the identity provider belongs to no sign-in',
    );
  seeOther(ctx, pathOfProvider(`${pathOf(uid)}/callback`, id) + ctx.search);
}

/** Handles the response at a provider's callback and calls `done` with the account. If the provider failed, shows the provider choice. */
export function handleCallback(
  options: SignInOptions,
  ctx: Koa.Context,
  { uid, action }: Pick<LoginRequest, 'uid' | 'action'>,
  done: (account: Account) => Promise<void>,
): Promise<void> {
  const provider = requireProvider(options.identityProviders, ctx.params.provider);
  return offerChoiceOnFailure(options, ctx, action, provider, async () => {
    const account = await authenticate(options, ctx, uid, provider);
    rememberProviderChoice(options, ctx, provider);
    await done(account);
  });
}

async function authenticate(
  options: SignInOptions,
  ctx: Koa.Context,
  uid: string,
  provider: IdentityProvider,
): Promise<Account> {
  const { store, accountKey, accountLifetime, now } = options;
  const loginState = await consumeLoginState(options, uid, String(ctx.query.state ?? ''), provider);
  const identity = await provider.identify(ctx.search, loginState);
  const account = await saveAccount(store, accountKey, identity, {
    now: now(),
    ttl: accountLifetime,
  });
  requireEnabledBefore(account, Math.floor(now()));
  return account;
}

/** Throws 503 if the account was enabled within this second, or by a faster clock: the session would be invalid and sign-in would loop. */
function requireEnabledBefore(account: Account, now: number): void {
  if (account.disabledAt !== undefined || isValidSince(account, now)) return;
  throw unavailable(new Error('the account was enabled at a time that is still to come'));
}

export function completeSignIn(
  options: SignInOptions,
  ctx: Koa.Context,
  interaction: Interaction,
): Promise<void> {
  return handleCallback(options, ctx, loginRequestOf(interaction), async (account) => {
    const ts = Math.floor(options.now());
    await finishInteraction(options.provider, ctx, { login: { accountId: account.id, ts } });
    await switchAccount(options, ctx, account.id);
  });
}

/** The engine does not resume a session under another account, so the account is changed before it resumes. */
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
