// Console sign-in at an identity provider (OpenID Connect Core section 3.1). A response is single-use and bound to its browser.
import type { KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type { Account, Identity } from '../../accounts/account.ts';
import { saveAccount } from '../../accounts/accounts.ts';
import { isAdministrator } from '../../accounts/entitlement.ts';
import { recordAudit } from '../../audit/audit.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { ConsoleOptions } from './context.ts';
import { COOKIE, cookieName, notAdministrator, openSession, randomToken } from './sessions.ts';

type LoginState = { state: string; nonce: string; verifier: string };

export type ConsoleProvider = {
  /** Set if several providers are configured. */
  id?: string;
  name?: string;
  authorizationUrl: (loginState: LoginState, parameters?: { prompt?: 'switch' }) => Promise<URL>;
  identify: (query: string, loginState: LoginState) => Promise<Identity>;
};

export type ConsoleSignIn = {
  /** Never empty. Each redirects back to `callbackPath`. */
  providers: readonly ConsoleProvider[];
  accountKey: KeyObject;
};

type LoginRequest = LoginState & { provider: string; returnTo: string };

export const CALLBACK_PATH = '/console/callback';
export const SIGN_IN_PATH = '/console/sign-in';
const LOGIN_SECONDS = 600;
const LOGIN_ID = /^[\w-]{43}$/;
const loginRequestKey = (id: string) => `console-sign-in:${id}`;

/** Path of the provider's redirect URI. A single provider has no id. */
export function callbackPath({ id }: { id?: string }): string {
  return id === undefined ? CALLBACK_PATH : `${CALLBACK_PATH}/${id}`;
}

/** Redirects to the only provider; otherwise shows the provider choice. */
export function startSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const [provider, ...others] = options.signIn.providers;
  return provider && others.length === 0
    ? redirectToProvider(options, ctx, provider)
    : showProviderChoice(options, ctx);
}

export function showProviderChoice(
  { pages, signIn }: ConsoleOptions,
  ctx: Koa.Context,
): Promise<void> {
  const providers = signIn.providers.map(({ id = '', name = '' }) => ({
    name,
    href: `${SIGN_IN_PATH}/${id}`,
  }));
  return pages.render(ctx, 'console/sign-in', { providers });
}

/** `prompt` offers another account, after a refusal or a sign-out. */
export async function redirectToProvider(
  options: ConsoleOptions,
  ctx: Koa.Context,
  provider: ConsoleProvider,
  prompt?: 'switch',
): Promise<void> {
  const loginState = { state: randomToken(), nonce: randomToken(), verifier: randomToken() };
  const url = await provider.authorizationUrl(loginState, prompt ? { prompt } : {});
  const id = randomToken();
  const returnTo = ctx.path.startsWith(SIGN_IN_PATH) ? '/console' : ctx.path;
  const loginRequest = { ...loginState, provider: provider.id ?? '', returnTo };
  await options.store.set<LoginRequest>(loginRequestKey(id), loginRequest, LOGIN_SECONDS);
  ctx.cookies.set(cookieName(options, '-sign-in'), id, { ...COOKIE, maxAge: LOGIN_SECONDS * 1000 });
  seeOther(ctx, url.href);
}

export function requireProvider({ signIn }: ConsoleOptions, id = ''): ConsoleProvider {
  const provider = signIn.providers.find((candidate) => (candidate.id ?? '') === id);
  if (provider) return provider;
  throw new HttpError(404, 'not_found', 'there is no such identity provider');
}

/** Handles a provider's response. Accepts it once, at that provider's callback, in the browser that started the sign-in. */
export async function completeSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const provider = requireProvider(options, ctx.params.provider);
  const loginRequest = await consumeLoginRequest(options, ctx);
  if (loginRequest?.provider !== (provider.id ?? ''))
    throw new HttpError(400, 'expired', 'this sign-in is over, or belongs to another browser');
  const identity = await provider.identify(ctx.search, loginRequest);
  const times = { now: options.now(), ttl: options.accountLifetime };
  const account = await saveAccount(options.store, options.signIn.accountKey, identity, times);
  const isAllowed =
    account.disabledAt === undefined && isAdministrator(account, options.administrators);
  await record(options, account, isAllowed ? 'done' : 'refused');
  if (!isAllowed) throw notAdministrator();
  await openSession(options, ctx, account);
  seeOther(ctx, loginRequest.returnTo);
}

/** A response with another `state` does not end the pending sign-in: any site can forge one. */
async function consumeLoginRequest(
  options: ConsoleOptions,
  ctx: Koa.Context,
): Promise<LoginRequest | undefined> {
  const name = cookieName(options, '-sign-in');
  const id = ctx.cookies.get(name, { signed: false }) ?? '';
  const pending = LOGIN_ID.test(id)
    ? await options.store.get<LoginRequest>(loginRequestKey(id))
    : undefined;
  if (!pending || pending.value.state !== ctx.query.state) return undefined;
  ctx.cookies.set(name, null, COOKIE);
  return options.store.take<LoginRequest>(loginRequestKey(id));
}

async function record(options: ConsoleOptions, { id }: Account, outcome: string) {
  await recordAudit(options, { event: 'console_sign_in', account: id, by: id, outcome });
}
