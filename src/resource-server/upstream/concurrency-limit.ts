// Limits the requests that are open at the upstream at the same time: for each caller, and in all.
import { HttpError, tooManyRequests, unavailable } from '../../http/errors.ts';
import type { RequestKind } from '../active-requests.ts';
import type { Caller } from '../authenticate.ts';

export type ConcurrencyLimits = { perCaller: number; inAll: number };

export type ConcurrencyLimiter = {
  /** Acquires a slot, and returns the function that releases it. Throws HttpError 429 (RFC 6585 section 4) or 503 if none is free. */
  acquire(caller: Caller, kind: RequestKind): () => void;
};

/** Listening requests may use this share of the slots, so that tool calls always find some. */
const LISTENING_SHARE = 0.8;
const RETRY_AFTER_SECONDS = 5;

export function concurrencyLimiter({ perCaller, inAll }: ConcurrencyLimits): ConcurrencyLimiter {
  const counts = new Map<string, number>();
  let total = 0;
  return {
    acquire(caller, kind) {
      const owner = ownerOf(caller);
      const count = counts.get(owner) ?? 0;
      const share = kind === 'listening' ? LISTENING_SHARE : 1;
      if (count >= Math.max(1, Math.floor(perCaller * share))) throw tooManyOfCaller();
      if (total >= Math.max(1, Math.floor(inAll * share)))
        throw unavailable(new Error('the maximum number of calls and streams is open'));
      total += 1;
      counts.set(owner, count + 1);
      return once(() => {
        total -= 1;
        const left = (counts.get(owner) ?? 1) - 1;
        if (left > 0) counts.set(owner, left);
        else counts.delete(owner);
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
