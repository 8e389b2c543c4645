// Calls that are under way for long are judged again, at once when something they stand on changed and every second; and end when the process does.
import { unavailable } from '../http/errors.ts';

export type OpenCalls = {
  /** `ids` are what the call stands on; `judge` rejects when it may not go on. `kind` says whether it only waits for news. */
  open(ids: readonly string[], judge: () => Promise<unknown>, kind: CallKind): OpenCall;
  /** Ends those of this kind, and those that come later. */
  end(kind: CallKind): void;
  close(): void;
};

export type CallKind = 'listening' | 'working';

export type OpenCall = {
  /** Aborted when the call may not go on; the reason is what a new call would be refused with. */
  signal: AbortSignal;
  end(): void;
};

/** Milliseconds. Notices may be lost, and nobody gives notice of a token that expires. With the age of what is read it makes ten seconds. */
const JUDGED_EVERY = 1000;

type Watched = {
  ids: readonly string[];
  judge: () => Promise<unknown>;
  kind: CallKind;
  stop: AbortController;
};

/** Why a call ends that could go on at another process. */
export class ProcessStops extends Error {
  override name = 'ProcessStops';
}

export function openCalls(onChange: (listener: (id: string) => void) => void): OpenCalls {
  const open = new Set<Watched>();
  const over = new Set<CallKind>();
  const endOne = (call: Watched) => {
    open.delete(call);
    call.stop.abort(unavailable(new ProcessStops('the process stops')));
  };
  const judgeAgain = (call: Watched) => {
    call.judge().catch((reason: unknown) => {
      open.delete(call);
      call.stop.abort(reason);
    });
  };
  onChange((id) => {
    for (const call of open) if (call.ids.includes(id)) judgeAgain(call);
  });
  const timer = setInterval(() => open.forEach(judgeAgain), JUDGED_EVERY).unref();
  return {
    open(ids, judge, kind) {
      const call = { ids, judge, kind, stop: new AbortController() };
      open.add(call);
      if (over.has(kind)) endOne(call);
      return { signal: call.stop.signal, end: () => void open.delete(call) };
    },
    end(kind) {
      over.add(kind);
      for (const call of open) if (call.kind === kind) endOne(call);
    },
    close: () => clearInterval(timer),
  };
}
