// What a person answered to a consent page, remembered for the browser of the interaction: a second click, and a second answer.
import { setTimeout as delay } from 'node:timers/promises';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { grantedLevel, isLive, type StoredGrant } from '../../grants/grant-record.ts';
import { findGrant, findStoredGrant } from '../../grants/grants.ts';
import { requestContext } from '../../http/request-context.ts';
import { seeOther } from '../../http/see-other.ts';
import type { KeyRing } from '../../keys/key-ring.ts';
import type { Level } from '../../permission-level.ts';
import type { Store } from '../../store/store.ts';
import { COOKIE } from '../engine/configuration.ts';
import { redirectDestination } from '../engine/redirect-uris.ts';
import { grantIdOf, hasInteractionCookie } from './interaction.ts';

/** Seconds in which another answer still counts, and the same one repeats the redirect. */
const ANSWER_KEPT = 15;
/** Seconds in which the page says what was decided. */
const OUTCOME_KEPT = 900;
const answerKey = (uid: string) => `answer:${uid}`;
const outcomeKey = (uid: string) => `outcome:${uid}`;

/** `withdrawn`: denied after the app had fetched its tokens. */
export type Outcome = {
  decision: 'approved' | 'denied' | 'withdrawn';
  /** Host and port, or private scheme, of the redirect URI. */
  destination: string;
  /** What the app has, when it was approved. */
  level?: Level;
  /** When the first answer was given, in seconds since the epoch. */
  at?: number;
};

export type Answer = {
  outcome: Outcome;
  /** Where the browser was sent, while that may be repeated. */
  location?: string;
};

export type AnswerOptions = {
  provider: Provider;
  store: Store;
  formKeys: KeyRing;
  /** Seconds since the epoch. */
  now: () => number;
};

/**
 * Remembers where a finished interaction sent the browser, and what was decided. A second click comes when the interaction is over, or
 * while it ends.
 */
export function rememberAnswer(options: AnswerOptions): Koa.Middleware {
  const { store, formKeys, now } = options;
  return async function answerRemembered(ctx, next) {
    const uid = String(ctx.params.uid);
    await next();
    if (requestContext(ctx).errorPage === 'expired') return repeatAnswer(options, ctx, uid);
    const location = ctx.response.get('Location');
    const decision = decisionIn(location);
    if (ctx.status !== 303 || !decision) return;
    ctx.cookies.set(options.provider.cookieName('resume'), uid, {
      ...COOKIE,
      path: ctx.path,
      maxAge: OUTCOME_KEPT * 1000,
    });
    const outcome = { decision, destination: redirectDestination(location), at: now() };
    const remember = async () => {
      const found = decision === 'approved' && (await findGrant(store, grantIdOf(formKeys, uid)));
      const level = found ? grantedLevel(found.value) : undefined;
      await saveAnswer(store, uid, { outcome: level ? { ...outcome, level } : outcome, location });
    };
    // The person is on the way already: a second answer is all that is lost when this fails.
    await remember().catch(() => undefined);
  };
}

/** In place of the page that says that the flow is over, when another request of this browser has just resumed it. */
async function repeatAnswer({ store }: AnswerOptions, ctx: Koa.Context, uid: string) {
  const location = (await waitForAnswer(store, uid))?.location;
  if (location === undefined) return;
  // The engine has given up a session that the other request has moved on.
  ctx.remove('Set-Cookie');
  // And nothing was refused.
  delete requestContext(ctx).failure;
  seeOther(ctx, location);
}

function decisionIn(location: string): 'approved' | 'denied' | undefined {
  if (/[?&]code=/.test(location)) return 'approved';
  return /[?&]error=access_denied(&|$)/.test(location) ? 'denied' : undefined;
}

/** Without `location` nothing is repeated any more. */
export async function saveAnswer(
  store: Store,
  uid: string,
  { outcome, location }: Answer,
): Promise<void> {
  await (location === undefined
    ? store.delete(answerKey(uid))
    : store.set(answerKey(uid), location, ANSWER_KEPT));
  // After the location, so that whoever finds the outcome finds both.
  await store.set(outcomeKey(uid), outcome, OUTCOME_KEPT);
}

/** An interaction is over a moment before it is known where it went. */
const PAUSES_MS = [0, 25, 50, 100, 200, 400];

async function waitForAnswer(
  store: Store,
  uid: string,
  pauses: readonly number[] = PAUSES_MS,
): Promise<Answer | undefined> {
  for (const pause of pauses) {
    await delay(pause);
    const outcome = (await store.get<Outcome>(outcomeKey(uid)))?.value;
    if (!outcome) continue;
    const location = (await store.get<string>(answerKey(uid)))?.value;
    return location === undefined ? { outcome } : { outcome, location };
  }
  return undefined;
}

export type FoundAnswer = Answer & {
  /** What the interaction granted, as it is now. */
  grant: StoredGrant | undefined;
};

/** How this browser's interaction ended. Undefined when it did not, or too long ago. */
export async function findAnswer(
  { provider, store, formKeys }: AnswerOptions,
  ctx: Koa.Context,
  uid: string,
  { isUnderWay }: { isUnderWay: boolean },
): Promise<FoundAnswer | undefined> {
  if (!hasInteractionCookie(provider, ctx, uid)) return undefined;
  const answer = await waitForAnswer(store, uid, isUnderWay ? PAUSES_MS : [0]);
  const grant = await findStoredGrant(store, grantIdOf(formKeys, uid));
  const isDenied = grant !== undefined && !isLive(grant) && grant.ended === 'denied';
  // An approval that was overtaken by a denial may have been remembered after it.
  if (isDenied && (!answer || answer.outcome.decision === 'approved'))
    return { outcome: { decision: 'denied', destination: grant.client.redirectHost }, grant };
  return answer && { ...answer, grant };
}

export function isRecent({ at = -Infinity }: Outcome, now: number): boolean {
  return now - at < ANSWER_KEPT;
}
