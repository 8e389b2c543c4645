// Writes attempts after the responses: a request waits for nothing here.
import type { Logger } from 'pino';
import { lruCache } from '../lru-cache.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Store } from '../store/store.ts';
import {
  type Attempt,
  type AttemptNote,
  endOf,
  findAttempt,
  findAttemptId,
  type NotedAttempt,
  registrationName,
  saveNotes,
  trimAttempts,
  UNUSED_SECONDS,
} from './attempts.ts';

/** `grant`: of the attempt that led to it. `names`: by what the attempt is found afterwards. */
export type AttemptSubject = { id: string; names?: readonly string[] } | { grant: string };

export type AttemptRecorder = {
  /** Only adds to a list. */
  note(subject: AttemptSubject, note: Omit<AttemptNote, 'at'>): void;
  /** A request with a valid token of the grant has arrived. */
  called(grantId: string): void;
  /** Resolves when everything was written, or could not be. Never rejects. */
  close(): Promise<void>;
};

export type AttemptRecorderOptions = {
  store: Store;
  logger: Logger;
  metrics: Pick<Metrics, 'unusedConnection'>;
  /** Seconds since the epoch. */
  now: () => number;
  /** Whether an attempt without a person may be added for the address. */
  mayAdd: (address: string) => Promise<boolean>;
  /** The address as the settings let it be kept. */
  keptAddress: (address: string) => string | undefined;
};

const FLUSH_MS = 500;
/** An attempt is written when nothing more was noted for this long, or at once if it ended: its steps mostly follow each other quickly. */
const REST_MS = 2000;
/** An attempt that goes on is written after this time. */
const MAX_HELD_MS = 10_000;
/** Notes. */
const MAX_WAITING = 10_000;
/** Connections whose first call this process waits for, to count those without one. */
const MAX_WATCHED = 10_000;
/** Grants of which a call was noted. */
const MAX_CALLED = 50_000;
const TRIM_SECONDS = 60;

/** Notes that are not written yet, of an attempt or of the grant that it led to. */
type Waiting = {
  subject: AttemptSubject;
  notes: AttemptNote[];
  names: Set<string>;
  /** Monotonic times in milliseconds. */
  firstAt: number;
  lastAt: number;
};

export function openAttemptRecorder(options: AttemptRecorderOptions): AttemptRecorder {
  const { store, logger, metrics, now, mayAdd, keptAddress } = options;
  const waiting = new Map<string, Waiting>();
  /** Keys in `waiting`, by name. */
  const named = new Map<string, string>();
  let count = 0;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;
  let trimmedAt = now();
  let isClosed = false;
  const called = lruCache<true>(MAX_CALLED);
  /** When the token of an attempt was issued. */
  const watched = new Map<string, number>();

  const schedule = () => {
    if (!isClosed) timer ??= setTimeout(() => void flush(), FLUSH_MS).unref();
  };
  const write = async (noted: NotedAttempt) => {
    const addressOf = ({ address }: AttemptNote) => address;
    const address = noted.notes.map(addressOf).find((each) => each !== undefined);
    const notes = noted.notes.map((note) => ({
      ...note,
      address: note.address === undefined ? undefined : keptAddress(note.address),
    }));
    const stored = await saveNotes(store, { ...noted, notes }, async () =>
      address === undefined ? true : mayAdd(address),
    );
    if (stored) watch(stored, noted.notes);
  };
  const watch = ({ id, step }: Attempt, notes: readonly AttemptNote[]) => {
    const issued = notes.find((note) => note.step === 'token' && note.end === undefined);
    if (step === 'token' && issued && watched.size < MAX_WATCHED) watched.set(id, issued.at);
    else if (step === 'first_call') watched.delete(id);
  };
  const countUnused = async () => {
    for (const [id, at] of watched) {
      // The oldest come first.
      if (now() - at <= UNUSED_SECONDS) break;
      watched.delete(id);
      const attempt = await findAttempt(store, id);
      if (!attempt || endOf(attempt, now())?.reason !== 'token_not_used') continue;
      metrics.unusedConnection();
      const { client, connector, grantId } = attempt;
      logger.warn(
        { clientId: client, connector, grantId },
        'no request with the token of a new connection has arrived',
      );
    }
  };
  const take = (key: string, taken: Waiting) => {
    waiting.delete(key);
    for (const name of taken.names) named.delete(name);
    count -= taken.notes.length;
    return taken;
  };
  const writeAll = async () => {
    const isDue = (held: Waiting) => isClosed || isRested(held, performance.now());
    const due = [...waiting].filter(([, held]) => isDue(held));
    // The notes of a grant follow those that led to it.
    for (const held of due.map(([key, each]) => take(key, each))) {
      const id =
        'id' in held.subject ? held.subject.id : await findAttemptId(store, held.subject.grant);
      if (id === undefined) continue;
      const { notes, names, subject } = held;
      await write({ id, notes, names: [...names], creates: 'id' in subject });
    }
    await countUnused();
    if (due.length > 0 && now() - trimmedAt > TRIM_SECONDS) {
      trimmedAt = now();
      await trimAttempts(store, now());
    }
  };
  const flush = async () => {
    timer = undefined;
    // What a failed write had is lost: attempts are a help, and not a record that must be complete.
    writing = (writing ?? Promise.resolve()).then(writeAll).catch((error: unknown) => {
      logger.warn({ err: error }, 'attempts to connect could not be recorded');
    });
    await writing;
    if (waiting.size > 0 || watched.size > 0) schedule();
  };
  const keyOf = (subject: AttemptSubject) =>
    'id' in subject ? subject.id : (named.get(subject.grant) ?? `grant ${subject.grant}`);
  /** The registration that an authorization continues is part of the same attempt. */
  const continued = (subject: AttemptSubject, { client, step }: Omit<AttemptNote, 'at'>) => {
    if (client === undefined || step === 'registered' || !('id' in subject)) return [];
    const name = registrationName(client);
    const key = named.get(name);
    const held = key === undefined ? undefined : waiting.get(key);
    if (key === undefined || !held) return [];
    return take(key, held).notes;
  };
  const begin = (key: string, subject: AttemptSubject, notes: AttemptNote[]): Waiting => {
    const at = performance.now();
    const held = { subject, notes, names: new Set<string>(), firstAt: at, lastAt: at };
    waiting.set(key, held);
    count += notes.length;
    return held;
  };
  const note: AttemptRecorder['note'] = (subject, added) => {
    if (count >= MAX_WAITING) return;
    const key = keyOf(subject);
    const at = performance.now();
    const held = waiting.get(key) ?? begin(key, subject, continued(subject, added));
    held.notes.push({ ...added, at: now() });
    held.lastAt = at;
    count += 1;
    for (const name of 'id' in subject ? (subject.names ?? []) : []) {
      held.names.add(name);
      named.set(name, key);
    }
    schedule();
  };
  return {
    note,
    called(grantId) {
      if (called.has(grantId)) return;
      called.set(grantId, true);
      note({ grant: grantId }, { step: 'first_call' });
    },
    async close() {
      isClosed = true;
      clearTimeout(timer);
      await flush();
    },
  };
}

/** One that ended is wanted at once: somebody may look up the reference of its page. */
function isRested({ notes, firstAt, lastAt }: Waiting, at: number): boolean {
  const hasEnded = notes.at(-1)?.end !== undefined;
  return hasEnded || at - lastAt >= REST_MS || at - firstAt >= MAX_HELD_MS;
}
