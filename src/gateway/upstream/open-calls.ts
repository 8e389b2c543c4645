// Counts the open calls and streams of each caller in all processes. Each process announces those that last; short calls cost nothing.
import { randomUUID } from 'node:crypto';
import type { Store } from '../../store/store.ts';
import { transientItems } from '../../transient-items.ts';

export type OpenCalls = {
  /** How many this caller has open, here and in the processes that announced theirs. */
  count(owner: string): number;
  /** How many are open at an upstream in this process. */
  here(upstream: string): number;
  /** Counts one more, and returns the function that ends it. `announce` tells the other processes at once. */
  open(upstream: string, owner: string, announce: boolean): () => void;
  /** Tells the other processes that nothing is open here any more. */
  close(): Promise<void>;
};

type OpenCall = { owner: string; since: number };

/** What a process says of itself: all counts, or those that changed. */
type Announcement = { from: string; isComplete: boolean; counts: [owner: string, count: number][] };

const CHANNEL = 'open-calls';
const INTERVAL_MS = 250;
/** A call that takes longer is announced. */
const LASTING_MS = 250;
const AT_ONCE_MS = 10;
/** Messages may be lost, so everything is said again from time to time. */
const COMPLETE_INTERVAL_MS = 10_000;
/** A process that says nothing for this time has died. */
const SILENCE_MS = 30_000;

/** `now` is in milliseconds. While the store is unavailable, each process counts only its own, after at most half a minute. */
export async function openOpenCalls(
  store: Pick<Store, 'publish' | 'subscribe'>,
  now: () => number = () => performance.now(),
): Promise<OpenCalls> {
  const self = randomUUID();
  const calls = transientItems<OpenCall>();
  const here = new Map<string, number>();
  const atUpstreams = new Map<string, number>();
  const others = new Map<string, { heardAt: number; counts: Map<string, number> }>();
  let announced = new Map<string, number>();
  let completeAt = -Infinity;
  let soon: NodeJS.Timeout | undefined;
  let isClosed = false;

  const say = (announcement: Omit<Announcement, 'from'>) =>
    store
      .publish(CHANNEL, JSON.stringify({ from: self, ...announcement } satisfies Announcement))
      .catch(() => undefined);
  const announce = () => {
    for (const [id, { heardAt }] of others) if (now() - heardAt > SILENCE_MS) others.delete(id);
    const lasting = countLasting(calls, now());
    const isComplete = now() - completeAt >= COMPLETE_INTERVAL_MS;
    const counts = isComplete ? [...lasting] : changes(announced, lasting);
    if (!isComplete && (others.size === 0 || counts.length === 0)) return;
    if (isComplete) completeAt = now();
    announced = lasting;
    void say({ isComplete, counts });
  };
  const announceSoon = () => {
    soon ??= setTimeout(() => {
      soon = undefined;
      announce();
    }, AT_ONCE_MS).unref();
  };
  await store.subscribe(CHANNEL, (text) => {
    const { from, isComplete, counts }: Announcement = JSON.parse(text);
    if (isClosed || from === self) return;
    const known = others.get(from);
    const heard = isComplete || !known ? new Map<string, number>() : known.counts;
    for (const [owner, count] of counts)
      if (count > 0) heard.set(owner, count);
      else heard.delete(owner);
    others.set(from, { heardAt: now(), counts: heard });
    if (known) return;
    // A new process does not know what is open here.
    completeAt = -Infinity;
    announceSoon();
  });
  const timer = setInterval(announce, INTERVAL_MS).unref();
  announce();

  return {
    count(owner) {
      let count = here.get(owner) ?? 0;
      for (const { counts } of others.values()) count += counts.get(owner) ?? 0;
      return count;
    },
    here: (upstream) => atUpstreams.get(upstream) ?? 0,
    open(upstream, owner, atOnce) {
      const call = calls.add({ owner, since: atOnce ? -Infinity : now() });
      here.set(owner, (here.get(owner) ?? 0) + 1);
      atUpstreams.set(upstream, (atUpstreams.get(upstream) ?? 0) + 1);
      if (atOnce && others.size > 0) announceSoon();
      return () => {
        if (!calls.remove(call)) return;
        atUpstreams.set(upstream, (atUpstreams.get(upstream) ?? 1) - 1);
        const left = (here.get(owner) ?? 1) - 1;
        if (left > 0) here.set(owner, left);
        else here.delete(owner);
      };
    },
    async close() {
      isClosed = true;
      clearInterval(timer);
      clearTimeout(soon);
      await say({ isComplete: true, counts: [] });
    },
  };
}

function countLasting(calls: Iterable<OpenCall>, now: number): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { owner, since } of calls)
    if (now - since >= LASTING_MS) counts.set(owner, (counts.get(owner) ?? 0) + 1);
  return counts;
}

/** The counts that differ. Zero stands for a caller who has none any more. */
function changes(
  before: ReadonlyMap<string, number>,
  after: ReadonlyMap<string, number>,
): [string, number][] {
  const ended = [...before.keys()].filter((owner) => !after.has(owner));
  return [
    ...[...after].filter(([owner, count]) => before.get(owner) !== count),
    ...ended.map((owner): [string, number] => [owner, 0]),
  ];
}
