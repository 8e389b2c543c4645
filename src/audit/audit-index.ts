// Finds audit items by event, account, client or grant. The index lists the ids of their entries. It is written behind the log, in the background,
// so it also covers what processes of earlier versions record.
import { setTimeout as delay } from 'node:timers/promises';
import type { Entry, Store } from '../store/store.ts';
import { type AuditItem, AUDIT_RETENTION_SECONDS, readAudit } from './audit.ts';

/** What an item is about. */
export type AuditSubject = { kind: 'event' | 'account' | 'client' | 'grant'; id: string };

/** The last entry in the index. */
type Progress = { last: string };

const PROGRESS = 'audit-index:progress';
const TURN = 'audit-index:turn';
const TURN_SECONDS = 30;
const BATCH_ITEMS = 200;
const BATCH_PAUSE_MS = 20;
const INTERVAL_MS = 2000;
const PAGE_ITEMS = 50;

const indexKey = ({ kind, id }: AuditSubject) => `audit-of-${kind}:${id}`;

/** Undefined for calls, which are so many that the log itself finds them as fast. */
export function eventSubject(event: string): AuditSubject | undefined {
  return event === 'call' ? undefined : { kind: 'event', id: event };
}

/** Adds the next items to the index, if no other process does. Resolves to true if there may be more. */
export async function indexAudit(store: Store): Promise<boolean> {
  const after = await lastIndexed(store);
  const waiting = await readAudit(store, { after, limit: 1 });
  if (waiting.length === 0 || !(await store.add(TURN, true, TURN_SECONDS))) return false;
  try {
    // Another process may have had its turn since the first read.
    const last = await lastIndexed(store);
    const entries = await readAudit(store, { after: last, limit: BATCH_ITEMS });
    await Promise.all(entries.map((entry) => indexEntry(store, entry)));
    const next = entries.at(-1)?.id;
    if (next !== undefined) await store.set<Progress>(PROGRESS, { last: next }, Infinity);
    return entries.length === BATCH_ITEMS;
  } finally {
    await store.delete(TURN);
  }
}

async function indexEntry(store: Store, { id, value }: Entry<AuditItem>): Promise<void> {
  const { event = '', account, clientId, grantId } = value ?? {};
  const subjects = [
    eventSubject(event),
    account === undefined ? undefined : { kind: 'account' as const, id: account },
    clientId === undefined ? undefined : { kind: 'client' as const, id: clientId },
    grantId === undefined ? undefined : { kind: 'grant' as const, id: grantId },
  ];
  await Promise.all(
    subjects.map((subject) =>
      subject && value ? store.append(indexKey(subject), id, AUDIT_RETENTION_SECONDS) : undefined,
    ),
  );
}

/** Keeps the index up to date until stopped. */
export function startAuditIndex(store: Store): { stop: () => Promise<void> } {
  const stopping = new AbortController();
  const { signal } = stopping;
  const run = async () => {
    while (!signal.aborted) {
      // The store reports its own failures, and the next turn tries again.
      const hasMore = await indexAudit(store).catch(() => false);
      await delay(hasMore ? BATCH_PAUSE_MS : INTERVAL_MS, undefined, { signal, ref: false });
    }
  };
  const running = run().catch(() => undefined);
  return {
    async stop() {
      stopping.abort();
      await running;
    },
  };
}

/** The id of the last entry in the index. Undefined if there is none. */
export async function lastIndexed(store: Store): Promise<string | undefined> {
  return (await store.get<Progress>(PROGRESS))?.value.last;
}

/** Yields the indexed entries about a subject, newest first. `place` continues behind an entry. An entry may be there twice. */
export async function* indexedEntries(
  store: Store,
  subject: AuditSubject,
  after: { place?: string | undefined; id?: string | undefined },
): AsyncGenerator<Entry<AuditItem> & { place: string }> {
  const newestFirst = true;
  const seen = new Set<string>();
  for (let last = after.place; ;) {
    const range = { after: last, limit: PAGE_ITEMS, newestFirst };
    const page = await store.range<string>(indexKey(subject), range);
    const wanted = page.flatMap(({ id: place, value: id }) =>
      id === undefined || seen.has(id) || (after.id !== undefined && id >= after.id)
        ? []
        : [{ place, id }],
    );
    const found = await Promise.all(wanted.map(({ id }) => readEntry(store, id)));
    for (const [index, { place, id }] of wanted.entries()) {
      const entry = found[index];
      if (entry && !seen.has(id)) yield { ...entry, place };
      seen.add(id);
    }
    if (page.length < PAGE_ITEMS) return;
    last = page.at(-1)?.id;
  }
}

/** Undefined if the entry was trimmed. */
async function readEntry(store: Store, id: string): Promise<Entry<AuditItem> | undefined> {
  const before = String(BigInt(id) - 1n).padStart(id.length, '0');
  const [entry] = await readAudit(store, { after: before, limit: 1 });
  return entry?.id === id ? entry : undefined;
}
