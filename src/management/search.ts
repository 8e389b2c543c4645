// Search in lists. It reads the records one after the other, up to a limit.
import { fold } from '../people/account-index.ts';
import type { Page } from './resources/schemas.ts';

type Texts = readonly (string | undefined)[];

/** A page ends after this many records even if too few match, so that it takes some milliseconds whatever the length of the list. */
export const MAX_SCANNED = 200;
/** The share of records that a page looks at in a search in everything. */
export const GLANCE_SHARE = 0.25;

/** Returns whether each word of `q` is in one of the texts, in any case. Without words, everything matches. */
export function searchFor(q = ''): (texts: Texts) => boolean {
  const words = wordsIn(q);
  if (words.length === 0) return () => true;
  return (texts) => {
    const folded = foldAll(texts);
    return words.every((word) => folded.includes(word));
  };
}

/** Folded. */
export function wordsIn(q: string): string[] {
  return fold(q)
    .split(/\s+/)
    .filter((word) => word !== '');
}

/** Folds several texts at once, which takes a fraction of the time. No word has a line break. */
export function foldAll(texts: Texts): string {
  return fold(texts.join('\n'));
}

/** Relative to a record that was read. */
const SKIPPED_COST = 0.2;

/** A record of a list. The list continues behind it after `cursor`. `cost` is relative to that of other records. */
export type Listed<Item> = { item: Item; cursor: string; cost?: number };

type AtGlance = { isGlance?: boolean };

/** How many records a page looks at, if the list has the usual number `most`. */
export function scannedBy({ isGlance }: AtGlance, most = MAX_SCANNED): number {
  return isGlance ? most * GLANCE_SHARE : most;
}

/** At a glance, the record whose id is searched for. */
export async function findById<Item>(
  { isGlance }: AtGlance,
  q: string | undefined,
  find: (id: string) => Promise<Item | undefined>,
): Promise<Item | undefined> {
  return isGlance && q !== undefined ? find(q) : undefined;
}

/** For lists that have first what an index finds. At a glance, that is enough if some of it matches. */
export function untilFound<Item>(
  { isGlance = false }: AtGlance,
  isWanted: (item: Item) => boolean,
) {
  let [isFound, isCut] = [false, false];
  return {
    matches(item: Item) {
      const isMatch = isWanted(item);
      isFound ||= isMatch;
      return isMatch;
    },
    /** Asked once, before the records that are not in the index. If it is enough, the list was cut. */
    isEnough: () => (isCut = isGlance && isFound),
    wasCut: () => isCut,
  };
}

/** `wasCut` says afterwards whether the list may have more than `records`. */
type PageSize = { limit: number; scanned?: number; wasCut?: () => boolean };

/**
 * Returns up to `limit` matching records. After `scanned` records the page ends, so it can be short or empty although `next` is present.
 */
export async function scanPage<Item>(
  records: AsyncIterable<Listed<Item | undefined>>,
  matches: (item: Item) => boolean,
  { limit, scanned = MAX_SCANNED, wasCut = () => false }: PageSize,
): Promise<Page<Item>> {
  const items: Item[] = [];
  const most = Math.max(scanned, limit);
  let last: string | undefined;
  let cost = 0;
  for await (const { item, cursor, cost: own = 1 } of records) {
    const isWanted = item !== undefined && matches(item);
    if (cost >= most || (isWanted && items.length === limit)) return { items, next: last };
    if (isWanted) items.push(item);
    cost += item === undefined ? SKIPPED_COST : own;
    last = cursor;
  }
  return wasCut() ? { items, next: last } : { items };
}
