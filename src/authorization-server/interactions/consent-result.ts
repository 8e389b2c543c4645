// Results of finished interactions, stored so that a double click repeats the redirect and a later decision can correct the first one.
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

/** How long a resubmitted form repeats the redirect or changes the decision. */
const REDIRECT_SECONDS = 15;
/** How long the page shows the decision. */
const OUTCOME_SECONDS = 900;
const redirectKey = (uid: string) => `answer:${uid}`;
const outcomeKey = (uid: string) => `outcome:${uid}`;

/** `withdrawn`: denied after the app exchanged its code. */
export type ConsentOutcome = {
  decision: 'approved' | 'denied' | 'withdrawn';
  /** Host and port, or private scheme, of the redirect URI. */
  destination: string;
  /** The granted level, if approved. */
  level?: Level;
  /** Time of the first decision, in seconds since the epoch. */
  at?: number;
};

export type ConsentResult = {
  outcome: ConsentOutcome;
  /** The redirect to the app, while it may be repeated. */
  location?: string;
};

export type ConsentResultOptions = {
  provider: Provider;
  store: Store;
  formKeys: KeyRing;
  /** Seconds since the epoch. */
  now: () => number;
};

/** Stores the redirect and the decision when the engine resumes an interaction. Repeats the redirect if another request resumed it first. */
export function recordConsentResult(options: ConsentResultOptions): Koa.Middleware {
  const { store, formKeys, now } = options;
  return async function consentResultRecorded(ctx, next) {
    const uid = String(ctx.params.uid);
    await next();
    if (requestContext(ctx).errorPage === 'expired') return repeatRedirect(options, ctx, uid);
    const location = ctx.response.get('Location');
    const decision = decisionIn(location);
    if (ctx.status !== 303 || !decision) return;
    ctx.cookies.set(options.provider.cookieName('resume'), uid, {
      ...COOKIE,
      path: ctx.path,
      maxAge: OUTCOME_SECONDS * 1000,
    });
    const outcome = { decision, destination: redirectDestination(location), at: now() };
    const save = async () => {
      const found = decision === 'approved' && (await findGrant(store, grantIdOf(formKeys, uid)));
      const level = found ? grantedLevel(found.value) : undefined;
      await saveConsentResult(store, uid, {
        outcome: level ? { ...outcome, level } : outcome,
        location,
      });
    };
    // The redirect must not fail if this does; only resubmissions depend on it.
    await save().catch(() => undefined);
  };
}

/** Replaces the error page `expired` if another request of this browser has just resumed the interaction. */
async function repeatRedirect({ store }: ConsentResultOptions, ctx: Koa.Context, uid: string) {
  const location = (await waitForResult(store, uid))?.location;
  if (location === undefined) return;
  // The engine cleared the session cookie, but the other request has rotated it.
  ctx.remove('Set-Cookie');
  delete requestContext(ctx).failure;
  seeOther(ctx, location);
}

function decisionIn(location: string): 'approved' | 'denied' | undefined {
  if (/[?&]code=/.test(location)) return 'approved';
  return /[?&]error=access_denied(&|$)/.test(location) ? 'denied' : undefined;
}

/** Without `location`, the redirect is not repeated again. */
export async function saveConsentResult(
  store: Store,
  uid: string,
  { outcome, location }: ConsentResult,
): Promise<void> {
  await (location === undefined
    ? store.delete(redirectKey(uid))
    : store.set(redirectKey(uid), location, REDIRECT_SECONDS));
  // Written last: a reader that finds the outcome also finds the location.
  await store.set(outcomeKey(uid), outcome, OUTCOME_SECONDS);
}

/** The engine deletes an interaction shortly before its result is stored. */
const RETRY_DELAYS_MS = [0, 25, 50, 100, 200, 400];

async function waitForResult(
  store: Store,
  uid: string,
  delays: readonly number[] = RETRY_DELAYS_MS,
): Promise<ConsentResult | undefined> {
  for (const ms of delays) {
    await delay(ms);
    const outcome = (await store.get<ConsentOutcome>(outcomeKey(uid)))?.value;
    if (!outcome) continue;
    const location = (await store.get<string>(redirectKey(uid)))?.value;
    return location === undefined ? { outcome } : { outcome, location };
  }
  return undefined;
}

export type FoundConsentResult = ConsentResult & {
  /** The interaction's grant in its current state. */
  grant: StoredGrant | undefined;
};

/** Finds the result of an interaction of this browser. With `isFinishing`, waits for a concurrent request to store it. */
export async function findConsentResult(
  { provider, store, formKeys }: ConsentResultOptions,
  ctx: Koa.Context,
  uid: string,
  { isFinishing }: { isFinishing: boolean },
): Promise<FoundConsentResult | undefined> {
  if (!hasInteractionCookie(provider, ctx, uid)) return undefined;
  const result = await waitForResult(store, uid, isFinishing ? RETRY_DELAYS_MS : [0]);
  const grant = await findStoredGrant(store, grantIdOf(formKeys, uid));
  const isDenied = grant !== undefined && !isLive(grant) && grant.ended === 'denied';
  // A concurrent approval may have stored its result after the denial; the grant is authoritative.
  if (isDenied && (!result || result.outcome.decision === 'approved'))
    return { outcome: { decision: 'denied', destination: grant.client.redirectHost }, grant };
  return result && { ...result, grant };
}

/** Whether a resubmitted form may still change the decision. */
export function isChangeable({ at = -Infinity }: ConsentOutcome, now: number): boolean {
  return now - at < REDIRECT_SECONDS;
}
