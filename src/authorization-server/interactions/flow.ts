// One authorization in one browser: the engine's interaction, found by its cookie and by the address, which must agree.
import { createHmac, timingSafeEqual, type KeyObject } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { errors } from 'oidc-provider';
import { HttpError } from '../../http/errors.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
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

/** Whether this browser's cookie names the interaction of the address. */
export function isOfThisBrowser(
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

/** What a page of the flow showed, and to whom. */
export type Shown = { accountId: string; text: string };

/**
 * Binds a form to its flow, to the account that saw the page, and to what the page showed: a digest of each, and a MAC over them and the
 * flow. The same page loaded twice has the same token, so that both copies work.
 */
export function formToken([key]: KeyRing, uid: string, shown: Shown): string {
  return tokenWith(key, uid, shown);
}

function tokenWith(key: KeyObject, uid: string, { accountId, text }: Shown): string {
  const digests = `${accountDigest(key, accountId)}.${mac(key, `shown\n${text}`)}`;
  return `${digests}.${mac(key, `form\n${uid}\n${digests}`)}`;
}

export type FormOrigin = {
  /** Whether the page with the form showed this. */
  showed: (shown: Shown) => boolean;
  /** Whether it was shown to this account. */
  isForAccount: (id: string) => boolean;
};

/** Refuses a token that we did not make for this flow. */
export function requireFormToken(keys: KeyRing, uid: string, token = ''): FormOrigin {
  const [account = '', shown = '', sent = ''] = token.split('.');
  const key = keys.find((candidate) =>
    isSame(sent, mac(candidate, `form\n${uid}\n${account}.${shown}`)),
  );
  if (!key) throw new HttpError(403, 'forbidden', 'the form does not belong to this sign-in');
  return {
    showed: (other) => tokenWith(key, uid, other) === token,
    isForAccount: (id) => isSame(account, accountDigest(key, id)),
  };
}

/** One flow makes one grant, so that a form sent twice approves once; and nobody can guess the id. */
export function grantIdOf([key]: KeyRing, uid: string): string {
  return mac(key, `grant\n${uid}`).slice(0, 32);
}

function accountDigest(key: KeyObject, accountId: string): string {
  return mac(key, `account\n${accountId}`);
}

function isSame(given: string, expected: string): boolean {
  const bytes = Buffer.from(given);
  return bytes.length === expected.length && timingSafeEqual(bytes, Buffer.from(expected));
}

function mac(key: KeyObject, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url');
}
