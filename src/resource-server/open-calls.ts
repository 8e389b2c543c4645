// Calls that are under way for long are judged again: at once when something they stand on changed, and every second.

export type OpenCalls = {
  /** `ids` are what the call stands on; `judge` rejects when it may not go on. */
  open(ids: readonly string[], judge: () => Promise<unknown>): OpenCall;
  close(): void;
};

export type OpenCall = {
  /** Aborted when the call may not go on; the reason is what a new call would be refused with. */
  signal: AbortSignal;
  end(): void;
};

/** Milliseconds. Notices may be lost, and nobody gives notice of a token that expires. With the age of what is read it makes ten seconds. */
const JUDGED_EVERY = 1000;

type Watched = { ids: readonly string[]; judge: () => Promise<unknown>; stop: AbortController };

export function openCalls(onChange: (listener: (id: string) => void) => void): OpenCalls {
  const open = new Set<Watched>();
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
    open(ids, judge) {
      const call = { ids, judge, stop: new AbortController() };
      open.add(call);
      return { signal: call.stop.signal, end: () => void open.delete(call) };
    },
    close: () => clearInterval(timer),
  };
}
