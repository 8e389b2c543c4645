// Finds accounts by the beginnings of the words of their name and email address, and the disabled ones. The sets only say where to look first:
// lists read all other accounts after them, so that an account that is not in its sets yet is found too.
import { setTimeout as delay } from 'node:timers/promises';
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import type { Store } from '../store/store.ts';
import { type Account, verifiedEmailOf } from './account.ts';

const DAY = 86_400;
/** The sets are completed once a day. */
const TTL = 7 * DAY;
const PREFIX_LETTERS = 4;
const MAX_WORDS = 12;
export const DISABLED = 'disabled-accounts:all';
const BUILT = 'account-index:built';
const BUILDING_SECONDS = 3600;
const BATCH_ACCOUNTS = 50;
const BATCH_PAUSE_MS = 50;
const CHECK_INTERVAL_MS = 600_000;

const setOf = (prefix: string) => `accounts-named:${prefix}`;

function wordsIn(text: string): string[] {
  const folded = text.normalize('NFKC').toLowerCase();
  return folded.split(/[^\p{L}\p{N}]+/u).map((word) => [...word].slice(0, PREFIX_LETTERS).join(''));
}

/** The sets that an account belongs to. Shorter words are not in a set of their own. */
function setsOf(account: Account | undefined): string[] {
  if (!account) return [];
  const { name, disabledAt } = account;
  const words = [...wordsIn(name), ...wordsIn(verifiedEmailOf(account) ?? '')];
  const named = setsNamed(words).slice(0, MAX_WORDS);
  return disabledAt === undefined ? named : [...named, DISABLED];
}

function setsNamed(words: readonly string[]): string[] {
  const long = words.filter((word) => [...word].length === PREFIX_LETTERS);
  return [...new Set(long)].map(setOf);
}

/** The sets that hold most of the accounts with these words. */
export function setsFor(q: string): string[] {
  return setsNamed(wordsIn(q)).slice(0, MAX_WORDS);
}

/** Call after an account was written. */
export async function indexAccount(
  store: Store,
  before: Account | undefined,
  after: Account,
): Promise<void> {
  const [earlier, later] = [setsOf(before), setsOf(after)];
  const left = earlier.filter((set) => !later.includes(set));
  const entered = later.filter((set) => !earlier.includes(set));
  await Promise.all([
    ...left.map((set) => store.removeMember(set, after.id)),
    ...entered.map((set) => store.addMember(set, after.id, TTL)),
  ]);
}

/** Adds all accounts to their sets, if no process did so within a day. Resolves to true if it did. */
export async function buildAccountIndex(
  store: Store,
  accounts: AsyncIterable<Account>,
  pauseMs = 0,
): Promise<boolean> {
  if (!(await store.add(BUILT, true, BUILDING_SECONDS))) return false;
  let batch: Promise<void>[] = [];
  for await (const account of accounts) {
    batch.push(indexAccount(store, undefined, account));
    if (batch.length < BATCH_ACCOUNTS) continue;
    await Promise.all(batch);
    batch = [];
    await delay(pauseMs, undefined, { ref: false });
  }
  await Promise.all(batch);
  await store.set(BUILT, true, DAY);
  return true;
}

/** Completes the sets once a day until stopped. */
export function startAccountIndex(
  store: Store,
  list: () => AsyncIterable<Account>,
): BackgroundLoop {
  async function* until(signal: AbortSignal) {
    for await (const account of list()) {
      signal.throwIfAborted();
      yield account;
    }
  }
  return startLoop(async (signal) => {
    // The store reports its own failures, and the next run tries again.
    await buildAccountIndex(store, until(signal), BATCH_PAUSE_MS).catch(() => undefined);
    return CHECK_INTERVAL_MS;
  });
}
