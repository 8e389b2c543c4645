// One authorization in one browser: the engine's interaction, found by its cookie and by the address, which must agree.
import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { errors } from 'oidc-provider';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import type { Store } from '../../store/store.ts';
import { COOKIE } from '../engine/configuration.ts';
import { redirectDestination } from '../engine/redirect-uris.ts';
import { requestContext } from '../../http/request-context.ts';

export type Flow = Awaited<ReturnType<Provider['interactionDetails']>>;

/** Refuses a flow that is over, and one that was started in another browser. */
export async function requireFlow(
  provider: Provider,
  ctx: Koa.Context,
  uid: string,
): Promise<Flow> {
  try {
    const flow = await provider.interactionDetails(ctx.req, ctx.res);
    requestContext(ctx).uiLocales = flow.params.ui_locales;
    if (flow.uid === uid) return flow;
  } catch (error) {
    throw over(error);
  }
  throw over(new errors.SessionNotFound('another interaction'));
}

/** In the words of a page, when the engine says that it is over. */
function over(error: unknown): unknown {
  if (!(error instanceof errors.SessionNotFound)) return error;
  const message = 'this sign-in is over, or belongs to another browser';
  return new HttpError(400, 'expired', message, { cause: error });
}

/** Stores the result and goes back to the engine. */
export async function finishFlow(
  provider: Provider,
  ctx: Koa.Context,
  result: Parameters<Provider['interactionResult']>[2],
): Promise<void> {
  const merged = { mergeWithLastSubmission: true };
  const returnTo = await provider
    .interactionResult(ctx.req, ctx.res, result, merged)
    // Another tab of the same browser may have finished meanwhile, which gives the session a new id.
    .catch((error: unknown) => {
      throw over(error);
    });
  seeOther(ctx, returnTo);
}

/** The engine resumes the flow of the cookie, whatever the address says; what is remembered of it is found by the address. */
export function requireResumable(provider: () => Provider): Koa.Middleware {
  return function resumable(ctx, next) {
    if (isOfThisBrowser(provider(), ctx, String(ctx.params.flow), 'resume')) return next();
    throw over(new errors.SessionNotFound('another interaction'));
  };
}

const ANSWER_KEPT = 15;
const OUTCOME_KEPT = 900;
const answerKey = (uid: string) => `answer:${uid}`;
const outcomeKey = (uid: string) => `outcome:${uid}`;

/** What the person decided, for as long as the page may still stand in a tab. */
export type Outcome = { decision: 'approved' | 'denied'; destination: string };

/**
 * Remembers, for the browser of the flow, where a resumed flow went: a second click comes after the flow is over, or is resumed when it is, and goes
 * to the same place. Longer than the answer, in which a code is, it remembers what was decided, for whoever comes back to the page.
 */
export function rememberAnswer(provider: () => Provider, store: Store): Koa.Middleware {
  return async function answerRemembered(ctx, next) {
    const uid = String(ctx.params.flow);
    await next();
    if (requestContext(ctx).errorPage === 'expired') return repeatAnswer(store, ctx, uid);
    const location = ctx.response.get('Location');
    const decision = decisionIn(location);
    if (ctx.status !== 303 || !decision) return;
    const outcome: Outcome = { decision, destination: redirectDestination(location) };
    ctx.cookies.set(provider().cookieName('resume'), uid, {
      ...COOKIE,
      path: ctx.path,
      maxAge: OUTCOME_KEPT * 1000,
    });
    // The person is on the way already: a second click is all that is lost when this fails.
    await Promise.all([
      store.set(answerKey(uid), location, ANSWER_KEPT),
      store.set(outcomeKey(uid), outcome, OUTCOME_KEPT),
    ]).catch(() => undefined);
  };
}

/** In place of the page that says that the flow is over, when another request of this browser has just resumed it. */
async function repeatAnswer(store: Store, ctx: Koa.Context, uid: string): Promise<void> {
  const answer = await waitForAnswer(store, uid);
  if (answer === undefined) return;
  // The engine has given up a session that the other request has moved on.
  ctx.remove('Set-Cookie');
  // And nothing was refused.
  delete requestContext(ctx).failure;
  seeOther(ctx, answer);
}

