import type { Page } from '../resources/schemas.ts';

const PAGE_ITEMS = '500';

/** Yields the items of all pages. `list` gets the query parameters of each page. */
export async function* allItems<Item>(
  list: (page: { limit: string; after?: string }) => Promise<Page<Item>>,
): AsyncGenerator<Item> {
  let after: string | undefined;
  do {
    const page = await list({ limit: PAGE_ITEMS, ...(after === undefined ? {} : { after }) });
    yield* page.items;
    after = page.next;
  } while (after !== undefined);
}
