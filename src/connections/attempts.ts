// Attempts: each try of an app for a person, from the registration or the first request to its first call, or to where it ended.
import type { AccessRefusal } from '../observability/labels.ts';
import { KEEP, type Store } from '../store/store.ts';

/** In the order in which an app passes them. */
export const ATTEMPT_STEPS = [
  'registered',
  'authorize',
  'provider',
  'consent',
  'code',
  'token',
  'first_call',
] as const;
export type AttemptStep = (typeof ATTEMPT_STEPS)[number];

export const ATTEMPT_ENDS = ['connected', 'refused', 'denied', 'failed', 'abandoned'] as const;
export type AttemptEnd = (typeof ATTEMPT_ENDS)[number];

/** Why an attempt went no further. Others are error codes (`refusalReasons`). */
export const ATTEMPT_REASONS = [
  'unknown_client',
  'redirect_refused',
  'provider_error',
  'metadata_document',
  'upstream_unreachable',
  'console',
  'not_authorized',
  'not_returned',
  'not_decided',
  'code_not_redeemed',
  'token_not_used',
] as const;
export type AttemptReason = (typeof ATTEMPT_REASONS)[number] | AccessRefusal;

/** Times in seconds since the epoch. */
export type Attempt = {
  id: string;
  /** Of the last page with an error that the person saw: the id of its request. */
  reference?: string | undefined;
  time: number;
  /** The furthest step. */
  step: AttemptStep;
  /** When something was last heard of the attempt. */
  heardAt: number;
  client?: string | undefined;
  clientName?: string | undefined;
  account?: string | undefined;
  connector?: string | undefined;
  grantId?: string | undefined;
  address?: string | undefined;
  /** Those that arrived with the last sign-in. */
  groups?: readonly string[] | undefined;
  end?: Exclude<AttemptEnd, 'connected' | 'abandoned'> | undefined;
  reason?: string | undefined;
  /** The error code of an identity provider, or what a request to another host failed with. */
  code?: string | undefined;
  /** How often an app used a client id that is not known: it repeats it. In a note, how often more. */
  count?: number | undefined;
  /** By how many names it is found. */
  named?: number | undefined;
};

/** What a request adds to an attempt. A note without `end` says that it goes on. */
export type AttemptNote = Partial<Omit<Attempt, 'id' | 'heardAt' | 'time'>> & {
  at: number;
};

const DAY_SECONDS = 86_400;
const ATTEMPT_SECONDS = 30 * DAY_SECONDS;
/** Longer, so that what expired can still be taken out of the lists that have it. */
const RECORD_SECONDS = ATTEMPT_SECONDS + DAY_SECONDS;
/** An attempt is found by so many names. */
const MAX_NAMED = 50;
const MAX_ATTEMPTS = 100_000;
/** Attempts that are deleted after one write, at most. */
const MAX_TRIMMED = 500;
/** Afterwards a connection says that no request with its token has arrived. */
export const UNUSED_SECONDS = 120;
/** A code expires after a minute. */
const CODE_SECONDS = 120;
/** Lifetime of the sign-in step and of the consent step, also in the engine. */
export const INTERACTION_SECONDS = 900;

const attemptKey = (id: string) => `attempt:${id}`;
/** An attempt is also found by the reference of a page, by the id of a grant and, before it is authorized, by the id of the client. */
const nameKey = (name: string) => `attempt-name:${name}`;
const COUNT_KEY = 'attempts:count';

/** Two sets, because attempts of known people are kept longest. */
type Kind = 'known' | 'unknown';
const listKey = (kind: Kind) => `attempts:${kind}`;
const ownerKey = (owner: 'account' | 'client', id: string) => `attempts-of-${owner}:${id}`;

/** Sorted by the millisecond. */
const placeAt = (time: number) => String(Math.floor(time * 1000)).padStart(15, '0');
const placeOf = ({ id, time }: Attempt) => `${placeAt(time)}.${id}`;
export const PLACE = /^\d{15}\.[\w-]{1,64}$/;
const idOfPlace = (place: string) => place.slice(place.indexOf('.') + 1);

/**
 * Adds a note. A later one of the same step or a further one replaces how it ended. A denial on the page of a refusal leaves the refusal.
 */
export function withNote(
  attempt: Attempt,
  { at, end, reason, code, ...note }: AttemptNote,
): Attempt {
  const given = Object.fromEntries(
    Object.entries(note).filter(([, value]) => value !== undefined),
  ) as Partial<Attempt>;
  const step = furthestOf(attempt.step, note.step);
  if (note.count !== undefined) given.count = (attempt.count ?? 0) + note.count;
  const isBack = end === undefined && note.step !== step;
  const isLeaving = end === 'denied' && attempt.end === 'refused';
  if (at < attempt.heardAt) return { ...given, ...attempt, step };
  const { end: _end, reason: _reason, code: _code, ...facts } = attempt;
  const before = isBack || isLeaving ? attempt : facts;
  const ended = end === undefined || isLeaving ? {} : { end, reason, code };
  return { ...before, ...given, step, heardAt: at, ...ended };
}

