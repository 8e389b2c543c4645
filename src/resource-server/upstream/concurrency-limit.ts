// Limits the requests that are open at the upstream at the same time: for each caller in all processes, and in all in this one.
import { HttpError, tooManyRequests, unavailable } from '../../http/errors.ts';
import type { RequestKind } from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';
import type { OpenCalls } from './open-calls.ts';

export type ConcurrencyLimits = { perCaller: number; inAll: number };

export type ConcurrencyLimiter = {
  /** Acquires a slot, and returns the function that releases it. Throws HttpError 429 (RFC 6585 section 4) or 503 if none is free. */
  acquire(caller: Caller, kind: RequestKind): () => void;
};

/** Listening requests may use this share of the slots, so that tool calls always find some. */
const LISTENING_SHARE = 0.8;
/** The other processes learn at once of a caller who uses more than this share of the slots. */
const UNUSUAL_SHARE = 0.1;
const RETRY_AFTER_SECONDS = 5;

/** Each upstream has limits of its own. */
export function concurrencyLimiter(
  upstream: string,
  { perCaller, inAll }: ConcurrencyLimits,
  openCalls: OpenCalls,
): ConcurrencyLimiter {
  let total = 0;
  return {
    acquire(caller, kind) {
      const owner = `${upstream} ${ownerOf(caller)}`;
      const count = openCalls.count(owner);
      const share = kind === 'listening' ? LISTENING_SHARE : 1;
      if (count >= Math.max(1, Math.floor(perCaller * share))) throw tooManyOfCaller();
      if (total >= Math.max(1, Math.floor(inAll * share)))
        throw unavailable(new Error('the maximum number of calls and streams is open'));
      total += 1;
      const end = openCalls.open(owner, count >= perCaller * UNUSUAL_SHARE);
      return once(() => {
        total -= 1;
        end();
      });
    },
  };
}

/** All apps of a person share one limit. Each minted token has its own, because no person is behind it. */
function ownerOf({ minted, tokenId, accountId }: Caller): string {
  return minted ? `token ${tokenId}` : `account ${accountId}`;
}

function tooManyOfCaller(): HttpError {
  const { status, code, about, headers } = tooManyRequests(RETRY_AFTER_SECONDS);
  const message = `too many of your calls and streams are open: end some, or try again in ${RETRY_AFTER_SECONDS} s`;
  return new HttpError(status, code, message, { about, headers });
}

function once(step: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) step();
    isDone = true;
  };
}
