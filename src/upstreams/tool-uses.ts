// Which tools were called in the last week, so that operators hear of a held tool that somebody misses.
import { lruCache } from '../lru-cache.ts';
import type { Store } from '../store/store.ts';

const useKey = (upstream: string, tool: string) => `tool-used:${upstream} ${tool}`;

const DAY_SECONDS = 86_400;
const KEPT_SECONDS = 7 * DAY_SECONDS;
/** Tools that this process need not store again today. */
const MAX_NOTED = 5000;

/** Returns what notes a call of a tool that the upstream is known to have: at most once a day, and without a wait. */
export function toolUses(
  store: Pick<Store, 'set'>,
  upstream: string,
  now: () => number,
): (tool: string) => void {
  const noted = lruCache<number>(MAX_NOTED);
  return (tool) => {
    const at = now();
    if (Math.abs(at - (noted.get(tool) ?? -Infinity)) < DAY_SECONDS) return;
    noted.set(tool, at);
    store.set(useKey(upstream, tool), true, KEPT_SECONDS).catch(() => noted.delete(tool));
  };
}

/** Of these, the tools that were called in the last week. */
export async function usedLately(
  store: Pick<Store, 'get'>,
  upstream: string,
  tools: readonly string[],
): Promise<ReadonlySet<string>> {
  const found = await Promise.all(tools.map((tool) => store.get(useKey(upstream, tool))));
  return new Set(tools.filter((_, n) => found[n] !== undefined));
}
