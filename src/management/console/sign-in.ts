// Signing in to the console: off to an identity provider and back, in the same browser, once (OpenID Connect Core section 3.1).
import type { KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type { Account, Identity } from '../../accounts/account.ts';
import { saveAccount } from '../../accounts/accounts.ts';
import { isAdministrator } from '../../accounts/entitlement.ts';
import { recordAudit } from '../../audit/audit.ts';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { ConsoleOptions } from './context.ts';
import { COOKIE, cookieName, notAdministrator, openSession, secret } from './sessions.ts';

type Checks = { state: string; nonce: string; verifier: string };

/** A company's identity provider, as the console signs people in there. */
export type ConsoleProvider = {
  /** Of one among several. */
  id?: string;
  name?: string;
  authorizationUrl: (checks: Checks, wishes?: { prompt?: 'switch' }) => Promise<URL>;
  identify: (query: string, checks: Checks) => Promise<Identity>;
};

export type ConsoleSignIn = {
  /** At least one; each comes back to `callbackPath`. */
  providers: readonly ConsoleProvider[];
  accountKey: KeyObject;
};

type Trip = Checks & { provider: string; returnTo: string };

export const CALLBACK_PATH = '/console/callback';
export const SIGN_IN_PATH = '/console/sign-in';
const TRIP_LIFETIME = 600;
const TRIP = /^[\w-]{43}$/;
const tripKey = (id: string) => `console-sign-in:${id}`;

/** Where the provider sends people back to: the only one has no id. */
export function callbackPath({ id }: { id?: string }): string {
  return id === undefined ? CALLBACK_PATH : `${CALLBACK_PATH}/${id}`;
}

/** Off to the only provider; otherwise the person chooses on a page. */
export function startSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const [provider, ...others] = options.signIn.providers;
  return provider && others.length === 0 ? leave(options, ctx, provider) : choose(options, ctx);
}

export function choose({ pages, signIn }: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const providers = signIn.providers.map(({ id = '', name = '' }) => ({
    name,
    href: `${SIGN_IN_PATH}/${id}`,
  }));
  return pages.render(ctx, 'console/sign-in', { providers });
}

/** `prompt`: whoever has just been refused, or signed out, may be about to be somebody else. */
export async function leave(
  options: ConsoleOptions,
  ctx: Koa.Context,
  provider: ConsoleProvider,
  prompt?: 'switch',
): Promise<void> {
  const checks = { state: secret(), nonce: secret(), verifier: secret() };
  const url = await provider.authorizationUrl(checks, prompt ? { prompt } : {});
  const id = secret();
  const returnTo = ctx.path.startsWith(SIGN_IN_PATH) ? '/console' : ctx.path;
  const trip = { ...checks, provider: provider.id ?? '', returnTo };
  await options.store.set<Trip>(tripKey(id), trip, TRIP_LIFETIME);
  ctx.cookies.set(cookieName(options, '-sign-in'), id, { ...COOKIE, maxAge: TRIP_LIFETIME * 1000 });
  seeOther(ctx, url.href);
}

export function requireProvider({ signIn }: ConsoleOptions, id = ''): ConsoleProvider {
  const provider = signIn.providers.find((candidate) => (candidate.id ?? '') === id);
  if (provider) return provider;
  throw new HttpError(404, 'not_found', 'there is no such identity provider');
}

/** The answer of a provider: only at its own callback, in the browser that left for it, and once. */
export async function completeSignIn(options: ConsoleOptions, ctx: Koa.Context): Promise<void> {
  const provider = requireProvider(options, ctx.params.provider);
  const trip = await takeTrip(options, ctx);
  if (trip?.provider !== (provider.id ?? ''))
    throw new HttpError(400, 'expired', 'this sign-in is over, or belongs to another browser');
  const identity = await provider.identify(ctx.search, trip);
  const keeping = { now: options.now(), ttl: options.accountLifetime };
  const account = await saveAccount(options.store, options.signIn.accountKey, identity, keeping);
  const isAllowed =
    account.disabledAt === undefined && isAdministrator(account, options.administrators);
  await record(options, account, isAllowed ? 'done' : 'refused');
  if (!isAllowed) throw notAdministrator();
  await openSession(options, ctx, account);
  seeOther(ctx, trip.returnTo);
}

/** An answer to another question than this browser asked ends nothing: any page can send one. */
async function takeTrip(options: ConsoleOptions, ctx: Koa.Context): Promise<Trip | undefined> {
  const name = cookieName(options, '-sign-in');
  const id = ctx.cookies.get(name, { signed: false }) ?? '';
  const begun = TRIP.test(id) ? await options.store.get<Trip>(tripKey(id)) : undefined;
  if (!begun || begun.value.state !== ctx.query.state) return undefined;
  ctx.cookies.set(name, null, COOKIE);
  return options.store.take<Trip>(tripKey(id));
}

async function record(options: ConsoleOptions, { id }: Account, outcome: string) {
  await recordAudit(options, { event: 'console_sign_in', account: id, by: id, outcome });
}
