// Limits the requests that are open at the upstream at the same time: for each caller in all processes, and in all in this one.
import type { RequestKind } from '../active-requests.ts';
import { type Caller, limitOwner } from '../authenticate.ts';
import { limitReached } from '../in-band-error.ts';
import type { Slot } from '../mcp-handler.ts';
import type { OpenCalls } from './open-calls.ts';

export type ConcurrencyLimits = { perCaller: number; inAll: number };

export type ConcurrencyLimiter = {
  /** Throws an InBandError if no slot is free. */
  acquire(caller: Caller, kind: RequestKind): Slot;
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
  const requireFree = (taken: number, limit: number, kind: RequestKind, refusal: () => Error) => {
    const share = kind === 'listening' ? LISTENING_SHARE : 1;
    if (taken >= Math.max(1, Math.floor(limit * share))) throw refusal();
  };
  const owners = new WeakMap<Caller, string>();
  const ownerOf = (caller: Caller) => {
    const owner = owners.get(caller) ?? `${upstream} ${limitOwner(caller)}`;
    owners.set(caller, owner);
    return owner;
  };
  return {
    acquire(caller, kind) {
      const owner = ownerOf(caller);
      const count = openCalls.count(owner);
      requireFree(count, perCaller, kind, tooManyOfCaller);
      requireFree(openCalls.here(upstream), inAll, kind, tooManyInAll);
      const end = openCalls.open(upstream, owner, count >= perCaller * UNUSUAL_SHARE);
      return {
        listen() {
          requireFree(openCalls.count(owner) - 1, perCaller, 'listening', tooManyOfCaller);
          requireFree(openCalls.here(upstream) - 1, inAll, 'listening', tooManyInAll);
        },
        release: end,
      };
    },
  };
}

function tooManyOfCaller(): Error {
  return limitReached('too many of your calls and streams are open: end some', RETRY_AFTER_SECONDS);
}

function tooManyInAll(): Error {
  return limitReached(
    'too many calls and streams are open at this server',
    RETRY_AFTER_SECONDS,
    new Error('the maximum number of calls and streams is open'),
  );
}
