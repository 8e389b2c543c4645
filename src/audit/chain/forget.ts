// Deletes what items say about a person. The chain stays verifiable, because their digests stay.
import type { Store } from '../../store/store.ts';
import { readSealedItems, replaceAuditItems } from '../audit-log.ts';
import { searchAudit } from '../audit-search.ts';
import { forgotten, hasPersonal } from './sealed-item.ts';

const PAGE_ITEMS = 100;

/** Covers the items before the newest `account_forgotten` of the account, which explains to verifiers why values are missing. */
export async function forgetInAudit(store: Store, account: string): Promise<void> {
  const filters = { account, event: 'account_forgotten' };
  const { items } = await searchAudit({ store }, { filters, limit: 1, newestFirst: true });
  const end = items[0]?.number ?? 0;
  for (let after: string | undefined; ;) {
    const search = { filters: { account }, limit: PAGE_ITEMS, after, newestFirst: false };
    const page = await searchAudit({ store }, search);
    const numbers = page.items.flatMap(({ number = Infinity }) => (number < end ? [number] : []));
    const found = (await readSealedItems(store, numbers)).flatMap(({ item }) => item ?? []);
    await replaceAuditItems(store, found.filter(hasPersonal).map(forgotten));
    after = page.next;
    if (after === undefined) return;
  }
}
