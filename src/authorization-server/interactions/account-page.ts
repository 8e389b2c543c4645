// The account page: lists a person's connected apps; lowers a level, disconnects apps and signs out.
import { Router } from '@koa/router';
import type Koa from 'koa';
import {
  endConnection,
  endConnections,
  findConnection,
  narrowConnection,
} from '../../connections/connections.ts';
import { readForm } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import { createFormToken, requireFormToken } from '../../http/form-tokens.ts';
import type { Pages } from '../../pages/pages.ts';
import { limitRate, type RateLimit } from '../../http/rate-limits.ts';
import { seeOther } from '../../http/see-other.ts';
import { requireNavigation } from '../../http/fetch-metadata.ts';
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import { isLevel } from '../../permission-level.ts';
import {
  ACCOUNT_PATH,
  accountFormContext,
  type AccountSessionOptions,
  completeAccountSignIn,
  findAccountSession,
  SIGN_IN_PATH,
  type AccountSession,
  signOut,
  startAccountSignIn,
  startAccountSignInAt,
} from './account-session.ts';
import { accountPageValues } from './account-page-values.ts';
import { requireSameOrigin } from './interaction.ts';

export type AccountPageOptions = AccountSessionOptions & {
  settings: Settings;
  services: Services;
  pages: Pages;
  authUrl: string;
  rateLimit: RateLimit;
  /** Limits started sign-ins, each of which stores a login state. */
  signInLimit: RateLimit;
};

const SIGNED_OUT_PATH = `${ACCOUNT_PATH}/signed-out`;

export function accountPage(options: AccountPageOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(requireNavigation('GET, POST'));
  router.use(limitRate(options.rateLimit));
  const limitSignIns = limitRate(options.signInLimit);
  router.get(ACCOUNT_PATH, async (ctx) => {
    const session = await findAccountSession(options, ctx);
    if (session) return showAccountPage(options, ctx, session);
    return limitSignIns(ctx, () => startAccountSignIn(options, ctx));
  });
  router.post(ACCOUNT_PATH, (ctx) => handleForm(options, ctx));
  const callback = `${ACCOUNT_PATH}/callback`;
  router.get([callback, `${callback}/:provider`], (ctx) => completeAccountSignIn(options, ctx));
  // After a sign-out the identity provider is asked to offer other accounts.
  router.get(SIGN_IN_PATH, limitSignIns, (ctx) => startAccountSignIn(options, ctx, 'switch'));
  router.post(SIGN_IN_PATH, limitSignIns, async (ctx) => {
    requireSameOrigin(ctx, options.authUrl);
    return startAccountSignInAt(options, ctx, (await readForm(ctx)).provider);
  });
  router.get(SIGNED_OUT_PATH, (ctx) =>
    options.pages.render(ctx, 'signed-out', { signIn: SIGN_IN_PATH }),
  );
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (/^\/account(\/|$)/.test(ctx.path) ? routes(ctx, next) : next());
}

async function showAccountPage(
  options: AccountPageOptions,
  ctx: Koa.Context,
  session: AccountSession,
): Promise<void> {
  const values = await accountPageValues(options, session.account, {
    action: ACCOUNT_PATH,
    token: createFormToken(options.formKeys, accountFormContext(session)),
    done: ctx.query.done,
  });
  await options.pages.render(ctx, 'connected-apps', values);
}

type Outcome = 'disconnected' | 'disconnected-all' | 'lowered' | 'signed-out';

async function handleForm(options: AccountPageOptions, ctx: Koa.Context): Promise<void> {
  requireSameOrigin(ctx, options.authUrl);
  const form = await readForm(ctx);
  const session = await findAccountSession(options, ctx);
  // After the session has expired, the person signs in and decides again on the current page.
  if (!session) return seeOther(ctx, ACCOUNT_PATH);
  requireFormToken(options.formKeys, accountFormContext(session), form.token);
  const outcome = await decide(options, ctx, session, form);
  if (outcome === 'signed-out') return seeOther(ctx, SIGNED_OUT_PATH);
  seeOther(ctx, `${ACCOUNT_PATH}?done=${outcome}`);
}

async function decide(
  options: AccountPageOptions,
  ctx: Koa.Context,
  session: AccountSession,
  form: Record<string, string>,
): Promise<Outcome> {
  switch (form.decision) {
    case 'sign-out':
      await signOut(options, ctx);
      return 'signed-out';
    case 'disconnect-all':
      await endConnections(
        options.settings,
        options.services,
        { account: session.account.id },
        'disconnected',
      );
      return 'disconnected-all';
    case 'disconnect':
      await endConnection(
        options.services,
        await requireOwnConnection(options, session, form.grant),
        'disconnected',
      );
      return 'disconnected';
    case 'lower':
      return lower(options, session, form);
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

async function lower(
  options: AccountPageOptions,
  session: AccountSession,
  { grant, level }: Record<string, string>,
): Promise<Outcome> {
  if (!isLevel(level))
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  const { id } = await requireOwnConnection(options, session, grant);
  await narrowConnection(options.settings, options.services, id, { level, stays: true });
  return 'lowered';
}

/** Throws 404 also for a connection of another account. */
async function requireOwnConnection(
  options: AccountPageOptions,
  { account }: AccountSession,
  grant = '',
) {
  const connection = await findConnection(options.settings, options.services, grant);
  if (connection?.account.id === account.id) return connection;
  throw new HttpError(404, 'not_found', 'you have no connection with this id');
}
