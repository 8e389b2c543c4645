// How many calls and streams may be open at once, in one process: of one caller, and in all (RFC 6585 section 4).
import { HttpError, tooManyRequests, unavailable } from '../http/errors.ts';
import type { Caller } from './level.ts';

export type OpenCallLimits = { perCaller: number; inAll: number };

/** What only waits for news takes no more than this share, so that calls still find room. */
const SHARE_OF_LISTENING = 0.8;
const RETRY_AFTER = 5;

export type Room = {
  /** Takes a place for a call of `caller`, and gives it back when the answer is called. Throws HttpError where there is none. */
  take(caller: Caller, isListening: boolean): () => void;
};

export function openRoom({ perCaller, inAll }: OpenCallLimits): Room {
  const open = new Map<string, number>();
  let all = 0;
  return {
    take(caller, isListening) {
      const who = ownerOf(caller);
      const own = open.get(who) ?? 0;
      const share = isListening ? SHARE_OF_LISTENING : 1;
      if (own >= Math.max(1, Math.floor(perCaller * share))) throw tooManyOpen();
      if (all >= Math.max(1, Math.floor(inAll * share))) throw full();
      all += 1;
      open.set(who, own + 1);
      return once(() => {
        all -= 1;
        const left = (open.get(who) ?? 1) - 1;
        if (left > 0) open.set(who, left);
        else open.delete(who);
      });
    },
  };
}

/** All apps of a person together: whoever wants more could connect another one. Minted tokens have nobody behind them. */
function ownerOf({ minted, tokenId, accountId }: Caller): string {
  return minted ? `token ${tokenId}` : `account ${accountId}`;
}

function tooManyOpen(): HttpError {
  const { status, code, about, headers } = tooManyRequests(RETRY_AFTER);
  const message = `too many of your calls and streams are open: end some, or try again in ${RETRY_AFTER} s`;
  return new HttpError(status, code, message, { about, headers });
}

function full(): HttpError {
  return unavailable(new Error('as many calls and streams are open as may be'));
}

function once(step: () => void): () => void {
  let isDone = false;
  return () => {
    if (!isDone) step();
    isDone = true;
  };
}