function furthestOf(one: AttemptStep, other: AttemptStep = one): AttemptStep {
  return ATTEMPT_STEPS.indexOf(one) < ATTEMPT_STEPS.indexOf(other) ? other : one;
}

/** How an attempt ended, or undefined while it may go on. Nobody reports that a person left, so time decides. */
export function endOf(
  { step, heardAt, end, reason }: Attempt,
  now: number,
): { end: AttemptEnd; reason?: string | undefined } | undefined {
  if (end) return { end, reason };
  if (step === 'first_call') return { end: 'connected' };
  const [seconds, left] = WAITS[step];
  return now - heardAt > seconds ? { end: 'abandoned', reason: left } : undefined;
}

const WAITS: Record<
  Exclude<AttemptStep, 'first_call'>,
  [seconds: number, reason: (typeof ATTEMPT_REASONS)[number]]
> = {
  registered: [INTERACTION_SECONDS, 'not_authorized'],
  authorize: [INTERACTION_SECONDS, 'not_returned'],
  provider: [INTERACTION_SECONDS, 'not_returned'],
  consent: [INTERACTION_SECONDS, 'not_decided'],
  code: [CODE_SECONDS, 'code_not_redeemed'],
  token: [UNUSED_SECONDS, 'token_not_used'],
};

export async function findAttempt(store: Store, id: string): Promise<Attempt | undefined> {
  return (await store.get<Attempt>(attemptKey(id)))?.value;
}

/** Finds an attempt by its id, the reference of a page, or the id of a grant. */
export async function findAttemptNamed(store: Store, name: string): Promise<Attempt | undefined> {
  const id = await findAttemptId(store, name);
  return findAttempt(store, id ?? name);
}

export async function findAttemptId(store: Store, name: string): Promise<string | undefined> {
  return (await store.get<string>(nameKey(name)))?.value;
}

/** Returns those of the grants with whose tokens no request has arrived within two minutes. */
export async function findUnused(
  store: Store,
  grantIds: readonly string[],
  now: number,
): Promise<Set<string>> {
  const named = await store.getMany<string>(grantIds.map(nameKey));
  const ids = grantIds.map((id, index) => named[index] ?? id);
  const attempts = await store.getMany<Attempt>(ids.map(attemptKey));
  const isUnused = (attempt: Attempt | undefined) =>
    attempt !== undefined && endOf(attempt, now)?.reason === 'token_not_used';
  return new Set(grantIds.filter((_, index) => isUnused(attempts[index])));
}

/** Notes of one attempt, in order. */
export type NotedAttempt = {
  id: string;
  notes: readonly AttemptNote[];
  /** By what it is found as well. */
  names: readonly string[];
  /** Without it, the notes are dropped unless the attempt is known. */
  creates: boolean;
};

/** Writes notes. `mayAdd` is asked about a new attempt without a person. Returns the attempt, unless it was not stored. */
export async function saveNotes(
  store: Store,
  { id, notes, names, creates }: NotedAttempt,
  mayAdd: () => Promise<boolean>,
): Promise<Attempt | undefined> {
  const found = await store.get<Attempt>(attemptKey(id));
  const before = found?.value;
  const isNew = before === undefined;
  if (isNew && !creates) return undefined;
  const isUnknown = notes.every(({ account }) => account === undefined);
  // Asked before `begin`, which deletes the registration that the attempt continues.
  if (isNew && isUnknown && !(await mayAdd())) return undefined;
  const begun = before ?? (await begin(store, id, notes));
  if (!begun) return undefined;
  const { named = 0 } = begun;
  // Each request with an unknown client id has a reference, and all of them are one attempt.
  const added = names.slice(0, MAX_NAMED - named);
  const noted = (current: Attempt) => ({
    ...notes.reduce<Attempt>(withNote, current),
    named: named + added.length,
  });
  const first = noted(begun);
  const isAdded = isNew && (await store.add(attemptKey(id), first, RECORD_SECONDS));
  const stored = isAdded
    ? first
    : (
        await store.update<Attempt>(
          attemptKey(id),
          (current) => (current ? { value: noted(current), ttl: RECORD_SECONDS } : KEEP),
          found,
        )
      )?.value;
  if (!stored) return undefined;
  await list(store, stored, before);
  await Promise.all(added.map((name) => store.set(nameKey(name), id, ATTEMPT_SECONDS)));
  return stored;
}

