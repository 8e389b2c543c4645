// Finds audit items by event, account, client or grant. The index lists the ids of their entries. It is written behind the log, in the background,
// so it also covers what processes of earlier versions record.
import { type BackgroundLoop, startLoop } from '../background-loop.ts';
import type { Entry, Store } from '../store/store.ts';
import { type AuditItem, AUDIT_RETENTION_SECONDS, readAudit } from './audit.ts';

/** What an item is about. */
export type AuditSubject = { kind: 'event' | 'account' | 'client' | 'grant'; id: string };

/** The last entry in the index. */
type Progress = { last: string };

const PROGRESS = 'audit-index:progress';
const TURN = 'audit-index:turn';
const TURN_SECONDS = 30;
const BATCH_ITEMS = 50;
const BATCH_PAUSE_MS = 50;
const INTERVAL_MS = 2000;
const PAGE_ITEMS = 50;

/** One set for each period, so that old sets expire as a whole. */
const indexKey = ({ kind, id }: AuditSubject, period: number) => `audit-of-${kind}:${id} ${period}`;

/** They are so many that the log itself finds them as fast. */
const FREQUENT = ['call', 'client_registered'];
/** Anybody can register clients, so these items are in no set. */
const ANONYMOUS = 'client_registered';

/** Undefined for frequent events. */
export function eventSubject(event: string): AuditSubject | undefined {
  return FREQUENT.includes(event) ? undefined : { kind: 'event', id: event };
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
  if (!value || value.event === ANONYMOUS) return;
  const { event, account, clientId, grantId } = value;
  const subjects = [
    eventSubject(event),
    account === undefined ? undefined : { kind: 'account' as const, id: account },
    clientId === undefined ? undefined : { kind: 'client' as const, id: clientId },
    grantId === undefined ? undefined : { kind: 'grant' as const, id: grantId },
  ].filter((subject) => subject !== undefined);
  const period = periodOf(Date.parse(value.time) / 1000);
  const add = (subject: AuditSubject) =>
    store.addMember(indexKey(subject, period), memberOf(id), AUDIT_RETENTION_SECONDS);
  await Promise.all(subjects.map(add));
}

function periodOf(time: number): number {
  return Math.floor(time / AUDIT_RETENTION_SECONDS);
}

const HALF = 16;
const MAX_SEQUENCE = 99;

/** Short, because Redis stores short members compactly. Sorted as the ids, unless more than 99 entries have one millisecond. */
function memberOf(id: string): string {
  const [time, sequence] = [Number(id.slice(0, HALF)), Number(id.slice(HALF))];
  if (time === 0) return `${sequence}.`;
  const digits = String(Math.min(sequence, MAX_SEQUENCE)).padStart(2, '0');
  return `${time}${digits}.${sequence}`;
}

function idOf(member: string): string {
  const [number = '', sequence = ''] = member.split('.');
  const halves = sequence === '' ? ['', number] : [number.slice(0, -2), sequence];
  return halves.map((half) => half.padStart(HALF, '0')).join('');
}

/** Keeps the index up to date until stopped. */
export function startAuditIndex(store: Store): BackgroundLoop {
  return startLoop(async () => {
    // The store reports its own failures, and the next run tries again.
    const hasMore = await indexAudit(store).catch(() => false);
    return hasMore ? BATCH_PAUSE_MS : INTERVAL_MS;
  });
}

/** The id of the last entry in the index. Undefined if there is none. */
export async function lastIndexed(store: Store): Promise<string | undefined> {
  return (await store.get<Progress>(PROGRESS))?.value.last;
}

/** Yields the indexed entries about a subject that are older than the entry `after`, newest first. Removes those that were trimmed. */
export async function* indexedEntries(
  store: Store,
  subject: AuditSubject,
  { after, now }: { after: string | undefined; now: number },
): AsyncGenerator<Entry<AuditItem>> {
  // The clocks of processes differ.
  const newest = periodOf(now) + 1;
  for (const period of [newest, newest - 1, newest - 2]) {
    const key = indexKey(subject, period);
    for (let last = after && memberOf(after); ;) {
      const page = await store.page(key, { after: last, limit: PAGE_ITEMS, newestFirst: true });
      const found = await Promise.all(page.map((member) => readEntry(store, idOf(member))));
      for (const [index, member] of page.entries()) {
        const entry = found[index];
        if (entry) yield entry;
        // If it fails, the next read tries again.
        else await store.removeMember(key, member).catch(() => undefined);
      }
      if (page.length < PAGE_ITEMS) break;
      last = page.at(-1);
    }
  }
}

/** Undefined if the entry was trimmed. */
async function readEntry(store: Store, id: string): Promise<Entry<AuditItem> | undefined> {
  const before = String(BigInt(id) - 1n).padStart(id.length, '0');
  const [entry] = await readAudit(store, { after: before, limit: 1 });
  return entry?.id === id ? entry : undefined;
}
