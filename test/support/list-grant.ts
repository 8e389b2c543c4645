import { listEntries } from '../../src/connections/grant-lists.ts';
import type { Store } from '../../src/store/store.ts';

/** Lists a grant that is written later, or never. */
export async function listGrant(
  store: Store,
  ...listed: Parameters<typeof listEntries>
): Promise<void> {
  for (const { key, member, ttl } of listEntries(...listed))
    await store.addMember(key, member, ttl);
}
