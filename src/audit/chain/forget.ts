// Deletes what items say about a person. The chain stays verifiable, because their digests stay.
import type { Store } from '../../store/store.ts';
import { type AuditServices, recordAudit } from '../audit.ts';
import { readSealedItems, replaceAuditItems } from '../audit-log.ts';
import { searchAudit } from '../audit-search.ts';
import { forgotten, hasPersonal } from './sealed-item.ts';

const PAGE_ITEMS = 100;

/** By account: when it was forgotten, in seconds since the epoch. */
type Forgetting = Record<string, number>;

const FORGETTING = 'audit-forgetting:all';
/** Calls that were open then end within this time, and every process has stored what it knew. */
const GRACE_SECONDS = 600;

/** Call it before the account is forgotten: items that are stored later, and what this process leaves undone, are forgotten as well. */
export async function beginForgetting(
  { store, now }: Pick<AuditServices, 'store' | 'now'>,
  account: string,
): Promise<void> {
  await store.update<Forgetting>(FORGETTING, (current) => ({
    value: { ...current, [account]: now() },
    ttl: Infinity,
  }));
}

/** Goes on with what was begun. */
export async function finishForgetting(services: AuditServices): Promise<void> {
  const { store, now } = services;
  const accounts = (await store.get<Forgetting>(FORGETTING))?.value ?? {};
  for (const [account, at] of Object.entries(accounts)) {
    const isOver = now() - at > GRACE_SECONDS;
    const end = await forgottenAt(store, account);
    if (end > 0) {
      // In this order, because the person may sign in between.
      const isLater =
        (await hasLaterItems(store, account, end)) && !(await signedInAfter(store, account, end));
      // Verifiers find an item `account_forgotten` after each value that is missing.
      if (isLater)
        await recordAudit(services, { event: 'account_forgotten', account, outcome: 'done' });
      if (isLater || isOver) await forgetInAudit(store, account);
    }
    if (isOver) await endForgetting(store, account, at);
  }
}

async function endForgetting(store: Store, account: string, at: number): Promise<void> {
  await store.update<Forgetting>(FORGETTING, (current = {}) => {
    const { [account]: since, ...others } = current;
    const value = since === at ? others : current;
    return Object.keys(value).length === 0 ? undefined : { value, ttl: Infinity };
  });
}

/** The number of its newest `account_forgotten`; 0 if there is none. */
async function forgottenAt(store: Store, account: string): Promise<number> {
  const filters = { account, event: 'account_forgotten' };
  const { items } = await searchAudit({ store }, { filters, limit: 1 });
  return items[0]?.number ?? 0;
}

/** Whether the person came back: what is stored since then is not to be forgotten. */
async function signedInAfter(store: Store, account: string, number: number): Promise<boolean> {
  for (const event of ['signed_in', 'console_sign_in']) {
    const filters = { account, event, outcome: 'done' };
    const { items } = await searchAudit({ store }, { filters, limit: 1 });
    if ((items[0]?.number ?? 0) > number) return true;
  }
  return false;
}

async function hasLaterItems(store: Store, account: string, number: number): Promise<boolean> {
  for (let after: string | undefined; ;) {
    const page = await searchAudit({ store }, { filters: { account }, limit: PAGE_ITEMS, after });
    for (const item of page.items) {
      if ((item.number ?? 0) <= number) return false;
      if (hasPersonal(item)) return true;
    }
    after = page.next;
    if (after === undefined) return false;
  }
}

/** Covers the items before the newest `account_forgotten` of the account, which explains to verifiers why values are missing. */
export async function forgetInAudit(store: Store, account: string): Promise<void> {
  const end = await forgottenAt(store, account);
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
