// Requests to the upstream that are active in this process: revalidated until they end, and ended when the process stops.
import { type HttpError, unavailable } from '../http/errors.ts';
import { transientItems } from '../transient-items.ts';

/** `listening` requests wait for notifications only: the stream of a session (GET), or a subscription. */
export type RequestKind = 'listening' | 'working';

export type ActiveRequests = {
  /** Returns the function that ends the tracking. May call `onRevoked` at once. */
  start(request: ActiveRequest): () => void;
  /** Ends the requests of a kind, including those that start later, because the process stops. */
  end(kind: RequestKind): void;
  /** Ends the listening requests at different times within so many milliseconds, none in the first tenth of them, also those that start later, because new ones get other settings. */
  renew(milliseconds: number): void;
  close(): void;
};

export type ActiveRequest = {
  readonly kind: RequestKind;
  /** Whether revalidation reads the record with this id. */
  dependsOn(id: string): boolean;
  /** Rejects when the request must end. */
  revalidate(): Promise<unknown>;
  /** Called when the request must end, with the error that a new request would get. */
  onRevoked(reason: unknown): void;
};

type Tracked = { request: ActiveRequest; isEnded: boolean; end: () => void };

/** Messages about changes may be lost, and none announces an expiry. With the age of cached records, revocation takes at most 10 s. */
const REVALIDATION_INTERVAL_MS = 1000;

/** No stream ends before this share of the time: in the minute in which an operator tries several settings, all go on. */
const LEAST_SHARE = 0.1;

/** A request can be repeated: at another process, or here under other settings. */
export class RepeatRequest extends Error {
  override name = 'RepeatRequest';
  /** Milliseconds after which the client of a stream comes again. */
  readonly retry: number | undefined;
  /** A notification for a stream, before it ends. */
  readonly notification: object | undefined;

  constructor(message: string, retry?: number, notification?: object) {
    super(message);
    this.retry = retry;
    this.notification = notification;
  }
}

/** Clients of streams that end because of new settings come again after it. */
const RETRY_MS = 1000;

/** The end of a listening request whose caller may use other tools now. */
export function selectionChanged(notification: object): HttpError {
  return unavailable(new RepeatRequest('what may be used changed', RETRY_MS, notification));
}

/** Revalidates each request every second, and at once when a record that it depends on changes. */
export function trackActiveRequests(
  onChange: (listener: (id: string) => void) => () => void,
): ActiveRequests {
  const active = transientItems<Tracked>();
  const endedKinds = new Set<RequestKind>();
  /** On the clock of `performance`. */
  let renewedBy: number | undefined;
  const revoke = (tracked: Tracked, reason: unknown) => {
    if (tracked.isEnded) return;
    tracked.end();
    tracked.request.onRevoked(reason);
  };
  const stop = (tracked: Tracked) =>
    revoke(tracked, unavailable(new RepeatRequest('the process is stopping')));
  const renew = (tracked: Tracked) =>
    revoke(tracked, unavailable(new RepeatRequest('the settings changed', RETRY_MS)));
  const renewBefore = (tracked: Tracked, time: number) => {
    if (tracked.request.kind !== 'listening') return;
    const left = Math.max(0, time - performance.now());
    const share = LEAST_SHARE + (1 - LEAST_SHARE) * Math.random();
    setTimeout(() => renew(tracked), left * share).unref();
  };
  const revalidate = (tracked: Tracked) => {
    tracked.request.revalidate().catch((reason: unknown) => revoke(tracked, reason));
  };
  const ignoreChanges = onChange((id) => {
    for (const tracked of active) if (tracked.request.dependsOn(id)) revalidate(tracked);
  });
  const timer = setInterval(() => {
    for (const tracked of active) revalidate(tracked);
  }, REVALIDATION_INTERVAL_MS).unref();
  return {
    start(request) {
      const tracked: Tracked = { request, isEnded: false, end: () => undefined };
      const added = active.add(tracked);
      tracked.end = () => {
        tracked.isEnded = true;
        active.remove(added);
      };
      if (endedKinds.has(request.kind)) stop(tracked);
      else if (renewedBy !== undefined) renewBefore(tracked, renewedBy);
      return tracked.end;
    },
    end(kind) {
      endedKinds.add(kind);
      for (const tracked of active) if (tracked.request.kind === kind) stop(tracked);
    },
    renew(milliseconds) {
      renewedBy = performance.now() + milliseconds;
      for (const tracked of active) renewBefore(tracked, renewedBy);
    },
    close() {
      ignoreChanges();
      clearInterval(timer);
    },
  };
}
