// Sign-in at an identity provider: the provider choice, the authentication request and its callback.
import type { KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';
import type { Logger } from 'pino';
import { type Account, type Identity, isSessionValid } from '../people/account.ts';
import { withOwnEmail } from '../people/domain-owner.ts';
import type { Authentication } from '../people/step-up.ts';
import { saveAccount } from '../people/accounts.ts';
import { noteGroups } from '../people/arrived-groups.ts';
import { type AuditServices, recordAudit } from '../audit/audit.ts';
import { COOKIE, hostCookieName } from '../http/cookies.ts';
import { failureOf, HttpError, unavailable } from '../http/errors.ts';
import type { RateLimits } from '../http/rate-limits.ts';
import { requestContext } from '../http/request-context.ts';
import { seeOther } from '../http/see-other.ts';
import type { Pages, ViewValues } from '../pages/pages.ts';
import { type ClaimNotice, warnOnce } from './claim-notices.ts';
import { NOT_SET_UP, STOPPED, UNAVAILABLE } from './errors.ts';
import {
  consumePendingLogin,
  type PendingLogin,
  savePendingLogin,
  uidOfState,
} from './login-state.ts';
import { addSignIn } from './provider-sessions.ts';
import {
  createLoginState,
  findDefaultProvider,
  findProviderForEmail,
  type IdentityProvider,
  type IdentityProviders,
  type LoginParameters,
  pathOfProvider,
  requireProvider,
} from './provider.ts';

/** Where people sign in: for an app's authorization, to the account page or to the console. */
export type SignInSite = AuditServices & {
  logger: Logger;
  pages: Pages;
  identityProviders: IdentityProviders;
  isHttps: boolean;
  accountKey: KeyObject;
  /** In seconds. */
  accountLifetime: number;
  /** In seconds. */
  sessionLifetime: number;
  /** Whether the redirect URI is that of several sites. Then `state` contains the uid for `forwardCallback`. */
  hasSharedCallback: boolean;
  rateLimits: Pick<RateLimits, 'recordedSignIns' | 'signInGaps'>;
  /** Whether the person has any level or role. */
  mayHaveAccess: (account: Account) => boolean;
  /** Renders the provider choice in place of the view `sign-in`. Failures of a provider are error pages then. */
  renderChoice?: (ctx: Koa.Context, choice: Choice) => Promise<void>;
};

/** A sign-in of one browser. */
export type LoginRequest = {
  /** Bound to the browser by a cookie. */
  uid: string;
  /** What the person signs in to, for the audit log. */
  to: 'app' | 'account' | 'console';
  /** The path to which the provider choice is posted. */
  action: string;
  parameters: LoginParameters;
} & Pick<PendingLogin, 'returnTo' | 'approval'>;

/** A sign-in at a provider, with what was saved when it started. */
export type CompletedSignIn = { authentication: Authentication } & Pick<
  PendingLogin,
  'returnTo' | 'approval'
>;

type Choice = ViewValues['sign-in'];
type ChoiceSite = Pick<SignInSite, 'pages' | 'identityProviders' | 'isHttps' | 'renderChoice'>;

/** Redirects to the only provider, or to the one that `login_hint` selects; otherwise shows the provider choice. */
export function startSignIn(
  site: SignInSite,
  ctx: Koa.Context,
  loginRequest: LoginRequest,
): Promise<void> {
  const { loginHint } = loginRequest.parameters;
  const provider = findDefaultProvider(site.identityProviders, loginHint);
  return provider
    ? redirectToProvider(site, ctx, loginRequest, provider)
    : showProviderChoice(site, ctx, loginRequest);
}

/** Redirects to the provider that the person chose. */
export function startSignInAt(
  site: SignInSite,
  ctx: Koa.Context,
  loginRequest: LoginRequest,
  id: string | undefined,
): Promise<void> {
  const provider = requireProvider(site.identityProviders, id);
  return redirectToProvider(site, ctx, loginRequest, provider);
}

function redirectToProvider(
  site: SignInSite,
  ctx: Koa.Context,
  loginRequest: LoginRequest,
  provider: IdentityProvider,
): Promise<void> {
  const { uid, returnTo, approval } = loginRequest;
  return offerChoiceOnFailure(site, ctx, loginRequest, provider, async () => {
    const loginState = createLoginState(site.hasSharedCallback ? uid : undefined);
    const parameters = parametersFor(site, provider, loginRequest.parameters);
    const url = await provider.authorizationUrl(loginState, parameters);
    await savePendingLogin(site, uid, {
      ...loginState,
      ...(provider.id === undefined ? {} : { identityProvider: provider.id }),
      ...(returnTo === undefined ? {} : { returnTo }),
      ...(approval ? { approval } : {}),
    });
    seeOther(ctx, url.href);
  });
}

/** Omits `login_hint` if its email domain belongs to another provider. */
function parametersFor(
  { identityProviders }: SignInSite,
  provider: IdentityProvider,
  { loginHint, ...parameters }: LoginParameters,
): LoginParameters {
  const hinted = findProviderForEmail(identityProviders, loginHint) ?? provider;
  return loginHint !== undefined && hinted === provider ? { ...parameters, loginHint } : parameters;
}

/** Redirects the provider's response from a shared callback to that of its site: browsers send the site's cookie only there. */
export function forwardCallback(
  { identityProviders }: SignInSite,
  ctx: Koa.Context,
  pathOf: (uid: string) => string,
): void {
  const { id } = requireProvider(identityProviders, ctx.params.provider);
  const uid = uidOfState(ctx.query.state);
  if (uid === undefined)
    throw new HttpError(
      400,
      'expired',
      'the response of the identity provider does not match a sign-in',
    );
  seeOther(ctx, pathOfProvider(`${pathOf(uid)}/callback`, id) + ctx.search);
}

/**
 * Handles the response at a provider's callback and calls `done` with the account. Its session must begin at `signedInAt`. If the provider
 * failed, calls `stopped` for a sign-in that an approval needs, and otherwise shows the provider choice.
 */
export function handleCallback(
  site: SignInSite,
  ctx: Koa.Context,
  loginRequest: Pick<LoginRequest, 'uid' | 'to' | 'action'>,
  done: (account: Account, completed: CompletedSignIn) => Promise<void>,
  stopped?: () => Promise<void>,
): Promise<void> {
  const provider = requireProvider(site.identityProviders, ctx.params.provider);
  return offerChoiceOnFailure(site, ctx, loginRequest, provider, async () => {
    const state = String(ctx.query.state ?? '');
    const login = await consumePendingLogin(site, loginRequest.uid, state, provider);
    const { returnTo, approval } = login;
    const found = await provider.identify(ctx.search, login).catch(async (error: unknown) => {
      if (!approval || !stopped || failureReason(error) === undefined) throw error;
      requestContext(ctx).failure = failureOf(error as HttpError);
      await stopped();
      return undefined;
    });
    if (!found) return;
    const { sid, recheckToken: token, authentication = {}, notices = [], ...identity } = found;
    const { store } = site;
    const issued = token === undefined ? {} : { token };
    const recheck = provider.storesToken ? issued : undefined;
    const account = await saveSignIn(site, identity, recheck);
    if (recheck && account.disabledAt === undefined && account.recheck?.token === undefined)
      warnOnce(site.logger, provider.issuer, NO_REFRESH_TOKEN);
    for (const notice of notices) warnOnce(site.logger, provider.issuer, notice);
    logClaims(site.logger, ctx, provider, account);
    await noteGroups(store, account, { issuer: provider.issuer, now: site.now() });
    if (sid !== undefined) {
      const signIn = { account: account.id, at: account.signedInAt };
      await addSignIn(store, { issuer: identity.issuer, sid }, signIn, site.sessionLifetime);
    }
    rememberProvider(site, ctx, provider);
    await recordSignIn(site, ctx, account, {
      to: loginRequest.to,
      provider: provider.settingsId,
    });
    await done(account, {
      authentication,
      ...(returnTo === undefined ? {} : { returnTo }),
      ...(approval ? { approval } : {}),
    });
  });
}

/**
 * Above a limit, sign-ins of a person without any access are no longer recorded, and one item says so: anybody may have an account at a public
 * provider.
 */
async function recordSignIn(
  site: SignInSite,
  ctx: Koa.Context,
  account: Account,
  details: { to: string; provider: string },
): Promise<void> {
  const { address } = requestContext(ctx);
  const { recordedSignIns, signInGaps } = site.rateLimits;
  const isOver =
    !site.mayHaveAccess(account) &&
    (await recordedSignIns.consume(address, account.id)) !== undefined;
  if (isOver && (await signInGaps.consume(address, account.id)) !== undefined) return;
  const done = isOver ? 'done_unrecorded' : 'done';
  await recordAudit(site, {
    event: 'signed_in',
    account: account.id,
    arguments: details,
    outcome: account.disabledAt === undefined ? done : 'refused',
  });
}

/** Clocks of processes may differ by about a second. */
const MAX_SAVE_ATTEMPTS = 3;
/** Timers can be early. */
const TIMER_TOLERANCE_MS = 5;

/**
 * Saves the account with the time of the sign-in. If the account was enabled or deleted, or its sessions were ended, within this second, a session
 * of this second would be invalid and the sign-in would loop. Then waits for the next second. Rejects with 503 if that is not enough.
 */
async function saveSignIn(
  { store, accountKey, accountLifetime: ttl, now, identityProviders }: SignInSite,
  asserted: Identity,
  recheck: { token?: string } | undefined,
): Promise<Account> {
  const identity = withOwnEmail(identityProviders, asserted, asserted);
  for (let attempt = 1; ; attempt += 1) {
    const time = now();
    const account = await saveAccount(store, accountKey, identity, { now: time, ttl, recheck });
    if (account.disabledAt !== undefined || isSessionValid(account, account.signedInAt))
      return account;
    if (attempt === MAX_SAVE_ATTEMPTS)
      throw unavailable(
        new Error('sessions of this account ended in the future: compare the clocks of processes'),
      );
    await delay((Math.floor(time) + 1 - time) * 1000 + TIMER_TOLERANCE_MS);
  }
}

const NO_REFRESH_TOKEN: ClaimNotice = {
  what: 'the identity provider issued no refresh token: people must sign in again after recheck, and tokens cannot be exchanged',
  remedy:
    'allow the grant type refresh_token and the scope offline_access for this client there; if its discovery document does not list the scope, set recheckScopes',
};

const MAX_LOGGED_GROUPS = 50;

/** What rules can match, so that an operator sees why people have a level or none. Nothing that identifies the person. */
function logClaims(
  logger: Logger,
  ctx: Koa.Context,
  { issuer }: IdentityProvider,
  { email, emailVerified, groups, groupsOmitted }: Account,
): void {
  logger.info(
    {
      what: issuer,
      requestId: requestContext(ctx).requestId,
      hasEmail: email !== undefined,
      emailVerified,
      groupCount: groups.length,
      groups: groups.slice(0, MAX_LOGGED_GROUPS),
      ...(groupsOmitted ? { groupsOmitted } : {}),
    },
    'a person signed in with these claims',
  );
}

/** Shows the page on which the person chooses a provider. It marks the last choice. */
export function showProviderChoice(
  { identityProviders, pages, ...site }: ChoiceSite,
  ctx: Koa.Context,
  { action }: Pick<LoginRequest, 'action'>,
  { trouble, status = 200 }: { trouble?: Choice['trouble']; status?: number } = {},
): Promise<void> {
  const last = ctx.cookies.get(choiceCookie(site), { signed: false });
  const providers = identityProviders.map(({ id = '', name = '' }) => ({
    id,
    name,
    isLast: id === last,
  }));
  const choice = { action, providers, ...(trouble ? { trouble } : {}) };
  return site.renderChoice
    ? site.renderChoice(ctx, choice)
    : pages.render(ctx, 'sign-in', choice, status);
}

/** Runs a step of a sign-in at `provider`. If it fails and other providers are configured, shows the provider choice with the reason. */
async function offerChoiceOnFailure(
  site: SignInSite,
  ctx: Koa.Context,
  loginRequest: Pick<LoginRequest, 'action'>,
  { name = '' }: IdentityProvider,
  step: () => Promise<void>,
): Promise<void> {
  try {
    await step();
  } catch (error) {
    const reason = failureReason(error);
    if (!reason || site.identityProviders.length < 2 || site.renderChoice) throw error;
    const { status, headers } = error as HttpError;
    requestContext(ctx).failure = failureOf(error as HttpError);
    ctx.set(headers);
    const reference = reason === 'notSetUp' ? { reference: requestContext(ctx).requestId } : {};
    const trouble = { name, reason, ...reference };
    await showProviderChoice(site, ctx, loginRequest, { trouble, status });
  }
}

function failureReason(error: unknown): NonNullable<Choice['trouble']>['reason'] | undefined {
  if (!(error instanceof HttpError)) return undefined;
  if (error.about === UNAVAILABLE) return 'unavailable';
  if (error.about === NOT_SET_UP) return 'notSetUp';
  return error.about === STOPPED ? 'stopped' : undefined;
}

const CHOICE_COOKIE_SECONDS = 180 * 86_400;

/** Stores the provider's id in a cookie. It is unsigned because it only marks a button of the provider choice. */
export function rememberProvider(
  site: Pick<SignInSite, 'isHttps' | 'renderChoice'>,
  ctx: Koa.Context,
  { id }: Pick<IdentityProvider, 'id'>,
): void {
  if (id === undefined || site.renderChoice) return;
  const maxAge = CHOICE_COOKIE_SECONDS * 1000;
  ctx.cookies.set(choiceCookie(site), id, { ...COOKIE, signed: false, maxAge });
}

function choiceCookie(site: { isHttps: boolean }): string {
  return hostCookieName('gatehouse-provider', site);
}
