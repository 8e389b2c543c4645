// Who is let in with the token of a call, and what everybody else is told (RFC 6750 section 3, RFC 9728 section 5.1).
import type Koa from 'koa';
import type { Connector } from '../connectors/connector.ts';
import { HttpError, tooManyRequests } from '../http/errors.ts';
import type { RateLimit } from '../http/rate-limits.ts';
import {
  type BearerOptions,
  callerOf,
  type MintedCaller,
  mintedCallerOf,
  presentedToken,
  type Refusal,
} from './bearer.ts';
import type { Caller } from './level.ts';
import { type Addresses, ALSO_DPOP, challenge } from './metadata.ts';
import { requestContext } from '../http/request-context.ts';

/** More than `unknown` is said only to whoever holds a token that we signed. */
const REFUSALS: Record<Refusal, string> = {
  unknown: 'the access token is not good for this connect link',
  expired: 'the access token has expired: refresh it, or sign in again',
  elsewhere: 'the access token is for another address: sign in through this connect link',
  ended: 'this access token, or the sign-in behind it, has ended: refresh it, or sign in again',
  bound: 'this access token is bound to a key: send it as DPoP, with a proof of that key',
  unbound: 'this access token is not bound to a key: send it as Bearer',
};

export type AdmissionOptions = BearerOptions & {
  /** Of tokens that we did not make. Good ones, and those of ours that are over, never count. */
  wrongTokens: RateLimit;
};

/** 401 with the way in, on every method and before anything is said about the message (RFC 9728 section 5.1). */
export async function requireCaller(
  options: AdmissionOptions & Addresses,
  ctx: Koa.Context,
  connector: Connector,
): Promise<Caller> {
  const { token, isPresent, scheme } = presentedToken(ctx.req.headers.authorization);
  const caller =
    token === undefined ? 'unknown' : await callerOf(options, connector, token, scheme);
  if (typeof caller !== 'string') return caller;
  if (isPresent && caller === 'unknown') await limitForgeries(options, ctx);
  const error = isPresent ? ({ error: 'invalid_token' } as const) : {};
  const header =
    challenge(options, connector, { ...error, scope: connector.level, scheme }) +
    (caller === 'bound' ? ALSO_DPOP : '');
  const message = isPresent ? REFUSALS[caller] : 'an access token is needed: sign in first';
  const code = isPresent ? 'invalid_token' : 'token_required';
  throw new HttpError(401, code, message, { headers: { 'WWW-Authenticate': header } });
}

/** No `resource_metadata` in the answer: there is nothing to sign in to here. */
export async function requireMintedCaller(
  options: AdmissionOptions,
  ctx: Koa.Context,
): Promise<MintedCaller> {
  const { token, isPresent, scheme } = presentedToken(ctx.req.headers.authorization);
  const caller = token === undefined ? 'unknown' : await mintedCallerOf(options, token, scheme);
  if (typeof caller !== 'string') return caller;
  if (isPresent && caller === 'unknown') await limitForgeries(options, ctx);
  const message = `${MINTED_REFUSALS[caller]}${MINTED_ONLY}`;
  throw new HttpError(401, 'invalid_token', message, { headers: { 'WWW-Authenticate': 'Bearer' } });
}

async function limitForgeries({ wrongTokens }: AdmissionOptions, ctx: Koa.Context): Promise<void> {
  const wait = await wrongTokens.take(requestContext(ctx).address, 'access token');
  if (wait !== undefined) throw tooManyRequests(wait);
}

const MINTED_REFUSALS: Record<Refusal, string> = {
  unknown: '',
  expired: 'this minted token has expired; ',
  elsewhere: 'this token is for another address; ',
  ended: 'this minted token was revoked; ',
  bound: '',
  unbound: 'minted tokens are sent as Bearer; ',
};

const MINTED_ONLY =
  'this address takes minted tokens only: use a connect link (…/connect/<connector>/mcp) to sign in, or ask an administrator for a minted token';
