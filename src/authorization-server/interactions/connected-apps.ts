// The connected apps of a person: what is connected, at which level, and why something ended; lower a level, disconnect, sign out.
import { Router } from '@koa/router';
import type Koa from 'koa';
import {
  endConnection,
  endConnections,
  type EndOptions,
  findConnection,
  narrowConnection,
} from '../../connections/connections.ts';
import { readForm } from '../../http/body.ts';
import { HttpError } from '../../http/errors.ts';
import type { Pages } from '../../http/pages.ts';
import { limitRate, type RateLimit } from '../../http/rate-limits.ts';
import { seeOther } from '../../http/see-other.ts';
import { refuseUnseenRequests } from '../../http/unseen-requests.ts';
import { isLevel } from '../../permission-level.ts';
import {
  ACCOUNT_PATH,
  accountFormToken,
  type AccountSessionOptions,
  completeAccountSignIn,
  findSignedIn,
  requireAccountForm,
  SIGN_IN_PATH,
  type SignedIn,
  signOut,
  startAccountSignIn,
  startAccountSignInAt,
} from './account-session.ts';
import { connectedAppsValues } from './connected-apps-page.ts';
import { requireSameOrigin } from './interaction.ts';

export type ConnectedAppsOptions = AccountSessionOptions &
  EndOptions & {
    pages: Pages;
    authUrl: string;
    rateLimit: RateLimit;
    /** On trips to the identity provider, each of which is remembered for a while. */
    tripLimit: RateLimit;
  };

const SIGNED_OUT_PATH = `${ACCOUNT_PATH}/signed-out`;

export function connectedApps(options: ConnectedAppsOptions): Koa.Middleware {
  const router = new Router({ sensitive: true, strict: true });
  router.use(refuseUnseenRequests('GET, POST'));
  router.use(limitRate(options.rateLimit));
  const tripLimited = limitRate(options.tripLimit);
  router.get(ACCOUNT_PATH, async (ctx) => {
    const signedIn = await findSignedIn(options, ctx);
    if (signedIn) return show(options, ctx, signedIn);
    return tripLimited(ctx, () => startAccountSignIn(options, ctx));
  });
  router.post(ACCOUNT_PATH, (ctx) => act(options, ctx));
  const callback = `${ACCOUNT_PATH}/callback`;
  router.get([callback, `${callback}/:provider`], (ctx) => completeAccountSignIn(options, ctx));
  // Whoever signed out may be about to be somebody else, whom the identity provider does not ask for by itself.
  router.get(SIGN_IN_PATH, tripLimited, (ctx) => startAccountSignIn(options, ctx, 'switch'));
  router.post(SIGN_IN_PATH, tripLimited, async (ctx) => {
    requireSameOrigin(ctx, options.authUrl);
    return startAccountSignInAt(options, ctx, (await readForm(ctx)).provider);
  });
  router.get(SIGNED_OUT_PATH, (ctx) =>
    options.pages.render(ctx, 'signed-out', { signIn: SIGN_IN_PATH }),
  );
  const routes = router.routes() as Koa.Middleware;
  return (ctx, next) => (/^\/account(\/|$)/.test(ctx.path) ? routes(ctx, next) : next());
}

async function show(
  options: ConnectedAppsOptions,
  ctx: Koa.Context,
  signedIn: SignedIn,
): Promise<void> {
  const values = await connectedAppsValues(options, signedIn.account, {
    action: ACCOUNT_PATH,
    token: accountFormToken(options.formKeys, signedIn),
    done: ctx.query.done,
  });
  await options.pages.render(ctx, 'connected-apps', values);
}

type Outcome = 'disconnected' | 'disconnected-all' | 'lowered' | 'signed-out';

async function act(options: ConnectedAppsOptions, ctx: Koa.Context): Promise<void> {
  requireSameOrigin(ctx, options.authUrl);
  const form = await readForm(ctx);
  const signedIn = await findSignedIn(options, ctx);
  // Whoever is not signed in any more sees what there is first, and decides again.
  if (!signedIn) return seeOther(ctx, ACCOUNT_PATH);
  requireAccountForm(options.formKeys, signedIn, form.token);
  const outcome = await decide(options, ctx, signedIn, form);
  if (outcome === 'signed-out') return seeOther(ctx, SIGNED_OUT_PATH);
  seeOther(ctx, `${ACCOUNT_PATH}?done=${outcome}`);
}

async function decide(
  options: ConnectedAppsOptions,
  ctx: Koa.Context,
  signedIn: SignedIn,
  form: Record<string, string>,
): Promise<Outcome> {
  switch (form.decision) {
    case 'sign-out':
      await signOut(options, ctx);
      return 'signed-out';
    case 'disconnect-all':
      await endConnections(options, { account: signedIn.account.id }, 'disconnected');
      return 'disconnected-all';
    case 'disconnect':
      await endConnection(options, await requireOwn(options, signedIn, form.grant), 'disconnected');
      return 'disconnected';
    case 'lower':
      return lower(options, signedIn, form);
    default:
      throw new HttpError(400, 'invalid_request', 'choose one of the buttons on the page');
  }
}

async function lower(
  options: ConnectedAppsOptions,
  signedIn: SignedIn,
  { grant, level }: Record<string, string>,
): Promise<Outcome> {
  if (!isLevel(level))
    throw new HttpError(400, 'invalid_request', 'choose one of the levels on the page');
  const { id } = await requireOwn(options, signedIn, grant);
  await narrowConnection(options, id, { level, stays: true });
  return 'lowered';
}

/** Of somebody else it is as if there were none. */
async function requireOwn(options: ConnectedAppsOptions, { account }: SignedIn, grant = '') {
  const connection = await findConnection(options, grant);
  if (connection?.account.id === account.id) return connection;
  throw new HttpError(404, 'not_found', 'you have no such connection');
}
