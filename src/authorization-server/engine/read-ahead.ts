// Reads that a request of the engine will need. Started together, they share a round trip; the engine asks for one after the other.

/** By request, then by store key. */
const started = new WeakMap<object, Map<string, Promise<unknown>>>();

/** Starts a read. An error is reported to whoever needs the result. */
export function startReading(ctx: object, key: string, read: () => Promise<unknown>): void {
  const reads = started.get(ctx) ?? new Map<string, Promise<unknown>>();
  started.set(ctx, reads);
  const reading = read();
  reading.catch(() => undefined);
  reads.set(key, reading);
}

/** Returns what `startReading` read for the same key, once: a second call reads anew. */
export function readAhead<T>(
  ctx: object | undefined,
  key: string,
  read: () => Promise<T>,
): Promise<T> {
  const reads = ctx && started.get(ctx);
  const reading = reads?.get(key) as Promise<T> | undefined;
  reads?.delete(key);
  return reading ?? read();
}
