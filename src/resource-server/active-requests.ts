// Requests to the upstream that are active in this process: revalidated until they end, and ended when the process stops.
import { unavailable } from '../http/errors.ts';

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
