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

/** Searches compare folded texts. */
export function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase();
}

function textOf(account: Account): string {
  return fold(`${account.name} ${verifiedEmailOf(account) ?? ''}`);
}

/** Of a folded text, the words that have a set. */
function indexedWords(text: string): string[] {
  const words = text.split(/[^\p{L}\p{N}]+/u);
  return words.filter((word) => [...word].length >= PREFIX_LETTERS);
}

function setNamed(word: string): string {
  return setOf([...word].slice(0, PREFIX_LETTERS).join(''));
}

function setsNamed(text: string): string[] {
  return [...new Set(indexedWords(text).map(setNamed))].slice(0, MAX_WORDS);
}

/** The sets that an account belongs to. */
function setsOf(account: Account | undefined): string[] {
  if (!account) return [];
  const named = setsNamed(textOf(account));
  return account.disabledAt === undefined ? named : [...named, DISABLED];
}

/** The sets that hold most of the accounts with these words. */
export function setsFor(q: string): string[] {
  return setsNamed(fold(q));
}

/** Whether the account has the words of `q` that belong to `sets`. The sets only have their beginnings. */
export function hasWordsOf(account: Account, q: string, sets: readonly string[]): boolean {
  const text = textOf(account);
  return indexedWords(fold(q))
    .filter((word) => sets.includes(setNamed(word)))
    .every((word) => text.includes(word));
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