/** The first authorization of a client continues the attempt that began with its registration. */
async function begin(
  store: Store,
  id: string,
  notes: readonly AttemptNote[],
): Promise<Attempt | undefined> {
  const [first] = notes;
  if (!first) return undefined;
  const begun: Attempt = { id, time: first.at, step: 'registered', heardAt: first.at };
  const client = notes.find((note) => note.client !== undefined)?.client;
  // With the registration among its notes, there is no other record.
  if (client === undefined || notes.some(({ step }) => step === 'registered')) return begun;
  const registered = await store.take<string>(nameKey(registrationName(client)));
  const earlier = registered === undefined ? undefined : await findAttempt(store, registered);
  if (!earlier || earlier.step !== 'registered') return begun;
  await deleteAttempt(store, earlier);
  const { time, clientName } = earlier;
  return { ...begun, time, clientName };
}

export function registrationName(client: string): string {
  return `registration of ${client}`;
}

async function list(store: Store, attempt: Attempt, before: Attempt | undefined): Promise<void> {
  const { account, client } = attempt;
  const place = placeOf(attempt);
  const kind = kindOf(attempt);
  const earlier = before && kindOf(before);
  const owners = [
    ...(account !== undefined && account !== before?.account ? [ownerKey('account', account)] : []),
    ...(client !== undefined && client !== before?.client ? [ownerKey('client', client)] : []),
    ...(kind === earlier ? [] : [listKey(kind)]),
  ];
  await Promise.all(owners.map((key) => store.addMember(key, place, ATTEMPT_SECONDS)));
  if (kind === earlier) return;
  if (earlier) await store.removeMember(listKey(earlier), place);
  await count(store, { [kind]: 1, ...(earlier ? { [earlier]: -1 } : {}) });
}

function kindOf({ account }: Attempt): Kind {
  return account === undefined ? 'unknown' : 'known';
}

type Counts = Record<Kind, number>;

/** Approximate: a process that stops between two writes leaves them as they were. */
async function count(store: Store, change: Partial<Counts>): Promise<void> {
  await store.update<Counts>(COUNT_KEY, (current) => ({
    value: {
      known: Math.max(0, (current?.known ?? 0) + (change.known ?? 0)),
      unknown: Math.max(0, (current?.unknown ?? 0) + (change.unknown ?? 0)),
    },
    ttl: Infinity,
  }));
}

async function deleteAttempt(store: Store, attempt: Attempt): Promise<void> {
  await store.delete(attemptKey(attempt.id));
  const { account, client } = attempt;
  const place = placeOf(attempt);
  const kind = kindOf(attempt);
  await Promise.all([
    store.removeMember(listKey(kind), place),
    ...(account === undefined ? [] : [store.removeMember(ownerKey('account', account), place)]),
    ...(client === undefined ? [] : [store.removeMember(ownerKey('client', client), place)]),
  ]);
  await count(store, { [kind]: -1 });
}

/** Removes what has expired, and the oldest above the limit, those without a person first. */
export async function trimAttempts(store: Store, now: number, max = MAX_ATTEMPTS): Promise<void> {
  const expired = placeAt(now - ATTEMPT_SECONDS);
  for (const kind of ['unknown', 'known'] as const) {
    const counts = (await store.get<Counts>(COUNT_KEY))?.value;
    const excess = counts ? counts.known + counts.unknown - max : 0;
    const oldest = await store.page(listKey(kind), { limit: MAX_TRIMMED });
    const trimmed = oldest.filter((place, index) => index < excess || place < expired);
    for (const place of trimmed) {
      const attempt = await findAttempt(store, idOfPlace(place));
      if (attempt && kindOf(attempt) === kind) await deleteAttempt(store, attempt);
      else {
        await store.removeMember(listKey(kind), place);
        await count(store, { [kind]: -1 });
      }
    }
  }
}

const PAGE_ATTEMPTS = 50;

/** Yields attempts, newest first, that follow the cursor `after`. Entries whose attempt is gone have none. */
export async function* listAttempts(
  store: Store,
  { account, client, after }: { account?: string; client?: string; after?: string | undefined },
): AsyncGenerator<{ item: Attempt | undefined; cursor: string }> {
  const keys =
    account !== undefined
      ? [ownerKey('account', account)]
      : client !== undefined
        ? [ownerKey('client', client)]
        : [listKey('known'), listKey('unknown')];
  let last = after;
  for (;;) {
    const range = { after: last, limit: PAGE_ATTEMPTS, newestFirst: true };
    const pages = await Promise.all(keys.map((key) => store.page(key, range)));
    const places = [...new Set(pages.flat())].sort().toReversed().slice(0, PAGE_ATTEMPTS);
    const found = await store.getMany<Attempt>(places.map((each) => attemptKey(idOfPlace(each))));
    for (const [index, cursor] of places.entries()) yield { item: found[index], cursor };
    if (places.length < PAGE_ATTEMPTS) return;
    last = places.at(-1);
  }
}

/** Deletes the attempts of a person. */
export async function forgetAttempts(store: Store, account: string): Promise<void> {
  for await (const { item } of listAttempts(store, { account }))
    if (item) await deleteAttempt(store, item);
  await store.delete(ownerKey('account', account));
}
