// Requests to the upstream that are active in this process: revalidated until they end, ended when the process stops, and limited in number.
import { HttpError, tooManyRequests, unavailable } from '../http/errors.ts';
import type { Caller } from './authenticate.ts';

/** `listening` requests wait for notifications only: the stream of a session (GET), or a subscription. */
export type RequestKind = 'listening' | 'working';

export type ActiveRequests = {
  /** `ids` are the records that the request depends on. `revalidate` rejects when the request must end. */
  start(
    ids: readonly string[],
    revalidate: () => Promise<unknown>,
    kind: RequestKind,
  ): ActiveRequest;
  /** Ends the requests of a kind, including those that start later. */
  end(kind: RequestKind): void;
  close(): void;
};

export type ActiveRequest = {
  /** Aborted when the request must end. The reason is the error that a new request would get. */
  signal: AbortSignal;
  end(): void;
};

/** Messages about changes may be lost, and none announces an expiry. With the age of cached records, revocation takes at most 10 s. */
const REVALIDATION_INTERVAL_MS = 1000;

type Revalidated = {
  ids: readonly string[];
  revalidate: () => Promise<unknown>;
  kind: RequestKind;
  controller: AbortController;
};

/** A request can be repeated at another process. */
export class ProcessStops extends Error {
  override name = 'ProcessStops';
}

/** Revalidates each request every second, and at once when a record that it depends on changes. */
export function trackActiveRequests(
  onChange: (listener: (id: string) => void) => void,
): ActiveRequests {
  const active = new Set<Revalidated>();
  const endedKinds = new Set<RequestKind>();
  const stop = (request: Revalidated) => {
    active.delete(request);
    request.controller.abort(unavailable(new ProcessStops('the process is stopping')));
  };
  const revalidate = (request: Revalidated) => {
    request.revalidate().catch((reason: unknown) => {
      active.delete(request);
      request.controller.abort(reason);
    });
  };
  onChange((id) => {
    for (const request of active) if (request.ids.includes(id)) revalidate(request);
  });
  const timer = setInterval(() => active.forEach(revalidate), REVALIDATION_INTERVAL_MS).unref();
  return {
    start(ids, revalidateOne, kind) {
      const controller = new AbortController();
      const request = { ids, revalidate: revalidateOne, kind, controller };
      active.add(request);
      if (endedKinds.has(kind)) stop(request);
      return { signal: controller.signal, end: () => void active.delete(request) };
    },
    end(kind) {
      endedKinds.add(kind);
      for (const request of active) if (request.kind === kind) stop(request);
    },
    close: () => clearInterval(timer),
  };
}

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