function decisionIn(location: string): Outcome['decision'] | undefined {
  if (/[?&]code=/.test(location)) return 'approved';
  return /[?&]error=access_denied(&|$)/.test(location) ? 'denied' : undefined;
}

type Remembering = { provider: Provider; store: Store };

const PAUSES_MS = [0, 25, 50, 100, 200, 400];

/** Where this browser's flow went a moment ago, if it did. */
export async function findAnswer(
  { provider, store }: Remembering,
  ctx: Koa.Context,
  uid: string,
): Promise<string | undefined> {
  return isOfThisBrowser(provider, ctx, uid) ? waitForAnswer(store, uid) : undefined;
}

/** A flow is over a moment before it is known where it went. */
async function waitForAnswer(store: Store, uid: string): Promise<string | undefined> {
  for (const pause of PAUSES_MS) {
    await delay(pause);
    // Written after the answer, so that one without the other means that the answer is kept no longer.
    const outcome = await store.get<Outcome>(outcomeKey(uid));
    const answer = await store.get<string>(answerKey(uid));
    if (answer || outcome) return answer?.value;
  }
  return undefined;
}

/** What this browser's flow ended with, if it did not long ago. */
export async function findOutcome(
  { provider, store }: Remembering,
  ctx: Koa.Context,
  uid: string,
): Promise<Outcome | undefined> {
  return isOfThisBrowser(provider, ctx, uid)
    ? (await store.get<Outcome>(outcomeKey(uid)))?.value
    : undefined;
}

function isOfThisBrowser(
  provider: Provider,
  ctx: Koa.Context,
  uid: string,
  cookie: 'interaction' | 'resume' = 'interaction',
): boolean {
  return ctx.cookies.get(provider.cookieName(cookie), { signed: true }) === uid;
}

/** Forms come from our own pages: browsers say so in `Origin` and `Sec-Fetch-Site`, and what they do not say is not held against them. */
export function requireOwnForm(ctx: Koa.Context, authUrl: string): void {
  const { origin } = ctx.req.headers;
  const site = ctx.get('Sec-Fetch-Site');
  const isForeign =
    (origin !== undefined && origin !== authUrl) || (site !== '' && site !== 'same-origin');
  if (isForeign) throw new HttpError(403, 'forbidden', 'the form was sent from another site');
}

/**
 * Binds a form to this flow and to what the page showed: the digest of what was shown, and a MAC over it and the flow. The same page
 * loaded twice has the same token, so that both copies work.
 */
export function formToken([key]: KeyRing, flow: Flow, shown: string): string {
  return tokenWith(key, flow, shown);
}

export type TokenCheck = 'same' | 'changed';

/** `changed`: the page was ours, and what it showed is no longer so. Refuses a token that we did not make for this flow. */
export function requireFormToken(keys: KeyRing, flow: Flow, shown: string, token = ''): TokenCheck {
  const [digest = '', sent = ''] = token.split('.');
  const key = keys.find((candidate) =>
    isSame(sent, mac(candidate, `form\n${flow.uid}\n${digest}`)),
  );
  if (!key) throw new HttpError(403, 'forbidden', 'the form does not belong to this sign-in');
  return tokenWith(key, flow, shown) === token ? 'same' : 'changed';
}

/** One flow makes one grant, so that a form sent twice approves once; and nobody can guess the id. */
export function grantIdOf([key]: KeyRing, flow: Flow): string {
  return mac(key, `grant\n${flow.uid}`).slice(0, 32);
}

function tokenWith(key: KeyObject, flow: Flow, shown: string): string {
  const digest = mac(key, `shown\n${shown}`);
  return `${digest}.${mac(key, `form\n${flow.uid}\n${digest}`)}`;
}

function isSame(given: string, expected: string): boolean {
  const bytes = Buffer.from(given);
  return bytes.length === expected.length && timingSafeEqual(bytes, Buffer.from(expected));
}

function mac(key: KeyObject, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url');
}
