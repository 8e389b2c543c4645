// Requests to the upstream that are active in this process: revalidated until they end, and ended when the process stops.
import { unavailable } from '../http/errors.ts';

/** `listening` requests wait for notifications only: the stream of a session (GET), or a subscription. */
export type RequestKind = 'listening' | 'working';

export type ActiveRequests = {
  /** Returns the function that ends the tracking. May call `onRevoked` at once. */
  start(request: ActiveRequest): () => void;
  /** Ends the requests of a kind, including those that start later. */
  end(kind: RequestKind): void;
  close(): void;
};

export type ActiveRequest = {
  /** The records that the request depends on. */
  ids: readonly string[];
  /** Rejects when the request must end. */
  revalidate: () => Promise<unknown>;
  kind: RequestKind;
  /** Called when the request must end, with the error that a new request would get. */
  onRevoked: (reason: unknown) => void;
};

/** Messages about changes may be lost, and none announces an expiry. With the age of cached records, revocation takes at most 10 s. */
const REVALIDATION_INTERVAL_MS = 1000;

/** A request can be repeated at another process. */
export class ProcessStops extends Error {
  override name = 'ProcessStops';
}

/** Revalidates each request every second, and at once when a record that it depends on changes. */
export function trackActiveRequests(
  onChange: (listener: (id: string) => void) => void,
): ActiveRequests {
  const active = new Set<ActiveRequest>();
  const endedKinds = new Set<RequestKind>();
  const stop = (request: ActiveRequest) => {
    active.delete(request);
    request.onRevoked(unavailable(new ProcessStops('the process is stopping')));
  };
  const revalidate = (request: ActiveRequest) => {
    request.revalidate().catch((reason: unknown) => {
      if (active.delete(request)) request.onRevoked(reason);
    });
  };
  onChange((id) => {
    for (const request of active) if (request.ids.includes(id)) revalidate(request);
  });
  const timer = setInterval(() => active.forEach(revalidate), REVALIDATION_INTERVAL_MS).unref();
  return {
    start(request) {
      active.add(request);
      if (endedKinds.has(request.kind)) stop(request);
      return () => void active.delete(request);
    },
    end(kind) {
      endedKinds.add(kind);
      for (const request of active) if (request.kind === kind) stop(request);
    },
    close: () => clearInterval(timer),
  };
}
