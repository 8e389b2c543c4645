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
const MAX_WAITING = 10_000;
/** Connections whose first call this process waits for, to count those without one. */
const MAX_WATCHED = 10_000;
/** Grants of which a call was noted. */
const MAX_CALLED = 50_000;
const TRIM_SECONDS = 60;

type Waiting = { subject: AttemptSubject; note: AttemptNote };

export function openAttemptRecorder(options: AttemptRecorderOptions): AttemptRecorder {
  const { store, logger, metrics, now, mayAdd, keptAddress } = options;
  let waiting: Waiting[] = [];
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
  const writeAll = async () => {
    const taken = waiting;
    waiting = [];
    for (const noted of await grouped(store, taken)) await write(noted);
    await countUnused();
    if (taken.length > 0 && now() - trimmedAt > TRIM_SECONDS) {
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
    if (waiting.length > 0 || watched.size > 0) schedule();
  };
  const note: AttemptRecorder['note'] = (subject, added) => {
    if (waiting.length >= MAX_WAITING) return;
    waiting.push({ subject, note: { ...added, at: now() } });
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

/** The notes of each attempt together. Those of a grant follow those that led to it. */
async function grouped(store: Store, waiting: readonly Waiting[]): Promise<NotedAttempt[]> {
  const byId = new Map<string, { notes: AttemptNote[]; names: Set<string>; creates: boolean }>();
  const idsOfNames = new Map<string, string>();
  for (const { subject, note } of waiting) {
    const id =
      'id' in subject
        ? subject.id
        : (idsOfNames.get(subject.grant) ?? (await findAttemptId(store, subject.grant)));
    if (id === undefined) continue;
    const group = byId.get(id) ?? { notes: [], names: new Set(), creates: false };
    byId.set(id, group);
    group.notes.push(note);
    if (!('id' in subject)) continue;
    group.creates = true;
    for (const name of subject.names ?? []) {
      group.names.add(name);
      idsOfNames.set(name, id);
    }
  }
  return [...byId].map(([id, { notes, names, creates }]) => ({
    id,
    notes,
    names: [...names],
    creates,
  }));
}
