// Search in lists. It reads the records one after the other, up to a limit.
import type { Page } from './api/resources.ts';

type Texts = readonly (string | undefined)[];

/** A page ends after this many records even if too few match. */
export const MAX_SCANNED = 10_000;
const BATCH_ITEMS = 500;

/** Returns whether each word of `q` is in one of the texts, in any case. Without words, everything matches. */
export function searchFor(q = ''): (texts: Texts) => boolean {
  const words = fold(q)
    .split(/\s+/)
    .filter((word) => word !== '');
  return (texts) => {
    const folded = texts.map((text) => fold(text ?? ''));
    return words.every((word) => folded.some((text) => text.includes(word)));
  };
}

function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase();
}

/**
 * Returns up to `limit` matching records. `read` returns records after a cursor, which is an id, in a stable order. After MAX_SCANNED records
 * the page ends, so it can be short or empty although `next` is present.
 */
export async function scanPage<Item extends { id: string }>(
  read: (after: string | undefined, count: number) => Promise<Item[]>,
  matches: (item: Item) => boolean,
  { limit, after }: { limit: number; after?: string | undefined },
): Promise<Page<Item>> {
  const items: Item[] = [];
  let cursor = after;
  for (let scanned = 0; scanned < MAX_SCANNED;) {
    // The first batch is a whole page if everything matches.
    const count = scanned === 0 ? limit + 1 : BATCH_ITEMS;
    const batch = await read(cursor, count);
    scanned += count;
    for (const item of batch.filter(matches)) {
      if (items.length === limit) return { items, next: items.at(-1)?.id };
      items.push(item);
    }
    if (batch.length < count) return { items };
    cursor = batch.at(-1)?.id;
  }
  return { items, next: cursor };
}
