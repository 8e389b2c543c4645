// The engine's interaction: one authorization in one browser. The uid in the path must match the one in the cookie.
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { errors } from 'oidc-provider';
import type { Authentication, StepUpProblem } from '../people/step-up.ts';
import { HttpError } from '../http/errors.ts';
import { seeOther } from '../http/see-other.ts';
import type { LoginRequest, SignInSite } from '../sign-in/sign-in.ts';
import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';
import { saveInteractionResult } from '../oauth/engine/adapter.ts';
import { noteAttempt } from '../oauth/engine/engine-request.ts';
import type { Engine } from '../oauth/engine/engine.ts';
import { requestContext } from '../http/request-context.ts';

const MAX_LOGIN_HINT = 320;

/** What the pages of interactions and the account page work with. */
export type InteractionContext = {
  settings: Settings;
  services: Services;
  engine: Engine;
  site: SignInSite;
};

export type Interaction = Awaited<ReturnType<Provider['interactionDetails']>> & {
  /** The store, with reads that began beside that of the interaction. For the first step that reads what it names. */
  begunReads?: Services['store'] | undefined;
};

/** The parts of the consent page, in the order in which a change is reported. */
export const CONTENT_PARTS = ['account', 'app', 'connector', 'levels'] as const;
export type ContentPart = (typeof CONTENT_PARTS)[number];

/** Why an approval did not continue after the sign-in that its level needs; a part of the page if that has other content now. */
export type StepUpFailure = StepUpProblem | 'not_completed' | ContentPart;

/** What the sign-ins of this authorization left in the interaction, as results that the engine passes on. */
export type SignInResult = {
  login?: { accountId: string; ts: number };
  authentication?: Authentication | undefined;
  stepUpFailure?: StepUpFailure | undefined;
  /** The connection that got more access. */
  raised?: string;
};

/** The connection that an interaction of ours is to raise. Undefined for that of an app, whose requests cannot have this parameter. */
export function raisedConnection({ params }: Pick<Interaction, 'params'>): string | undefined {
  return typeof params.raise === 'string' ? params.raise : undefined;
}

export function signInResult({ lastSubmission }: Interaction): SignInResult {
  return (lastSubmission ?? {}) as SignInResult;
}

/** Throws 400 `expired` if the interaction has ended or belongs to another browser. */
export async function requireInteraction(
  provider: Provider,
  ctx: Koa.Context,
  uid: string,
): Promise<Interaction> {
  try {
    const interaction = await provider.interactionDetails(ctx.req, ctx.res);
    requestContext(ctx).uiLocales = interaction.params.ui_locales;
    // More access for an app that is connected is no attempt to connect.
    const attempt = raisedConnection(interaction) === undefined ? { id: interaction.cid } : {};
    noteAttempt(ctx, { ...attempt, client: String(interaction.params.client_id) });
    if (interaction.uid === uid) return interaction;
  } catch (error) {
    throw toExpired(error);
  }
  throw toExpired(new errors.SessionNotFound('another interaction'));
}

/** Maps the engine's `SessionNotFound` to an error that has a page. */
function toExpired(error: unknown): unknown {
  if (!(error instanceof errors.SessionNotFound)) return error;
  const message = 'this sign-in has expired or was started in another browser';
  return new HttpError(400, 'expired', message, { cause: error });
}

/** Returns the sign-in of an interaction. A switch of account, or `prompt=login`, makes the provider ask even if it has a session. */
export function loginRequestOf({ uid, prompt, params }: Interaction): LoginRequest {
  const { ui_locales: uiLocales, login_hint: loginHint } = params;
  const isSwitch = prompt.name === 'consent';
  const isForced = prompt.reasons.includes('login_prompt');
  const isHint = typeof loginHint === 'string' && loginHint.length <= MAX_LOGIN_HINT;
  return {
    uid,
    to: 'app',
    action: `/interaction/${uid}/sign-in`,
    parameters: {
      ...(isSwitch ? { prompt: 'switch' } : isForced ? { prompt: 'login' } : {}),
      ...(typeof uiLocales === 'string' ? { uiLocales } : {}),
      // A person who switches the account does not want the one that the app named.
      ...(isHint && !isSwitch ? { loginHint } : {}),
    },
  };
}

/** Stores the result and redirects to the engine's resume endpoint. Throws 400 `expired` if another tab has finished it in the meantime. */
export async function finishInteraction(
  { services: { store } }: InteractionContext,
  ctx: Koa.Context,
  interaction: Interaction,
  result: Parameters<Provider['interactionResult']>[2],
): Promise<void> {
  resumeInteraction(ctx, interaction, await saveInteractionResult(store, interaction.uid, result));
}

/** `isSaved`: what `saveInteractionResult` resolved to. Throws as `finishInteraction` does. */
export function resumeInteraction(
  ctx: Koa.Context,
  { returnTo }: Interaction,
  isSaved: boolean,
): void {
  if (!isSaved) throw toExpired(new errors.SessionNotFound('another tab has finished it'));
  seeOther(ctx, returnTo);
}

/** The engine resumes the interaction in the cookie and ignores the path. We look up its result by the path, so the two must match. */
export function requireResumeCookie(provider: () => Provider): Koa.Middleware {
  return function resumeCookieRequired(ctx, next) {
    if (hasInteractionCookie(provider(), ctx, String(ctx.params.uid), 'resume')) return next();
    throw toExpired(new errors.SessionNotFound('another interaction'));
  };
}

/** Whether this browser's cookie contains the uid in the path. */
export function hasInteractionCookie(
  provider: Provider,
  ctx: Koa.Context,
  uid: string,
  cookie: 'interaction' | 'resume' = 'interaction',
): boolean {
  return ctx.cookies.get(provider.cookieName(cookie), { signed: true }) === uid;
}
