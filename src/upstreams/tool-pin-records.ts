// Stores which tools of an upstream were seen and approved (tool-pins.ts), and each of their texts once.
import type { Upstream } from '../settings/upstreams.ts';
import type { Store } from '../store/store.ts';
import { CATALOGS_CHANNEL, findCatalog, type ToolCatalog } from './tool-catalog.ts';
import { digestsIn, NO_PINS, type ToolPins } from './tool-pins.ts';

const pinsKey = (upstream: string) => `tool-pins:${upstream}`;
const textKey = (upstream: string, digest: string) => `tool-text:${upstream} ${digest}`;

/** Of texts that are written or deleted at once. */
const BATCH = 50;

/** Undefined if no version with pins has read the tools. */
export async function findPins(
  store: Pick<Store, 'get'>,
  upstream: string,
): Promise<ToolPins | undefined> {
  return (await store.get<ToolPins>(pinsKey(upstream)))?.value;
}

/** What is known of the tools of an upstream: what they are, and which texts are approved. */
export type KnownTools = { catalog?: ToolCatalog | undefined; pins?: ToolPins | undefined };

export async function findKnownTools(
  store: Pick<Store, 'get'>,
  upstream: Pick<Upstream, 'id' | 'url'>,
): Promise<KnownTools> {
  const [catalog, pins] = await Promise.all([
    findCatalog(store, upstream),
    findPins(store, upstream.id),
  ]);
  return { catalog, pins };
}

/** The tool as the upstream sent it, or the instructions. Undefined if it is no longer needed. */
export async function findText(
  store: Pick<Store, 'get'>,
  upstream: string,
  digest: string,
): Promise<unknown> {
  return (await store.get<{ text: unknown }>(textKey(upstream, digest)))?.value.text;
}

/**
 * Changes the pins, with the texts of what is new in them, and tells the other processes. `change` must be pure; it returns what it got if
 * nothing changes. Throws what it throws.
 */
export async function updatePins(
  store: Store,
  upstream: string,
  change: (pins: ToolPins) => ToolPins,
  textOf: (digest: string) => unknown = () => undefined,
): Promise<ToolPins> {
  const found = await store.get<ToolPins>(pinsKey(upstream));
  const foreseen = change(found?.value ?? NO_PINS);
  if (foreseen === (found?.value ?? NO_PINS)) return foreseen;
  const known = digestsIn(found?.value ?? NO_PINS);
  // Before the pins, which lead to them.
  const added = [...digestsIn(foreseen)].filter((digest) => !known.has(digest));
  await inBatches(added, async (digest) => {
    const text = textOf(digest);
    if (text !== undefined) await store.set(textKey(upstream, digest), { text }, Infinity);
  });
  let before = NO_PINS;
  const stored = await store.update<ToolPins>(
    pinsKey(upstream),
    (current = NO_PINS) => {
      before = current;
      return { value: change(current), ttl: Infinity };
    },
    found,
  );
  const pins = stored?.value ?? foreseen;
  const kept = digestsIn(pins);
  await inBatches(
    [...digestsIn(before)].filter((digest) => !kept.has(digest)),
    (digest) => store.delete(textKey(upstream, digest)),
  );
  // Other processes also read again periodically.
  await store.publish(CATALOGS_CHANNEL, upstream).catch(() => undefined);
  return pins;
}

async function inBatches(
  digests: readonly string[],
  work: (digest: string) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < digests.length; start += BATCH)
    await Promise.all(digests.slice(start, start + BATCH).map(work));
}
