// The endpoints that clients call themselves: registration, token, revocation, introspection, each with its limits.
import type { Router } from '@koa/router';
import type Koa from 'koa';
import { DPOP_ALGORITHMS } from '../dpop/proof.ts';
import { limitBody, readJson } from '../http/body.ts';
import { allowAnyOrigin } from '../http/cors.ts';
import { RETRY_AFTER_SECONDS, tooManyRequests } from '../http/errors.ts';
import { limitRate, type RateLimit, type RateLimits } from '../http/rate-limits.ts';
import { isLoopback } from '../settings/addresses.ts';
import { highestLevelIn, OFFLINE_ACCESS } from '../permission-level.ts';
import { registrationResponse } from './engine/registration.ts';
import { ENDPOINTS } from './metadata.ts';
import { requestContext } from '../http/request-context.ts';

export type ClientEndpointOptions = {
  engine: Koa.Middleware;
  introspects: boolean;
  rateLimits: RateLimits;
};

const TOKEN_LIMIT = 16 * 1024;
const REGISTRATION_LIMIT = 64 * 1024;
const READ_BY_ENGINE = 56 * 1024;

/** What clients call themselves: JSON whatever they accept, never cached, open to clients in a browser. */
export function clientEndpoints(
  router: Router,
  { engine, introspects, rateLimits }: ClientEndpointOptions,
): void {
  const guesses = limitGuesses(rateLimits.wrongTokens);
  const answers: (readonly [path: string, ...steps: Koa.Middleware[]])[] = [
    [ENDPOINTS.token, limitBody(TOKEN_LIMIT), guesses, answerTokens],
    [
      ENDPOINTS.registration,
      limitRegistrations(rateLimits),
      limitBody(REGISTRATION_LIMIT),
      parseLargeBody,
      answerRegistration,
    ],
    [ENDPOINTS.revocation, limitBody(TOKEN_LIMIT), guesses],
    ...(introspects ? [[ENDPOINTS.introspection, limitBody(TOKEN_LIMIT), guesses] as const] : []),
  ];
  for (const [path, ...steps] of answers) {
    router.options(path, allowAnyOrigin('POST'));
    router.post(path, allowAnyOrigin('POST'), jsonOnly, ...steps, engine);
  }
}

/**
 * Any page may register, because some clients are one: but what a page has its visitors' browsers send counts apart from what programs
 * send from the same address, and from pages of this computer. What needs no preflight (Fetch, section 3.2) is refused and does not count.
 */
function limitRegistrations({ registrations, pageRegistrations }: RateLimits): Koa.Middleware {
  const [ofPrograms, ofPages] = [limitRate(registrations), limitRate(pageRegistrations)];
  return function registrationsLimited(ctx, next) {
    if (!ctx.is('application/json')) return next();
    return isFromPage(ctx) ? ofPages(ctx, next) : ofPrograms(ctx, next);
  };
}

/** Browsers say so of every request that a page makes with POST, and no page can say otherwise. */
function isFromPage(ctx: Koa.Context): boolean {
  const { origin } = ctx.req.headers;
  if (origin === undefined) return false;
  const url = URL.parse(origin);
  return url === null || !isLoopback(url.hostname);
}

/**
 * Too many codes and tokens that are not good, or clients that are not known: the answer is "later" in place of "no". What is good is
 * answered always, because people share addresses, and none of it can be guessed.
 */
function limitGuesses(limit: RateLimit): Koa.Middleware {
  return async function guessesLimited(ctx, next) {
    await next();
    const { error } = (ctx.body ?? {}) as { error?: unknown };
    if (error !== 'invalid_grant' && error !== 'invalid_client') return;
    const { address, clientId } = requestContext(ctx);
    const wait = await limit.consume(address, clientId);
    if (wait !== undefined) throw tooManyRequests(wait);
  };
}

const jsonOnly: Koa.Middleware = async (ctx, next) => {
  ctx.req.headers.accept = 'application/json';
  await next();
  ctx.set('Cache-Control', 'no-store');
  if (ctx.status === 503) ctx.set('Retry-After', RETRY_AFTER_SECONDS);
  sayWhatToDo(ctx.body);
  keepNonceFromOthers(ctx);
};

/**
 * The engine sends a nonce with every answer to a proof. A client keeps it and sends it an hour later, with its next refresh, and must be refused
 * once because it is old by then: so it goes only to a client that was asked for one, because its clock is wrong (RFC 9449 section 8).
 */
function keepNonceFromOthers(ctx: Koa.Context): void {
  const { error } = (ctx.body ?? {}) as { error?: unknown };
  if (error !== 'use_dpop_nonce') ctx.remove('DPoP-Nonce');
}

/** In place of what the engine says of every cause: what helps with each of them. */
const DESCRIPTIONS: Record<string, string> = {
  'grant request is invalid':
    'the code or refresh token is unknown, expired, used or revoked, or belongs to another client; connect again',
  'client authentication failed':
    'the client is no longer registered, or did not authenticate as it registered; register again',
  'invalid DPoP key binding': `the DPoP proof must be a JWT of type dpop+jwt, signed (${DPOP_ALGORITHMS.join(', ')}) with the key whose public part is in its header`,
};

function sayWhatToDo(body: unknown): void {
  const refusal = body as { error_description?: string } | undefined;
  const better = DESCRIPTIONS[refusal?.error_description ?? ''];
  if (refusal && better) refusal.error_description = better;
}

/** RFC 6749 section 5.1: the scope is the one level, and `offline_access` when it was granted. */
const answerTokens: Koa.Middleware = async (ctx, next) => {
  await next();
  const body = ctx.body as Record<string, unknown> | undefined;
  if (ctx.status !== 200 || typeof body?.scope !== 'string') return;
  const stays = body.scope.split(' ').includes(OFFLINE_ACCESS);
  ctx.body = {
    ...body,
    scope: [highestLevelIn(body.scope), ...(stays ? [OFFLINE_ACCESS] : [])].join(' '),
  };
};

/** The engine takes a body that was parsed before it, and says on the console that it would rather not: so only what it might not read. */
const parseLargeBody: Koa.Middleware = async (ctx, next) => {
  const isLarge = (ctx.request.length ?? Infinity) > READ_BY_ENGINE;
  if (isLarge && ctx.is('application/json'))
    Object.assign(ctx.req, { body: await readJson(ctx, REGISTRATION_LIMIT) });
  return next();
};

const answerRegistration: Koa.Middleware = async (ctx, next) => {
  await next();
  if (ctx.status === 201) ctx.body = registrationResponse(ctx.body as Record<string, unknown>);
};
